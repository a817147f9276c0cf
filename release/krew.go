package main

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/yaml"
)

// plugin is the manifest by which krew installs the command line as kubectl podgrace, in its own types. Digests are of archives, hexadecimal, by their names.
func (r release) plugin(digests map[string]string) ([]byte, error) {
	p := index.Plugin{
		TypeMeta:   metav1.TypeMeta{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin"},
		ObjectMeta: metav1.ObjectMeta{Name: "podgrace"},
		Spec: index.PluginSpec{
			Version: r.Version, Homepage: repository,
			ShortDescription: "Explain, review and confirm what Podgrace decides",
			Description: `Says why a pod is ranked, spread and stopped as it is, what policies would
change before they are applied, and what is wrong with an installation.
Confirms that a pod may run twice, or that a node is off, where the removal
guard asks for it.
`,
		},
	}
	for _, on := range r.CommandLines {
		archive := r.archive(on)
		p.Spec.Platforms = append(p.Spec.Platforms, index.Platform{
			URI: repository + "/releases/download/" + r.Version + "/" + archive, Sha256: digests[archive], Bin: on.program("podgrace"),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"os": on.OS, "arch": on.Arch}},
			Files:    []index.FileOperation{{From: on.program("podgrace"), To: "."}, {From: "LICENSE", To: "."}},
		})
	}
	text, err := yaml.Marshal(p)
	// Of the types that krew is built with; a manifest has none.
	return bytes.Replace(text, []byte("  creationTimestamp: null\n"), nil, 1), err
}
