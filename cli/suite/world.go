package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// world is what the cases of a suite are judged in.
type world struct {
	engine                    *review.Engine
	newState                  func() *review.State
	state, manifests, objects []*manifest.Document
	listed                    []manifest.Listed
}

// worldReader reads a suite's inputs, the folder's other files once at most.
type worldReader struct {
	suite  *Suite
	dir    string
	others *review.Inputs
	errors []*manifest.Error
	listed []manifest.Listed
}

// world reads all that the suite needs. With an error there is none: what a suite says without a part of it would mislead.
func (s *Suite) world(newState func() *review.State) (*world, []*manifest.Error) {
	r := &worldReader{suite: s, dir: filepath.Dir(s.Source.File)}
	w := &world{newState: newState, state: r.read(s.state), manifests: r.read(s.manifests)}
	policies := r.policies()
	for _, d := range s.objects {
		if d.Kind == "PodPolicy" {
			policies = r.inline(policies, d)
		} else {
			w.objects = append(w.objects, d)
		}
	}
	state := newState()
	w.listed = r.listed
	r.errors = append(r.errors, w.fill(state)...)
	if len(r.errors) > 0 {
		return nil, manifest.Locate(r.errors)
	}
	engine, err := review.NewEngine(state, policies...)
	if err != nil {
		return nil, []*manifest.Error{{File: s.Source.File, Line: s.Source.Line, Message: err.Error()}}
	}
	if !s.now.IsZero() {
		engine.Clock = stopped(s.now)
	}
	w.engine = engine
	return w, nil
}

// fill puts into a state what the cluster has, what is reviewed beside it, and overrides.
func (w *world) fill(state *review.State, overrides ...*manifest.Document) []*manifest.Error {
	state.Listed(w.listed)
	const namespace = corev1.NamespaceDefault
	return slices.Concat(review.AddAll(w.state, namespace, state.Add), review.AddAll(slices.Concat(w.manifests, w.objects, overrides), namespace, state.AddManifest))
}

// stopped is a clock that always shows the same time.
type stopped time.Time

func (s stopped) Now() time.Time                  { return time.Time(s) }
func (s stopped) Since(t time.Time) time.Duration { return time.Time(s).Sub(t) }

func (r *worldReader) fail(d *manifest.Document, err error) {
	r.errors = append(r.errors, d.Wrong(err))
}

// path is relative to the suite's folder.
func (r *worldReader) path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.dir, path)
}

func (r *worldReader) paths(paths []string) []string {
	whole := make([]string, len(paths))
	for i, p := range paths {
		whole[i] = r.path(p)
	}
	return whole
}

// read returns what paths stand for; nil: the folder's other files.
func (r *worldReader) read(paths *[]string) []*manifest.Document {
	if paths == nil {
		return r.folder().Documents
	}
	in := review.Read(&input.Reader{}, r.paths(*paths)...)
	r.errors, r.listed = append(r.errors, in.Errors...), append(r.listed, in.Listed...)
	return in.Documents
}

// folder is what stands beside the suite, without what is in folders: that belongs to other suites.
func (r *worldReader) folder() *review.Inputs {
	if r.others != nil {
		return r.others
	}
	r.others = &review.Inputs{}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		r.errors = append(r.errors, &manifest.Error{File: r.dir, Message: err.Error()})
		return r.others
	}
	var names []string
	for _, e := range entries {
		name := filepath.Join(r.dir, e.Name())
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if name != filepath.Clean(r.suite.Source.File) && manifest.HasEnding(name, manifest.Endings...) {
			names = append(names, name)
		}
	}
	*r.others = review.Read(&input.Reader{}, names...)
	r.others.Documents = slices.DeleteFunc(r.others.Documents, func(d *manifest.Document) bool { return d.Kind == Kind })
	r.errors, r.listed = append(r.errors, r.others.Errors...), append(r.listed, r.others.Listed...)
	return r.others
}

func (r *worldReader) policies() []*v1alpha1.PodPolicy {
	var policies []*v1alpha1.PodPolicy
	var wrong []*manifest.Error
	if given := r.suite.policies; given != nil {
		policies, wrong = review.LoadPolicies(r.paths(*given), nil)
	} else {
		policies, wrong = review.LoadPolicies(nil, r.folder().Documents)
	}
	for _, e := range wrong {
		if !slices.ContainsFunc(r.errors, func(k *manifest.Error) bool { return *k == *e }) {
			r.errors = append(r.errors, e)
		}
	}
	own := func(d *manifest.Document) bool { return d.Kind == "PodPolicy" }
	if r.suite.policies == nil && len(policies) == 0 && len(r.errors) == 0 && !slices.ContainsFunc(r.suite.objects, own) {
		s := r.suite.Source
		r.errors = append(r.errors, &manifest.Error{File: s.File, Line: s.Line, Message: "no PodPolicy to test; policies: [] is none knowingly"})
	}
	return policies
}

// inline adds a policy that the suite holds itself.
func (r *worldReader) inline(policies []*v1alpha1.PodPolicy, d *manifest.Document) []*v1alpha1.PodPolicy {
	p, wrong := policyfile.Check(d)
	r.errors = append(r.errors, wrong...)
	if p == nil {
		return policies
	}
	if slices.ContainsFunc(policies, func(q *v1alpha1.PodPolicy) bool { return q.Name == p.Name }) {
		r.fail(d, fmt.Errorf("PodPolicy %s is there twice", p.Name))
	}
	return append(policies, p)
}

// with returns an engine whose state has a case's overrides, and these as whole objects.
func (w *world) with(overrides []*manifest.Document) (*review.Engine, []*manifest.Document, error) {
	if len(overrides) == 0 {
		return w.engine, nil, nil
	}
	known := slices.Concat(w.state, w.manifests, w.objects)
	whole := make([]*manifest.Document, len(overrides))
	for i, o := range overrides {
		d := *o
		for _, base := range known {
			if !same(base, o) {
				continue
			}
			merged, err := jsonpatch.MergePatch(base.JSON, o.JSON)
			if err != nil {
				return nil, nil, fmt.Errorf("override %s %s: %w", o.Kind, o.Name, err)
			}
			d.JSON, d.Namespace = merged, base.Namespace // the last of several holds, as in the state
		}
		whole[i] = &d
	}
	state := w.newState()
	if errs := w.fill(state, whole...); len(errs) > 0 {
		return nil, nil, manifest.Locate(errs)[0]
	}
	engine := *w.engine
	engine.State = state
	return &engine, whole, nil
}
