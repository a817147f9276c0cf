package agreement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/internal/manifest"
)

// answer is what becomes of a request, offline or online.
type answer struct {
	Refusal  string
	Warnings []string
	Fields   fields
}

// fields of a pod that Podgrace may change.
type fields struct {
	Class        string
	Priority     *int32
	Preemption   *corev1.PreemptionPolicy
	Grace        *int64
	Constraints  []corev1.TopologySpreadConstraint
	Enforcement  string
	Protected    string
	Requirements []corev1.ResourceRequirements // not changed, and defaulted alike
}

func fieldsOf(p *corev1.Pod) fields {
	f := fields{
		Class: p.Spec.PriorityClassName, Priority: p.Spec.Priority, Preemption: p.Spec.PreemptionPolicy, Grace: p.Spec.TerminationGracePeriodSeconds,
		Constraints: p.Spec.TopologySpreadConstraints, Enforcement: p.Annotations[v1alpha1.AnnotationEnforcement],
		Protected: p.Annotations[v1alpha1.AnnotationProtected],
	}
	for _, c := range p.Spec.Containers {
		f.Requirements = append(f.Requirements, c.Resources)
	}
	return f
}

// offline is a result in the words of the API server.
func offline(t *testing.T, r *review.Result) answer {
	t.Helper()
	a := answer{Refusal: r.Message, Warnings: sorted(r.Warnings)}
	if r.Decision == review.Allowed {
		a.Refusal = ""
	}
	if a.Refusal == "" && r.After != nil {
		p := decode(t, r.After)
		apiserver.MergeMatchLabelKeys(p)
		a.Fields = fieldsOf(p)
	}
	return a
}

func decode(t *testing.T, raw []byte) *corev1.Pod {
	t.Helper()
	var p corev1.Pod
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

// online asks the API server, which stores nothing.
func online(t *testing.T, s *suite.Suite, r *review.Result) (answer, error) {
	t.Helper()
	p := decode(t, r.Before)
	user, groups := "", []string(nil)
	for i := range p.OwnerReferences {
		user, groups = controller(p.OwnerReferences[i].Kind)
	}
	c, warnings := as(t, s, user, groups...)
	err := c.Create(t.Context(), p, client.DryRunAll)
	a := answer{Warnings: sorted(warnings.Take())}
	switch {
	case err == nil:
		a.Fields = fieldsOf(p)
	case apierrors.IsForbidden(err):
		a.Refusal = refusal(err)
	default:
		return a, err
	}
	return a, nil
}

// refusal is the webhook's own words: the API server puts its name before them. So it does with those of the compiled limits, which it judges first.
func refusal(err error) string {
	for _, before := range []string{"denied the request: ", "denied request: "} {
		if _, words, found := strings.Cut(err.Error(), before); found {
			return words
		}
	}
	return err.Error()
}

func controller(kind string) (user string, groups []string) {
	name := map[string]string{
		"ReplicaSet": "replicaset-controller", "StatefulSet": "statefulset-controller", "DaemonSet": "daemon-set-controller", "Job": "job-controller",
	}[kind]
	return "system:serviceaccount:kube-system:" + name, []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}
}

// owner makes the controller of a pod, by whose selector constraints select.
func owner(t *testing.T, s *suite.Suite, p *corev1.Pod) {
	t.Helper()
	labels := maps.Clone(p.Labels)
	for _, own := range []string{appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel, appsv1.StatefulSetRevisionLabel} {
		delete(labels, own) // of this pod alone, which its controller does not select by
	}
	selector, template := &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec}
	template.Spec.Priority, template.Spec.PreemptionPolicy = nil, nil
	for _, o := range p.OwnerReferences {
		m := metav1.ObjectMeta{Namespace: p.Namespace, Name: o.Name}
		switch o.Kind {
		case "ReplicaSet":
			s.Create(t, &appsv1.ReplicaSet{ObjectMeta: m, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}})
		case "StatefulSet":
			template.Spec.TerminationGracePeriodSeconds = nil // a stateful template without grace may be refused, which is not the matter here
			// Without pods: where controllers run its first would have the name of the one that is asked about.
			s.Create(t, &appsv1.StatefulSet{ObjectMeta: m, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(0)), Selector: selector, Template: template}})
		}
	}
}

// The examples, each workload by the pod that its controller would create.
func TestCreationOfTheExamples(t *testing.T) {
	s := shared.Get(t)
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			if filepath.Base(folder) == "production-web" {
				s.Since(t, suite.MergesMatchLabelKeys, "matchLabelKeys that are merged into the selector, as a review shows them")
			}
			engine, documents := read(t, s, folder)
			install(t, s, documents)
			results := reviewed(t, engine, documents)
			if len(results) == 0 {
				t.Fatal("nothing was reviewed")
			}
			for _, r := range results {
				owner(t, s, decode(t, r.Before))
			}
			// The informers of the webhook have all that was installed once they agree on everything; then they must again.
			differ := func(context.Context) (bool, error) {
				var errs []error
				for _, r := range results {
					got, err := online(t, s, r)
					if diff := cmp.Diff(got, offline(t, r)); err != nil || diff != "" {
						errs = append(errs, fmt.Errorf("%s (-API server +offline): %w\n%s", r.Resource, err, diff))
					}
				}
				return len(errs) == 0, errors.Join(errs...)
			}
			suite.Eventually(t, "the webhook to know the cluster, and agreement", differ)
			if _, err := differ(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// reviewed are the results of what is created, which differ from one another in something at least.
func reviewed(t *testing.T, engine *review.Engine, documents []*manifest.Document) []*review.Result {
	t.Helper()
	var results []*review.Result
	for _, d := range documents {
		r, wrong := engine.Review(t.Context(), d, review.Question{})
		if wrong != nil {
			t.Fatal(wrong)
		}
		if r != nil && r.Before != nil {
			results = append(results, r)
		}
	}
	if !slices.ContainsFunc(results, func(r *review.Result) bool { return len(r.Patch) > 0 }) {
		t.Fatal("the policies change nothing")
	}
	return results
}
