package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/cli/load"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// previewPod asks where a pod of the cluster would be scheduled.
func (o *explainOptions) previewPod(ctx context.Context, t terminal.Terminal, in *explain.Input) {
	reading := slices.DeleteFunc(slices.Clone(o.reading), func(flag string) bool { return strings.HasPrefix(flag, "--state=") }) // the cluster is the state
	o.asked(t, reading, in, func(p *previewer) (*scheduling.Preview, error) { return p.pod(ctx, in.Pod.Namespace, in.Pod.Name) })
}

// previewDocument asks it of a manifest, where nodes are known.
func (o *explainOptions) previewDocument(ctx context.Context, t terminal.Terminal, l *load.Loaded, meant *manifest.Document, in *explain.Input) {
	if len(review.Objects[*corev1.Node](l.Engine.State)) == 0 {
		return
	}
	o.asked(t, o.reading, in, func(p *previewer) (*scheduling.Preview, error) {
		if once := o.inputs.ReadOnce(); len(once) > 0 {
			return nil, fmt.Errorf("%s can be read only once", strings.Join(once, ", "))
		}
		is := func(kind, name, file string, line int) bool {
			return kind == meant.Kind && name == meant.Name && file == meant.File && line == meant.Line
		}
		documents := slices.DeleteFunc(slices.Clone(l.Documents), review.IsRecorded)
		for i, d := range documents {
			if is(d.Kind, d.Name, d.File, d.Line) {
				documents[i] = meant // which may be one of a set's pods
			}
		}
		previews, err := p.documents(ctx, documents, l.Listed, aloneIn(o.inputs))
		if err != nil {
			return nil, err
		}
		for i := range previews {
			if v := &previews[i]; is(v.Resource.Kind, v.Resource.Name, v.Source.File, v.Source.Line) {
				return v, nil
			}
		}
		return nil, fmt.Errorf("its preview is missing")
	})
}

// asked puts an answer into the input, or why there is none: nothing else of an explanation depends on it. That the program is missing is no news about a pod that has its node.
func (o *explainOptions) asked(t terminal.Terminal, reading []string, in *explain.Input, ask func(*previewer) (*scheduling.Preview, error)) {
	if !o.preview || graceperiod.Finished(in.Pod) {
		return
	}
	p, err := newPreviewer(t, reading)
	if err != nil && in.Pod.Spec.NodeName != "" {
		return
	}
	if err == nil {
		in.Preview, err = ask(p)
	}
	if err != nil {
		in.NotPreviewed = err.Error()
	}
}
