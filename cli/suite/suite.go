package suite

import (
	"encoding/json"
	"time"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

// Kind of a suite; its apiVersion is v1alpha1.GroupVersion.
const Kind = "PolicySuite"

// Suite is one PolicySuite of a file.
type Suite struct {
	// Name by its metadata, or else the file's path.
	Name   string
	Source manifest.Source
	Cases  []*Case

	// paths relative to the suite's folder; nil: not given, so that the folder's other files are taken.
	policies, state, manifests *[]string
	// now is when the cases happen; zero: when they are run.
	now time.Time
	// objects that the suite holds itself.
	objects []*manifest.Document
	file    *file
	json    []byte
}

// Case is what somebody does, and what must come of it.
type Case struct {
	Name   string
	Source manifest.Source
	When   When
	// State overrides objects, each by a JSON merge patch (RFC 7386) on the one of its kind and name, if there is one.
	State []*manifest.Document
	// Then is nil if nothing is expected, which is an error.
	Then *Then

	index int
}

// When is who does what to which object: one of Object, Manifest and Review.
type When struct {
	// Object among the suite's objects, manifests and state.
	Object *Reference
	// Manifest is in the suite itself.
	Manifest *manifest.Document
	// Review is the path of a recorded AdmissionReview relative to the suite's folder, with ":LINE" after it where the file has
	// several. It says itself who does what.
	Review string
	// Template is which of its pod templates, if the object has several (manifest.Resource).
	Template string
	// Question has the operation and its options. Its User has no groups but those that the suite names.
	Question review.Question
}

// Reference names an object. An empty APIVersion or Namespace stands for any, if only one object is meant then.
type Reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

// Then is what must come of it. What is nil is not looked at.
type Then struct {
	Decision *review.Decision `json:"decision,omitempty"`
	// Reason in full; empty: none.
	Reason *string `json:"reason,omitempty"`
	// Message is a part of the message, blanks and line breaks run together; "..." in it stands for anything. Empty: there is none.
	Message *string `json:"message,omitempty"`
	// Warnings are parts of warnings: each is in one at least, and there is no warning besides.
	Warnings *[]string `json:"warnings,omitempty"`
	// Patch is the whole JSON patch.
	Patch *[]review.Operation `json:"patch,omitempty"`
	// Fields of the pod that comes of it, by their paths; nil: the field is absent.
	Fields map[string]any `json:"fields,omitempty"`
	// Unknown are parts of what was not known, as Warnings are of warnings.
	Unknown *[]string `json:"unknown,omitempty"`
}

func (t *Then) empty() bool {
	return t == nil || t.Decision == nil && t.Reason == nil && t.Message == nil && t.Warnings == nil && t.Patch == nil && len(t.Fields) == 0 && t.Unknown == nil
}

// file is that of one or more suites.
type file struct {
	name string
	text []byte
}

// suiteYAML and caseYAML are a suite as it is written.
type suiteYAML struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Now       string            `json:"now"`
	Policies  *[]string         `json:"policies"`
	State     *[]string         `json:"state"`
	Manifests *[]string         `json:"manifests"`
	Objects   []json.RawMessage `json:"objects"`
	Cases     []json.RawMessage `json:"cases"`
}

type caseYAML struct {
	Name  string            `json:"name"`
	When  whenYAML          `json:"when"`
	State []json.RawMessage `json:"state"`
	Then  *Then             `json:"then"`
}

type whenYAML struct {
	Object             json.RawMessage `json:"object"`
	Manifest           json.RawMessage `json:"manifest"`
	Review             string          `json:"review"`
	Template           string          `json:"template"`
	Operation          string          `json:"operation"`
	User               string          `json:"user"`
	Groups             []string        `json:"groups"`
	GracePeriodSeconds *int64          `json:"gracePeriodSeconds"`
}
