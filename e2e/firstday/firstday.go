// Package firstday reads docs/first-day.md as somebody does who types it line by line, for the tests that do.
package firstday

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// Context is the page's name for the cluster in a kubeconfig, which kind gives to one that is called first-day.
const Context = "kind-first-day"

// Part are commands of the page, and what it shows of their output; empty: it shows none.
type Part struct {
	Title    string // of its section, with the number
	Commands string
	Output   string
}

var block = regexp.MustCompile("(?s)```(sh|)\n(.*?)```\n")

// Parts are those of the page's sections with these numbers, in their order.
func Parts(sections ...string) ([]Part, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "first-day.md"))
	if err != nil {
		return nil, fmt.Errorf("reading the first day: %w", err)
	}
	var parts []Part
	for section := range strings.SplitSeq(string(page), "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		if number, _, ok := strings.Cut(title, "."); !ok || !slices.Contains(sections, number) {
			continue
		}
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			if m[1] == "sh" {
				parts = append(parts, Part{Title: title, Commands: m[2]})
			} else if len(parts) > 0 {
				parts[len(parts)-1].Output = m[2]
			}
		}
	}
	if len(parts) < len(sections) {
		return nil, fmt.Errorf("docs/first-day.md has %d parts with commands in %d sections", len(parts), len(sections))
	}
	return parts, nil
}

// Lacks is the first piece of what the part shows that its commands did not print; empty: none. A line's pieces stand between dots, and come in
// their order.
func (p Part) Lacks(printed string) string {
	printed = strings.Join(strings.Fields(printed), " ")
	for line := range strings.Lines(p.Output) {
		rest := printed
		for piece := range strings.SplitSeq(line, "...") {
			piece = strings.Join(strings.Fields(piece), " ")
			i := strings.Index(rest, piece)
			if i < 0 {
				return piece
			}
			rest = rest[i+len(piece):]
		}
	}
	return ""
}

// Kubeconfig writes a copy of a kubeconfig in which the page's context is the current one.
func Kubeconfig(from, to string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if config.Contexts[config.CurrentContext] == nil {
		return errors.New("the kubeconfig has no current context")
	}
	config.Contexts[Context] = config.Contexts[config.CurrentContext]
	config.CurrentContext = Context
	if err := clientcmd.WriteToFile(*config, to); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}
