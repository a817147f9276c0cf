package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/review"
)

// templateFlag says of custom workloads where the template of their pods is.
type templateFlag []string

// AddFlag declares the flag.
func (t *templateFlag) AddFlag(f *pflag.FlagSet) {
	f.StringArrayVar((*[]string)(t), "template", nil,
		"pod template of a custom workload, as KIND.GROUP=spec.template; may be repeated")
}

// parts of one value.
func (t templateFlag) parts(text string) (kind schema.GroupKind, path string) {
	name, path, _ := strings.Cut(text, "=")
	return schema.ParseGroupKind(name), path
}

// kinds are those of the custom workloads.
func (t templateFlag) kinds() []schema.GroupKind {
	var kinds []schema.GroupKind
	for _, text := range t {
		kind, _ := t.parts(text)
		kinds = append(kinds, kind)
	}
	return kinds
}

// set tells a state.
func (t templateFlag) set(s *review.State) error {
	for _, text := range t {
		kind, path := t.parts(text)
		if err := s.SetTemplate(kind, path); err != nil {
			return usageError{fmt.Errorf("--template %s: %w", text, err)}
		}
	}
	return nil
}
