package vm

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// File is a file in a guest.
type File struct {
	Content []byte
	Mode    fs.FileMode // 0 is 0o644
}

// seed is what one guest finds on its second disk: a tar archive, which it unpacks before anything else starts.
type seed struct {
	token       string            // opens the agent
	environment map[string]string // of our units
	files       map[string]File   // by absolute path
	images      []string          // docker archives, imported before the kubelet starts
}

// write writes the archive. It may hold keys.
func (s seed) write(path string) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing a guest's files: %w", err)
	}
	defer out.Close()
	archive := tar.NewWriter(out)
	if err := s.fill(archive); err != nil {
		return fmt.Errorf("writing a guest's files: %w", err)
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("writing a guest's files: %w", err)
	}
	return out.Close()
}

func (s seed) fill(archive *tar.Writer) error {
	files := maps.Clone(s.files)
	if files == nil {
		files = map[string]File{}
	}
	files["/etc/podgrace/token"] = File{Content: []byte(s.token), Mode: 0o600}
	files["/etc/podgrace/environment"] = File{Content: environmentFile(s.environment)}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !path.IsAbs(name) {
			return fmt.Errorf("%s is not an absolute path", name)
		}
		file := files[name]
		if err := addFile(archive, name, file.Mode, int64(len(file.Content)), bytes.NewReader(file.Content)); err != nil {
			return err
		}
	}
	for i, image := range s.images {
		if err := addImage(archive, i, image); err != nil {
			return err
		}
	}
	return nil
}

func addImage(archive *tar.Writer, number int, image string) error {
	file, err := os.Open(image)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("/var/lib/podgrace/images/%d-%s", number, filepath.Base(image))
	return addFile(archive, strings.TrimSuffix(name, ".tar")+".tar", 0, info.Size(), file)
}

func addFile(archive *tar.Writer, name string, mode fs.FileMode, size int64, content io.Reader) error {
	if mode == 0 {
		mode = 0o644
	}
	header := &tar.Header{Name: strings.TrimPrefix(path.Clean(name), "/"), Mode: int64(mode.Perm()), Size: size, Format: tar.FormatGNU}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}

// environment is what the units in files/ want to know.
func environment(name, address, podSubnet string) map[string]string {
	return map[string]string{"NODE_NAME": name, "NODE_ADDRESS": address, "POD_SUBNET": podSubnet}
}

// environmentFile is in the format of systemd's EnvironmentFile; values are names and addresses and need no quotes.
func environmentFile(values map[string]string) []byte {
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&text, "%s=%s\n", name, values[name])
	}
	return text.Bytes()
}
