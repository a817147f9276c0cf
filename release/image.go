package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// authorities are those that Mozilla trusts, as PEM, for kubeconfigs that name none. Those with a condition are left out: a file of certificates can't say it.
func authorities() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer takes everything
		}
	}
	return text.Bytes()
}

// labels are OCI's annotations (image-spec annotations.md 1.1), which registries show.
func (r release) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title": "podgrace", prefix + "licenses": "Apache-2.0", prefix + "version": r.Version, prefix + "revision": r.Commit,
		prefix + "created": r.Date.Format(time.RFC3339), prefix + "source": repository,
	}
}

// on is the image for one platform. Programs are files of this machine, by their names.
func (r release) on(p platform, i image, programs map[string]string) (v1.Image, error) {
	files := []file{{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()}}
	for _, name := range i.Programs {
		data, err := os.ReadFile(programs[name])
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", i.Name, err)
		}
		files = append(files, file{"usr/local/bin/" + name, 0o755, data})
	}
	// Of OCI's types from the beginning: they are part of the digest.
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, f := range files {
		var text bytes.Buffer
		if err := tarred(&text, []file{f}, r.Date); err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil }, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", i.Name, err)
		}
		history := v1.History{Created: v1.Time{Time: r.Date}, CreatedBy: "/" + f.Name}
		if made, err = mutate.Append(made, mutate.Addendum{Layer: layer, History: history, MediaType: types.OCILayer}); err != nil {
			return nil, fmt.Errorf("image %s: %w", i.Name, err)
		}
	}
	config, err := made.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", i.Name, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.OS, p.Arch, v1.Time{Time: r.Date}
	config.Config = v1.Config{User: i.User, Entrypoint: []string{"/usr/local/bin/" + i.Programs[0]}, Labels: r.labels(), Env: []string{"PATH=/usr/local/bin"}}
	return mutate.ConfigFile(made, config)
}

// image makes the image for all nodes, as a folder in OCI's image layout.
func (r release) image(dir string, i image, programs map[platform]map[string]string) (made, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	m := made{image: i, Platforms: map[platform]string{}}
	for _, p := range r.Nodes {
		one, err := r.on(p, i, programs[p])
		if err != nil {
			return made{}, err
		}
		digest, err := one.Digest()
		if err != nil {
			return made{}, fmt.Errorf("image %s: %w", i.Name, err)
		}
		m.Platforms[p] = digest.String()
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.OS, Architecture: p.Arch}}})
	}
	if _, err := layout.Write(filepath.Join(dir, i.Name), index); err != nil {
		return made{}, fmt.Errorf("image %s: %w", i.Name, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return made{}, fmt.Errorf("image %s: %w", i.Name, err)
	}
	m.Digest = digest.String()
	return m, nil
}
