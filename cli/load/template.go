package load

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/manifest"
)

// TemplateFlag says of custom workloads where the template of their pods is.
type TemplateFlag []string

// AddFlag declares the flag.
func (t *TemplateFlag) AddFlag(f *pflag.FlagSet) {
	f.StringArrayVar((*[]string)(t), "template", nil,
		"pod template of a custom workload, as KIND.GROUP=spec.template or spec.tasks[*].template, with @Job.batch for the controller of the pods; KIND.GROUP=- makes no pods; may be repeated")
}

// parts of one value.
func (t TemplateFlag) parts(text string) (kind schema.GroupKind, path string) {
	name, path, _ := strings.Cut(text, "=")
	return schema.ParseGroupKind(name), path
}

// Kinds are those of the custom workloads.
func (t TemplateFlag) Kinds() []schema.GroupKind {
	var kinds []schema.GroupKind
	for _, text := range t {
		if kind, path := t.parts(text); path != review.NoPods && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Check returns an error for paths that no object of their kind has.
func (t TemplateFlag) Check(s *review.State, documents []*manifest.Document) error {
	if err := errors.Join(s.Unmet(documents)...); err != nil {
		return terminal.UsageError{Err: fmt.Errorf("--template: %w", err)}
	}
	return nil
}

// Set tells a state.
func (t TemplateFlag) Set(s *review.State) error {
	for _, text := range t {
		kind, path := t.parts(text)
		if err := s.SetTemplate(kind, path); err != nil {
			return terminal.UsageError{Err: fmt.Errorf("--template %s: %w", text, err)}
		}
	}
	return nil
}
