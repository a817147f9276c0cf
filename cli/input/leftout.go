package input

import (
	"fmt"
	"slices"

	"github.com/podgrace/podgrace/internal/console"
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
	// Foreign files have no manifest: not one document with apiVersion and kind, or with metadata.
	Foreign As = "Foreign"
	// Encrypted is an object that SOPS has encrypted.
	Encrypted As = "Encrypted"
	// Template is a file that a template engine has to render before it is a manifest.
	Template As = "Template"
	// Variable is an object with a value that is a variable, which Flux fills in, where a manifest has something else than a text.
	Variable As = "Variable"
	// DeadLink is a symbolic link that leads nowhere.
	DeadLink As = "DeadLink"
	// LibraryChart is a Helm chart for other charts, of which nothing is rendered.
	LibraryChart As = "LibraryChart"
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

// Known says that it was looked at as far as it can be: it has nothing to review, or nothing that can be read without a key or a value.
func (l *LeftOut) Known() bool {
	return slices.Contains([]As{Foreign, Encrypted, Template, Variable, LibraryChart}, l.As)
}

// maxNamed of what is left out are named in a sentence.
const maxNamed = 5

// leftOutWords are in the order in which they are told. What can be named by its path is, if it is worth a look.
var leftOutWords = []struct {
	as        As
	one, many string
	named     bool
	// each: the reason is of one path, and stands beside it.
	each bool
}{
	{HelmChart, "1 Helm chart was not rendered", "%d Helm charts were not rendered", true, false},
	{Kustomization, "1 kustomization was not built; manifests beside it were read as they are", "%d kustomizations were not built; manifests beside them were read as they are", true, false},
	{KustomizationPart, "1 file is a part of a kustomization, such as a patch", "%d files are parts of kustomizations, such as patches", false, false},
	{Template, "1 file is a template that was not rendered", "%d files are templates that were not rendered", true, false},
	{Encrypted, "1 object is encrypted by SOPS", "%d objects are encrypted by SOPS", true, false},
	{Variable, "1 object has a variable in place of a value (does Flux fill it in?)", "%d objects have a variable in place of a value (does Flux fill it in?)", true, true},
	{DeadLink, "1 link leads nowhere", "%d links lead nowhere", true, true},
	{LibraryChart, "1 Helm chart is a library, of which nothing is rendered", "%d Helm charts are libraries, of which nothing is rendered", true, false},
	{Foreign, "1 file has no manifest", "%d files have no manifest", false, false},
	{Excluded, "1 path is excluded", "%d paths are excluded", false, false},
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
			if words.each {
				l.Path, l.Why = l.Path+" ("+l.Why+")", ""
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
