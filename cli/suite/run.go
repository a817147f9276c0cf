package suite

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

// Runner judges suites.
type Runner struct {
	// Only are the cases whose SUITE/NAME matches; nil: all.
	Only *regexp.Regexp
	// User makes a user of a name and the groups that a suite names; nil: with these groups and no others.
	User func(name string, groups []string) authenticationv1.UserInfo
	// NewState makes a state that knows what every cluster has; nil: review.NewState.
	NewState func() *review.State
	// Progress is told how many cases were judged; may be nil.
	Progress func(done int)
}

// Selected says how many cases the runner is for.
func (r *Runner) Selected(suites []*Suite) int {
	n := 0
	for _, s := range suites {
		for _, c := range s.Cases {
			if r.wants(s, c) {
				n++
			}
		}
	}
	return n
}

func (r *Runner) wants(s *Suite, c *Case) bool {
	return r.Only == nil || r.Only.MatchString(s.Name+"/"+c.Name)
}

// Run judges the suites' cases in their order. The error is the context's.
func (r *Runner) Run(ctx context.Context, suites []*Suite) (*Report, error) {
	report := newReport()
	for _, s := range suites {
		if err := r.suite(ctx, s, report); err != nil {
			return nil, err
		}
	}
	report.count()
	return report, nil
}

func (r *Runner) suite(ctx context.Context, s *Suite, report *Report) error {
	if r.Selected([]*Suite{s}) == 0 {
		return nil
	}
	report.Summary.Suites++
	newState := r.NewState
	if newState == nil {
		newState = func() *review.State { return review.NewState() }
	}
	w, wrong := s.world(newState)
	if len(wrong) > 0 {
		report.Errors = append(report.Errors, wrong...)
		return nil
	}
	for _, c := range s.Cases {
		if !r.wants(s, c) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("test %s: %w", s.Name, err)
		}
		report.Cases = append(report.Cases, r.judge(ctx, s, w, c))
		if r.Progress != nil {
			r.Progress(1)
		}
	}
	return nil
}

// judge is one case's outcome.
func (r *Runner) judge(ctx context.Context, s *Suite, w *world, c *Case) *Outcome {
	o := &Outcome{Suite: s.Name, Case: c.Name, Source: c.Source, Status: Passed, suite: s, of: c}
	result, err := r.result(ctx, s, w, c)
	switch {
	case err != nil:
		o.Status, o.Error = Errored, err.Error()
		return o
	}
	o.Result = result
	if c.Then.empty() {
		o.Status, o.Error = Errored, "it expects nothing; the table of podgrace test has a then for what happens"
		return o
	}
	if o.Differences = c.Then.check(result); len(o.Differences) > 0 {
		o.Status = Failed
	}
	return o
}

// result is what happens.
func (r *Runner) result(ctx context.Context, s *Suite, w *world, c *Case) (*review.Result, error) {
	engine, overridden, err := w.with(c.State)
	if err != nil {
		return nil, err
	}
	d := c.When.Manifest
	switch {
	case c.When.Object != nil:
		if d, err = c.When.Object.lookUp(overridden, w.objects, w.manifests, w.state); err != nil {
			return nil, err
		}
	case c.When.Review != "":
		if d, err = recorded(s, c.When.Review); err != nil {
			return nil, err
		}
	}
	q := c.When.Question
	if q.User.Username != "" && r.User != nil {
		q.User = r.User(q.User.Username, q.User.Groups)
	}
	if d, err = c.When.templateOf(engine.State, d); err != nil {
		return nil, err
	}
	result, wrong := engine.Review(ctx, d, q)
	switch {
	case wrong != nil:
		return nil, wrong
	case result == nil && engine.State.NotKnown(d) != "":
		return nil, fmt.Errorf("%s %s: whether it makes pods is not known (%s)", d.Kind, d.Name, engine.State.NotKnown(d))
	case result == nil:
		return nil, fmt.Errorf("%s %s: to %s it is no business of any policy", d.Kind, d.Name, strings.ToLower(q.Operation))
	}
	return result, nil
}

// templateOf is the document with the pod template that the case is about.
func (w *When) templateOf(s *review.State, d *manifest.Document) (*manifest.Document, error) {
	names := s.TemplateNames(d)
	i := slices.Index(names, w.Template)
	switch {
	case i >= 0 && len(names) > 1:
		of := *d
		of.Template, of.Templates = i, len(names)
		return &of, nil
	case len(names) > 1:
		return nil, fmt.Errorf("%s %s has several pod templates; when.template is one of %s", d.Kind, d.Name, strings.Join(names, ", "))
	case w.Template != "":
		return nil, fmt.Errorf("%s %s has only one pod template: when.template is for objects with several", d.Kind, d.Name)
	}
	return d, nil
}

// recorded is the AdmissionReview of a file.
func recorded(s *Suite, path string) (*manifest.Document, error) {
	at := 0
	if name, line, ok := cutLast(path, ":"); ok {
		if n, err := strconv.Atoi(line); err == nil {
			path, at = name, n
		}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(s.Source.File), path)
	}
	in := review.Read(&input.Reader{}, path)
	if len(in.Errors) > 0 {
		return nil, in.Errors[0]
	}
	var found []*manifest.Document
	for _, d := range in.Documents {
		if review.IsRecorded(d) && (at == 0 || d.Line == at) {
			found = append(found, d)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%s has %d AdmissionReviews: name one by its line, as in %s:%d", path, len(found), filepath.Base(path), found[0].Line)
	case at > 0:
		return nil, fmt.Errorf("%s has no AdmissionReview that begins at line %d", path, at)
	}
	return nil, fmt.Errorf("%s has no AdmissionReview", path)
}

func cutLast(text, at string) (before, after string, found bool) {
	i := strings.LastIndex(text, at)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(at):], true
}
