package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

// decoder reads one suite and collects what is wrong with it.
type decoder struct {
	document *manifest.Document
	node     *yaml.Node
	errors   []*manifest.Error
}

// decode returns nil where the suite has errors.
func decode(d *manifest.Document, node *yaml.Node) (*Suite, []*manifest.Error) {
	r := &decoder{document: d, node: node}
	s := r.suite()
	if len(r.errors) > 0 {
		return nil, r.errors
	}
	return s, nil
}

// at is the line of a field, or of the nearest thing around it.
func (r *decoder) at(path ...string) manifest.Source {
	return manifest.Source{File: r.document.File, Line: max(r.document.Line, manifest.LineOf(r.node, path))}
}

func (r *decoder) fail(path []string, format string, args ...any) {
	s := r.at(path...)
	r.errors = append(r.errors, &manifest.Error{File: s.File, Line: s.Line, Message: fmt.Sprintf(format, args...)})
}

func (r *decoder) suite() *Suite {
	var y suiteYAML
	r.strict(nil, r.document.JSON, &y)
	if y.APIVersion != v1alpha1.GroupVersion.String() {
		r.fail([]string{"apiVersion"}, "apiVersion %s of a %s: it is %s", y.APIVersion, Kind, v1alpha1.GroupVersion)
	}
	s := &Suite{
		Name: y.Metadata.Name, Source: r.at(), json: r.document.JSON,
		policies: y.Policies, state: y.State, manifests: y.Manifests, objects: r.objects(y.Objects, "objects"),
	}
	if y.Now != "" {
		var err error
		if s.now, err = time.Parse(time.RFC3339, y.Now); err != nil {
			r.fail([]string{"now"}, "now is %q, not a time such as 2026-01-01T12:00:00Z", y.Now)
		}
	}
	if s.Name == "" {
		s.Name = s.Source.File
	}
	if len(y.Cases) == 0 {
		r.fail([]string{"cases"}, "a suite without cases tests nothing")
	}
	names := map[string]bool{}
	for i, raw := range y.Cases {
		c := r.decodeCase(i, raw)
		if names[c.Name] {
			r.fail(caseAt(i, "name"), "two cases are named %q", c.Name)
		}
		names[c.Name] = true
		s.Cases = append(s.Cases, c)
	}
	return s
}

// caseAt is the path of a field of a case.
func caseAt(i int, path ...string) []string {
	return append([]string{"cases", strconv.Itoa(i)}, path...)
}

func (r *decoder) decodeCase(i int, raw json.RawMessage) *Case {
	var y caseYAML
	r.strict(caseAt(i), raw, &y)
	if y.Name == "" {
		r.fail(caseAt(i), "a case without a name")
	}
	c := &Case{Name: y.Name, Source: r.at(caseAt(i)...), Then: y.Then, index: i}
	c.State = r.objects(y.State, caseAt(i, "state")...)
	for j, d := range c.State {
		if d.Kind == "PodPolicy" {
			r.fail(caseAt(i, "state", strconv.Itoa(j)), "a PodPolicy is no state: policies are the same for all cases of a suite")
		}
	}
	c.When = r.when(i, &y.When)
	r.then(i, y.Then)
	return c
}

func (r *decoder) when(i int, y *whenYAML) When {
	w := When{Review: y.Review, Template: y.Template, Question: review.Question{
		Operation: review.OperationCreate, GracePeriodSeconds: y.GracePeriodSeconds, User: authenticationv1.UserInfo{Username: y.User, Groups: y.Groups},
	}}
	if y.subjects() != 1 {
		r.fail(caseAt(i, "when"), "when has one of object, manifest and review")
	}
	if len(y.Object) > 0 {
		w.Object = r.reference(caseAt(i, "when", "object"), y.Object)
	}
	if len(y.Manifest) > 0 {
		w.Manifest = r.object(y.Manifest, caseAt(i, "when", "manifest"))
	}
	switch y.Operation {
	case "", "create":
	case "delete", "evict":
		w.Question.Operation = strings.ToUpper(y.Operation)
	default:
		r.fail(caseAt(i, "when", "operation"), "operation %q: it is create, delete or evict; others come by a recorded AdmissionReview", y.Operation)
	}
	r.options(i, y, w.Question.Operation)
	return w
}

// subjects counts what the case is about.
func (y *whenYAML) subjects() int {
	given := 0
	for _, is := range []bool{len(y.Object) > 0, len(y.Manifest) > 0, y.Review != ""} {
		if is {
			given++
		}
	}
	return given
}

// options are refused where they would not count.
func (r *decoder) options(i int, y *whenYAML, operation string) {
	switch {
	case y.Review != "" && (y.Operation != "" || y.User != "" || len(y.Groups) > 0 || y.GracePeriodSeconds != nil):
		r.fail(caseAt(i, "when", "review"), "an AdmissionReview says itself who does what: no operation, user, groups or gracePeriodSeconds beside it")
	case len(y.Groups) > 0 && y.User == "":
		r.fail(caseAt(i, "when", "groups"), "groups go with a user")
	case y.GracePeriodSeconds != nil && operation == review.OperationCreate:
		r.fail(caseAt(i, "when", "gracePeriodSeconds"), "gracePeriodSeconds go with operation delete or evict")
	}
}

// reference reads "Deployment shop/web", or the same as an object.
func (r *decoder) reference(path []string, raw json.RawMessage) *Reference {
	var reference Reference
	var text string
	if json.Unmarshal(raw, &text) != nil {
		r.strict(path, raw, &reference)
	} else if words := strings.Fields(text); len(words) == 2 {
		reference.Kind, reference.Name = words[0], words[1]
		if namespace, name, ok := strings.Cut(words[1], "/"); ok {
			reference.Namespace, reference.Name = namespace, name
		}
	}
	if reference.Kind == "" || reference.Name == "" {
		r.fail(path, "object is KIND NAMESPACE/NAME, such as Deployment shop/web, or {kind, namespace, name}")
	}
	return &reference
}

func (r *decoder) then(i int, t *Then) {
	if t == nil {
		return
	}
	if d := t.Decision; d != nil && *d != review.Allowed && *d != review.Denied {
		r.fail(caseAt(i, "then", "decision"), "decision %q: it is %s or %s", *d, review.Allowed, review.Denied)
	}
	for _, path := range slices.Sorted(maps.Keys(t.Fields)) {
		if err := checkPath(path); err != nil {
			r.fail(caseAt(i, "then", "fields", path), "field %s: %v", path, err)
		}
	}
	for _, of := range []struct {
		field string
		list  *[]string
	}{{"warnings", t.Warnings}, {"unknown", t.Unknown}} {
		if of.list == nil {
			continue
		}
		for _, part := range *of.list {
			if says(part) == "" {
				r.fail(caseAt(i, "then", of.field), "%q is in every one of the %s; [] says that there are none", part, of.field)
			}
		}
	}
	if t.Message != nil && *t.Message != "" && says(*t.Message) == "" {
		r.fail(caseAt(i, "then", fieldMessage), "%q is in every message", *t.Message)
	}
}

// says is what a part of a text says without its gaps.
func says(part string) string { return strings.TrimSpace(strings.ReplaceAll(part, gap, "")) }

// strict decodes what stands at a path; what is unknown or of another type is wrong.
func (r *decoder) strict(path []string, raw []byte, into any) {
	unknown, err := sigsjson.UnmarshalStrict(raw, into)
	for _, e := range unknown {
		below := path
		if at, ok := errors.AsType[sigsjson.FieldError](e); ok {
			below = append(slices.Clip(below), manifest.Steps(at.FieldPath())...)
		}
		r.fail(below, "%v", e)
	}
	if err == nil {
		return
	}
	err = manifest.Plainly(raw, func(raw []byte) error {
		_, err := sigsjson.UnmarshalStrict(raw, reflect.New(reflect.TypeOf(into).Elem()).Interface())
		return err
	}, err)
	if of, ok := errors.AsType[*manifest.FieldError](err); ok {
		path = append(slices.Clip(path), manifest.Steps(of.Field)...)
	}
	r.fail(path, "%v", err)
}
