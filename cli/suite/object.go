package suite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/internal/manifest"
)

// objects are those that a suite holds itself.
func (r *decoder) objects(raw []json.RawMessage, path ...string) []*manifest.Document {
	var found []*manifest.Document
	for i := range raw {
		if d := r.object(raw[i], append(slices.Clone(path), strconv.Itoa(i))); d != nil {
			found = append(found, d)
		}
	}
	return found
}

func (r *decoder) object(raw json.RawMessage, path []string) *manifest.Document {
	d, err := documentOf(raw)
	if err != nil {
		r.fail(path, "%v", err)
		return nil
	}
	s := r.at(path...)
	d.File, d.Line, d.Node = s.File, s.Line, manifest.NodeAt(r.node, path)
	return d
}

func documentOf(raw json.RawMessage) (*manifest.Document, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, fmt.Errorf("not an object of Kubernetes: %w", err)
	}
	switch {
	case head.APIVersion == "" || head.Kind == "":
		return nil, fmt.Errorf("not an object of Kubernetes: it has no apiVersion or no kind")
	case head.Items != nil:
		return nil, fmt.Errorf("%s: a list; write its items one by one", head.Kind)
	}
	return &manifest.Document{JSON: raw, APIVersion: head.APIVersion, Kind: head.Kind, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}, nil
}

// String is kind namespace/name.
func (r *Reference) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// means reports whether the reference may mean an object. One that names no namespace is in default, unless it is of the cluster; which of
// them it is, its kind does not say.
func (r *Reference) means(d *manifest.Document) bool {
	return r.Kind == d.Kind && r.Name == d.Name && (r.APIVersion == "" || r.APIVersion == d.APIVersion) &&
		(r.Namespace == "" || r.Namespace == d.Namespace || d.Namespace == "" && r.Namespace == corev1.NamespaceDefault)
}

// same reports whether two documents are of the same object.
func same(a, b *manifest.Document) bool {
	namespace := func(d *manifest.Document) string {
		if d.Namespace == "" {
			return corev1.NamespaceDefault
		}
		return d.Namespace
	}
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && namespace(a) == namespace(b)
}

// lookUp finds the object that is meant in the first of several lists that has one.
func (r *Reference) lookUp(lists ...[]*manifest.Document) (*manifest.Document, error) {
	for _, list := range lists {
		var found *manifest.Document
		for _, d := range list {
			switch {
			case !r.means(d):
			case found == nil:
				found = d
			case found.File != d.File || found.Line != d.Line:
				return nil, fmt.Errorf("%s may be that of %s:%d or that of %s:%d", r, found.File, found.Line, d.File, d.Line)
			}
		}
		if found != nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("%s is nowhere among the suite's objects, manifests and state", r)
}
