package review

import (
	"encoding/json"
	"slices"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/pod/graceperiod/deadline"
)

// Decision is what becomes of a request.
type Decision string

// The decisions.
const (
	Allowed Decision = "Allowed"
	Denied  Decision = "Denied"
)

// ViaTemplate is Result.Via of a workload: it was judged by the pod that its controller would create.
const ViaTemplate = "template"

// Operation is one step of a JSON patch (RFC 6902) on the pod that is created.
type Operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Change is what a policy changes in the pod, or would change in one that is refused.
type Change struct {
	// Path is the JSON pointer of the field.
	Path string
	// Name of the field as in the API server's audit log, its Value for a person, and Why.
	Name, Value, Why string
}

// Result is what the policies say of one request.
type Result struct {
	Resource manifest.Resource `json:"resource"`
	Source   manifest.Source   `json:"source"`
	// Via is ViaTemplate for a workload.
	Via string `json:"via,omitempty"`
	// Operation as in AdmissionRequests: CREATE, UPDATE, DELETE; and for an eviction, EVICT.
	Operation string `json:"operation"`
	// Subresource of a recorded request; empty: none.
	Subresource string `json:"subresource,omitempty"`
	// User who is judged; empty: nobody in particular.
	User     string   `json:"user,omitempty"`
	Decision Decision `json:"decision"`
	// Reason in one word and Message for a person; both empty where nothing is to be said.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Warnings that the API server would pass on to the user.
	Warnings []string `json:"warnings"`
	// Patch of the pod, by its changed fields; of an eviction where it is raised, or kept to the pod that was judged (of a pod that has a UID).
	Patch []Operation `json:"patch"`
	// Policies that hold for the pod, the heaviest first.
	Policies []string `json:"policies"`
	// Exceptions that made a difference, as the API server's audit log has them.
	Exceptions string `json:"exceptions,omitempty"`
	// Pending is why the pod would not be scheduled at once, where that was previewed; nil: it would be, or nobody asked.
	Pending *Pending `json:"pending,omitempty"`
	// Unknown is what the decision depends on and the state does not say, a phrase each.
	Unknown []string `json:"unknown,omitempty"`
	// Why by the name of the changed field, as in the API server's audit log, but whole: the value and in brackets the reason.
	Why map[string]string `json:"why,omitempty"`

	// Changes of policies; Why says them in JSON.
	Changes []Change `json:"-"`
	// Short are the deadlines of nodes that leave the pod less than its grace period, of so many seconds.
	Short        []deadline.Deadline `json:"-"`
	GraceSeconds int64               `json:"-"`
	// Before and After are the pod in JSON, before the patch and after it; nil where there is no pod. Before has the
	// defaults of the scheme and of the API server's plugins.
	Before, After json.RawMessage `json:"-"`
}

// Pending is why a pod that is created would not be scheduled at once.
type Pending struct {
	// Reason in one word (scheduling.Reasons) and Message for a person.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// WhyAt is why a policy changes a field, as it does last; empty: none does.
func (r *Result) WhyAt(path string) string {
	for _, c := range slices.Backward(r.Changes) {
		if c.Path == path {
			return c.Why
		}
	}
	return ""
}

// Finding reports whether the result is of interest to a reader: refused or warned about.
func (r *Result) Finding() bool { return r.Decision == Denied || r.Warned() }

// Warned reports whether there is a warning. That the pod would be pending counts as one.
func (r *Result) Warned() bool { return len(r.Warnings) > 0 || r.Pending != nil }

// Summary counts.
type Summary struct {
	// Files that were read.
	Files int `json:"files"`
	// Cluster: none was, and what was reviewed is in the cluster.
	Cluster bool `json:"cluster,omitempty"`
	// Reviewed results: Allowed + Denied.
	Reviewed int `json:"reviewed"`
	Allowed  int `json:"allowed"`
	Denied   int `json:"denied"`
	// Warned results have a warning, or a pod that would be pending, which are counted in Pending, too. Changed ones have a patch, Unknown ones something that was
	// not known.
	Warned  int `json:"warned"`
	Pending int `json:"pending,omitempty"`
	Changed int `json:"changed"`
	Unknown int `json:"unknown"`
	// Other are objects that are no pods and make none, or are made by a Deployment or CronJob.
	Other int `json:"other"`
	// NotKnown are objects that were not judged since it is not known whether they make pods, by kind and group.
	NotKnown NotKnown `json:"notKnown,omitempty"`
	// Errors are what could not be read.
	Errors int `json:"errors"`
	// NoPolicies: not one PodPolicy was known, so that none judged anything.
	NoPolicies bool `json:"noPolicies,omitempty"`
	// NoNodes: it was asked where pods would be scheduled, and not one Node was known.
	NoNodes bool `json:"noNodes,omitempty"`
}

// Report is the outcome of a review.
type Report struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Summary    Summary           `json:"summary"`
	Results    []Result          `json:"results"`
	Errors     []*manifest.Error `json:"errors,omitempty"`
	// Remarks on the policies; they change no exit code.
	Remarks []Remark `json:"remarks,omitempty"`
	// Repeated objects were judged at each of their places.
	Repeated []Repeated `json:"repeated,omitempty"`
	// LeftOut is what was found in folders and was not read.
	LeftOut []input.LeftOut `json:"leftOut,omitempty"`
}

// NewReport counts. Results are in the order of the input.
func NewReport(files, other int, results []Result, errs []*manifest.Error) *Report {
	if results == nil {
		results = []Result{}
	}
	s := Summary{Files: files, Other: other, Reviewed: len(results), Errors: len(errs)}
	for i := range results {
		r := &results[i]
		if r.Decision == Denied {
			s.Denied++
		} else {
			s.Allowed++
		}
		s.Warned += count(r.Warned())
		s.Pending += count(r.Pending != nil)
		s.Changed += count(len(r.Patch) > 0)
		s.Unknown += count(len(r.Unknown) > 0)
	}
	return &Report{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ReviewReport", Summary: s, Results: results, Errors: errs}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
