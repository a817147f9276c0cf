package input

import (
	"fmt"

	"github.com/podgrace/podgrace/console"
)

// LeftOut is something that was found in a folder and was not read.
type LeftOut struct {
	Path string `json:"path"`
	// As is what it was taken for.
	As As `json:"as"`
	// Why in words, where As does not say it all.
	Why string `json:"why,omitempty"`
}

// As is what something that is left out was taken for.
type As string

// What is left out.
const (
	// Excluded by a pattern: a file, or a folder with all that is in it.
	Excluded As = "Excluded"
	// Foreign files have no manifest: not one document with apiVersion, kind or metadata.
	Foreign As = "Foreign"
	// HelmChart is a folder with a Chart.yaml: its templates are no manifests until they are rendered.
	HelmChart As = "HelmChart"
	// Kustomization is a folder whose kustomization was not built. What is in the folder is read as it is.
	Kustomization As = "Kustomization"
	// KustomizationPart is a file that a kustomization names and that is no manifest of its own, such as a patch.
	KustomizationPart As = "KustomizationPart"
)

func (r *Reader) leaveOut(path string, as As, why string) {
	r.LeftOut = append(r.LeftOut, LeftOut{Path: path, As: as, Why: why})
}

// maxNamed of what is left out are named in a sentence.
const maxNamed = 5

// leftOutWords are in the order in which they are told. What can be named by its path is, if it is worth a look.
var leftOutWords = []struct {
	as        As
	one, many string
	named     bool
}{
	{HelmChart, "1 Helm chart was not rendered", "%d Helm charts were not rendered", true},
	{Kustomization, "1 kustomization was not built; its files were read as they are", "%d kustomizations were not built; their files were read as they are", true},
	{KustomizationPart, "1 file is a part of a kustomization, such as a patch", "%d files are parts of kustomizations, such as patches", false},
	{Foreign, "1 file has no manifest", "%d files have no manifest", false},
	{Excluded, "1 path is excluded", "%d paths are excluded", false},
}

// LeftOutInWords says what was left out, a sentence for each reason; paths in it are as they are.
func LeftOutInWords(left []LeftOut) []string {
	var sentences []string
	for _, words := range leftOutWords {
		type group struct {
			why   string
			paths []string
		}
		var groups []*group
		for _, l := range left {
			if l.As != words.as {
				continue
			}
			i := 0
			for i < len(groups) && groups[i].why != l.Why {
				i++
			}
			if i == len(groups) {
				groups = append(groups, &group{why: l.Why})
			}
			groups[i].paths = append(groups[i].paths, l.Path)
		}
		for _, g := range groups {
			text := words.one
			if n := len(g.paths); n > 1 {
				text = fmt.Sprintf(words.many, n)
			}
			if g.why != "" {
				text += " (" + g.why + ")"
			}
			if words.named {
				text += ": " + console.Some(g.paths, maxNamed, ", ")
			}
			sentences = append(sentences, text+".")
		}
	}
	return sentences
}
