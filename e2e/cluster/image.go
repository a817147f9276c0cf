package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// PauseImage is on every node of StartKubelet. Its program waits for SIGTERM, so it serves as an idle workload
// too; use it with imagePullPolicy Never.
const PauseImage = "localhost/podgrace/pause:1"

// BuildImage compiles the program in a folder of this repository (GoBuild), and writes an image of nothing else to out, for
// KubeletOptions.Images. The program is the image's entrypoint.
func BuildImage(ctx context.Context, reference, folder, out string) error {
	temp, err := os.MkdirTemp("", "podgrace-image-")
	if err != nil {
		return fmt.Errorf("building image %s: %w", reference, err)
	}
	defer os.RemoveAll(temp)
	binary := filepath.Join(temp, "program")
	if err := GoBuild(ctx, binary, folder); err != nil {
		return fmt.Errorf("building image %s: %w", reference, err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("building image %s: %w", reference, err)
	}
	var archive bytes.Buffer
	if err := writeImage(&archive, reference, content); err != nil {
		return fmt.Errorf("building image %s: %w", reference, err)
	}
	if err := os.WriteFile(out, archive.Bytes(), 0o644); err != nil {
		return fmt.Errorf("building image %s: %w", reference, err)
	}
	return nil
}

// tarFile is one regular file of an archive.
type tarFile struct {
	name    string
	mode    int64
	content []byte
}

// writeImage writes a docker archive with one layer, which has one file: the entrypoint.
func writeImage(w io.Writer, reference string, program []byte) error {
	const entrypoint = "program"
	var layer bytes.Buffer
	if err := writeTar(&layer, tarFile{entrypoint, 0o755, program}); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/" + entrypoint}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}},
	})
	if err != nil {
		return fmt.Errorf("encoding the image's configuration: %w", err)
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{reference}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return fmt.Errorf("encoding the image's manifest: %w", err)
	}
	return writeTar(w, tarFile{"manifest.json", 0o644, manifest}, tarFile{"config.json", 0o644, config}, tarFile{"layer.tar", 0o644, layer.Bytes()})
}

func writeTar(w io.Writer, files ...tarFile) error {
	archive := tar.NewWriter(w)
	for _, file := range files {
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.content)), Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("archiving %s: %w", file.name, err)
		}
		if _, err := archive.Write(file.content); err != nil {
			return fmt.Errorf("archiving %s: %w", file.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("ending an archive: %w", err)
	}
	return nil
}
