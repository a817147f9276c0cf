package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestWriteImage(t *testing.T) {
	var archive bytes.Buffer
	if err := writeImage(&archive, "localhost/test:1", []byte("the program")); err != nil {
		t.Fatal(err)
	}
	files := untar(t, archive.Bytes())

	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	decode(t, files["manifest.json"], &manifest)
	if len(manifest) != 1 || manifest[0].RepoTags[0] != "localhost/test:1" {
		t.Fatalf("manifest %+v", manifest)
	}
	var config struct {
		Config struct{ Entrypoint []string }
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	decode(t, files[manifest[0].Config], &config)
	layer := files[manifest[0].Layers[0]]
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); config.RootFS.DiffIDs[0] != want {
		t.Errorf("the layer's digest is %s, the configuration has %s", want, config.RootFS.DiffIDs[0])
	}
	entrypoint := config.Config.Entrypoint[0]
	if got := untar(t, layer)[entrypoint[1:]]; string(got) != "the program" {
		t.Errorf("the layer has %q as %s", got, entrypoint)
	}
}

func TestWriteImageIsReproducible(t *testing.T) {
	var first, second bytes.Buffer
	for _, archive := range []*bytes.Buffer{&first, &second} {
		if err := writeImage(archive, "localhost/test:1", []byte("the program")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same program gave two images")
	}
}

func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
}
