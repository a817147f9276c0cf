package vmnode

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSeed(t *testing.T) {
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	if err := os.WriteFile(image, []byte("layers"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := seed{
		token:       "secret",
		environment: environment("n", "10.0.0.1", "10.1.0.0/24"),
		files:       map[string]File{"/opt/program": {Content: []byte("#!"), Mode: 0o755}, "/opt/../etc/x": {Content: []byte("y")}},
		images:      []string{image},
	}
	path := filepath.Join(dir, "seed.tar")
	if err := s.write(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size()%512 != 0 { // a disk has whole sectors
		t.Errorf("got %v, %v", info, err)
	}
	want := map[string]entry{
		"etc/podgrace/token":                  {Content: "secret", Mode: 0o600},
		"etc/podgrace/environment":            {Content: "NODE_ADDRESS=10.0.0.1\nNODE_NAME=n\nPOD_SUBNET=10.1.0.0/24\n", Mode: 0o644},
		"opt/program":                         {Content: "#!", Mode: 0o755},
		"etc/x":                               {Content: "y", Mode: 0o644},
		"var/lib/podgrace/images/0-image.tar": {Content: "layers", Mode: 0o644},
	}
	if diff := cmp.Diff(want, untar(t, path)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSeedWantsAbsolutePaths(t *testing.T) {
	s := seed{files: map[string]File{"etc/x": {}}}
	if err := s.write(filepath.Join(t.TempDir(), "seed.tar")); err == nil {
		t.Error("a relative path was accepted")
	}
}

func untar(t *testing.T, path string) map[string]entry {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	files, reader := map[string]entry{}, tar.NewReader(file)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = entry{Content: string(content), Mode: uint64(header.Mode)}
	}
}
