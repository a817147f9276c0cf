package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// maxPolicyFile is how much of a file is read, in bytes, as package policyfile does.
const maxPolicyFile = 4 << 20

// readNodePolicies reads every NodePolicy of files and folders; documents of other kinds are skipped. It refuses what package policyfile does, without the code that evaluates CEL: that
// would be in the memory of each node.
func readNodePolicies(paths ...string) ([]*v1alpha1.NodePolicy, error) {
	r := &policyReader{seen: map[string]string{}}
	for _, path := range paths {
		for _, name := range r.files(path) {
			r.read(name)
		}
	}
	return r.policies, manifest.Join(manifest.Locate(r.errs))
}

type policyReader struct {
	policies []*v1alpha1.NodePolicy
	errs     []*manifest.Error
	seen     map[string]string // the file of each, by name
}

// files are those that a path stands for.
func (r *policyReader) files(path string) (names []string) {
	before := len(r.errs)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		r.errs = append(r.errs, manifest.Unread(path, err))
		return nil
	case !info.IsDir():
		return []string{path}
	}
	(&manifest.Folder{Endings: []string{".yaml", ".yml", ".json"}, Found: func(name string, err error) {
		if err != nil {
			r.errs = append(r.errs, manifest.Unread(name, err))
			return
		}
		names = append(names, name)
	}}).Walk(path)
	if len(names) == 0 && len(r.errs) == before {
		r.errs = append(r.errs, &manifest.Error{File: path, Message: "no .yaml, .yml or .json file in this folder", Whole: true})
	}
	return names
}

func (r *policyReader) read(name string) {
	text, err := beginning(name, maxPolicyFile+1)
	switch {
	case err != nil:
		r.errs = append(r.errs, manifest.Unread(name, err))
		return
	case len(text) > maxPolicyFile:
		r.errs = append(r.errs, &manifest.Error{File: name, Message: fmt.Sprintf("larger than %d MiB", maxPolicyFile>>20), Whole: true})
		return
	}
	(&manifest.Reader{File: name, Kinds: []string{"NodePolicy"}}).Read(bytes.NewReader(text), func(d *manifest.Document, wrong *manifest.Error) bool {
		switch {
		case wrong != nil:
			r.errs = append(r.errs, wrong)
		case d.Kind == "NodePolicy":
			r.add(d)
		}
		return true
	})
}

// beginning reads so many bytes of a file.
func beginning(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// add adds the policy of a document, or what is wrong with it.
func (r *policyReader) add(d *manifest.Document) {
	p, errs := decodePolicy(d)
	for _, err := range errs {
		r.errs = append(r.errs, d.Wrong(err))
	}
	switch first, twice := r.seen[d.Name]; {
	case len(errs) > 0:
	case twice:
		r.errs = append(r.errs, &manifest.Error{File: d.File, Message: fmt.Sprintf("NodePolicy %s is in %s already", d.Name, first)})
	default:
		r.seen[d.Name] = d.File
		r.policies = append(r.policies, p)
	}
}

func decodePolicy(d *manifest.Document) (p *v1alpha1.NodePolicy, errs []error) {
	if want := v1alpha1.GroupVersion.String(); d.APIVersion != want {
		return nil, []error{&manifest.FieldError{Field: "apiVersion", Message: fmt.Sprintf("apiVersion is %s, this version of Podgrace reads %s", d.APIVersion, want)}}
	}
	p = &v1alpha1.NodePolicy{}
	strict, err := json.UnmarshalStrict(d.JSON, p)
	if err != nil {
		return nil, []error{manifest.Plainly(d.JSON, func(raw []byte) error {
			return json.UnmarshalCaseSensitivePreserveInts(raw, &v1alpha1.NodePolicy{})
		}, err)}
	}
	errs = missing(d.JSON)
	if p.Spec.Mode == "" { // the definition's default, which messages name
		p.Spec.Mode = v1alpha1.NodeModeObserve
	}
	for _, e := range strict {
		at := ""
		if of, ok := errors.AsType[json.FieldError](e); ok {
			at = of.FieldPath()
		}
		errs = append(errs, &manifest.FieldError{Field: at, Message: e.Error()})
	}
	for _, e := range enforcement.Validate(p) {
		errs = append(errs, &manifest.FieldError{Field: e.Field, Message: e.Error()})
	}
	if _, err := pressure.Compile(p.Spec.Eviction); err != nil {
		errs = append(errs, &manifest.FieldError{Field: "spec.eviction", Message: err.Error()})
	}
	if _, err := enforcement.Compile([]*v1alpha1.NodePolicy{p}); err != nil {
		errs = append(errs, &manifest.FieldError{Field: "spec.nodeSelector", Message: err.Error()})
	}
	return p, errs
}

// missing are the fields that the definition requires and whose zero value is one that could be meant.
func missing(raw []byte) (errs []error) {
	var given struct {
		Spec *struct {
			QOSReserved *struct {
				MemoryPercent *int32 `json:"memoryPercent"`
			} `json:"qosReserved"`
			Eviction struct {
				Soft []struct {
					GracePeriod *string `json:"gracePeriod"`
				} `json:"soft"`
			} `json:"eviction"`
		} `json:"spec"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &given); err != nil {
		return []error{err}
	}
	require := func(there bool, field string) {
		if !there {
			errs = append(errs, &manifest.FieldError{Field: field, Message: field + " is required"})
		}
	}
	if require(given.Spec != nil, "spec"); given.Spec == nil {
		return errs
	}
	if q := given.Spec.QOSReserved; q != nil {
		require(q.MemoryPercent != nil, "spec.qosReserved.memoryPercent")
	}
	for i, t := range given.Spec.Eviction.Soft {
		require(t.GracePeriod != nil, fmt.Sprintf("spec.eviction.soft[%d].gracePeriod", i))
	}
	return errs
}
