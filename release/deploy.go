package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	kustomize "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	syaml "sigs.k8s.io/yaml"
)

// sections are the chart's values for an image, by the image's name. The other images are in no manifest.
var sections = map[string]string{"webhook": "webhook", "nodeenforcer": "nodeEnforcer", "fencer": "fencer", "volumelock": "volumeLock"}

// values are the chart's, with the registry and digests that this release has. Comments stay.
func (r release) values(text string, images []made) (string, error) {
	// Repositories of the chart begin with podgrace/ already.
	registry, found := strings.CutSuffix(r.Registry, "/podgrace")
	if !found {
		return "", fmt.Errorf("the registry %s does not end in /podgrace, as the chart's repositories begin", r.Registry)
	}
	text, err := set(text, registry+"/", "images", "registry")
	for _, i := range images {
		if section := sections[i.Name]; section != "" && err == nil {
			text, err = set(text, i.Digest, section, "digest")
		}
	}
	return text, err
}

// set replaces the empty text at a path of a YAML document by another one, where it stands.
func set(text, value string, path ...string) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return "", err
	}
	node := document.Content[0]
	for _, key := range path {
		var next *yaml.Node
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				next = node.Content[i+1]
			}
		}
		if next == nil {
			return "", fmt.Errorf("no value %s", strings.Join(path, "."))
		}
		node = next
	}
	lines := strings.SplitAfter(text, "\n")
	line := lines[node.Line-1]
	rest, empty := strings.CutPrefix(line[node.Column-1:], `""`)
	if !empty {
		return "", fmt.Errorf("the value %s is not empty", strings.Join(path, "."))
	}
	lines[node.Line-1] = line[:node.Column-1] + strconv.Quote(value) + rest
	return strings.Join(lines, ""), nil
}

// overlay is a kustomization of another one, with images by their digests.
func (r release) overlay(of string, images []made) ([]byte, error) {
	k := kustomize.Kustomization{TypeMeta: kustomize.TypeMeta{APIVersion: kustomize.KustomizationVersion, Kind: kustomize.KustomizationKind}, Resources: []string{of}}
	k.SortOptions = &kustomize.SortOptions{Order: kustomize.FIFOSortOrder} // as the other one has them
	for _, i := range images {
		if sections[i.Name] != "" {
			k.Images = append(k.Images, kustomize.Image{Name: "registry.invalid/podgrace/" + i.Name, NewName: r.reference(i.Name), Digest: i.Digest})
		}
	}
	return syaml.Marshal(k)
}

// manifests are what kubectl installs Podgrace by, with certificates that it makes itself.
func (r release) manifests(root, scratch string, images []made) ([]byte, error) {
	dir := filepath.Join(scratch, "install")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	of, err := filepath.Rel(dir, filepath.Join(root, "deploy", "overlays", "selfmanaged"))
	if err != nil {
		return nil, err
	}
	text, err := r.overlay(of, images)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), text, 0o600); err != nil {
		return nil, err
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // as the kustomization says
	built, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("render install.yaml: %w", err)
	}
	return built.AsYaml()
}
