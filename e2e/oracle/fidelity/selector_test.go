package fidelity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

type selectorCase struct {
	Pod    *corev1.Pod
	Policy *v1alpha1.PodPolicy
	Owned  owned
}

func (c *selectorCase) GoString() string {
	return draw.Show(c.Pod, c.Policy.Spec.TopologySpread, c.Owned)
}

var selectorCases = draw.Of(func(s draw.Source) *selectorCase {
	c := &selectorCase{Pod: drawPod(s), Policy: drawPolicy(s, "p", sections{spread: 16})}
	if s.Rarely() {
		c.Pod.Spec.NodeName = "n0"
	}
	c.Owned = drawOwned(s, c.Pod)
	return c
})

// listers are the scheduler's view of Services and controllers.
type listers struct{ services, controllers, replicaSets, statefulSets cache.Indexer }

func newListers() listers {
	fresh := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	return listers{fresh(), fresh(), fresh(), fresh()}
}

func (l listers) fill(t *rapid.T, o owned) {
	for indexer, objects := range map[cache.Indexer][]any{
		l.services: anys(o.Services), l.controllers: anys(o.Controllers), l.replicaSets: anys(o.ReplicaSets), l.statefulSets: anys(o.StatefulSets),
	} {
		if err := indexer.Replace(objects, ""); err != nil {
			t.Fatalf("filling a lister: %v", err)
		}
	}
}

func anys[T any](list []T) []any {
	all := make([]any, 0, len(list))
	for _, v := range list {
		all = append(all, v)
	}
	return all
}

func (l listers) defaultSelector(pod *corev1.Pod) labels.Selector {
	return helper.DefaultSelector(pod, corelisters.NewServiceLister(l.services), corelisters.NewReplicationControllerLister(l.controllers),
		appslisters.NewReplicaSetLister(l.replicaSets), appslisters.NewStatefulSetLister(l.statefulSets))
}

// TestFidelitySelector: the selector that Podgrace injects is the scheduler's own default selector, after the API server
// merged matchLabelKeys into it. Without revisionAware it is that but for the revision.
func TestFidelitySelector(t *testing.T) {
	t.Parallel()
	lists := newListers()
	wanted := draw.Shares{"injected": 30, "nothing to derive": 5, "revision through matchLabelKeys": 3, "revision left out": 1, "by ownerRules": 1}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := selectorCases.Draw(t, "case")
		lists.fill(t, c.Owned)
		arrived := sent(t, received(t, c.Pod))
		var facts defaulting.Facts
		c.Owned.addFacts(arrived, &facts)
		req := request(arrived, authenticationv1.UserInfo{})
		result := defaulting.For(compiled(t, []*v1alpha1.PodPolicy{c.Policy}), req, kubeSystemAlone).Apply(req, facts)
		constraints := injected(result.Changes)
		if !takesSpread(c) {
			if constraints != nil {
				t.Fatalf("constraints for a pod that must get none\n%s", draw.Show(result))
			}
			counts.Add("gets none")
			return
		}
		want := wantedSelector(lists.defaultSelector(arrived), c)
		if len(want.all) == 0 {
			if constraints != nil {
				t.Fatalf("the scheduler derives nothing, but Podgrace injects\n%s", draw.Show(constraints))
			}
			counts.Add("nothing to derive")
			return
		}
		if constraints == nil {
			t.Fatalf("nothing injected, want %v\n%s", want.all, draw.Show(result))
		}
		stored := prepared(received(t, patched(t, arrived, result.Changes)))
		for i, k := range stored.Spec.TopologySpreadConstraints {
			selector, err := metav1.LabelSelectorAsSelector(k.LabelSelector)
			if err != nil {
				t.Fatalf("constraint %d has a bad selector: %v\n%s", i, err, draw.Show(k))
			}
			got := requirements(selector)
			if expected := want.with(c.Policy.Spec.TopologySpread.Constraints[i].MatchLabelKeys, arrived.Labels); !slices.Equal(got, expected) {
				t.Fatalf("constraint %d selects\n\t%v, want\n\t%v (DefaultSelector %v)\n%s", i, got, expected, requirements(lists.defaultSelector(arrived)), draw.Show(k))
			}
		}
		counts.Add("injected")
		want.count(counts)
	})
}

func injected(changes []defaulting.Change) []corev1.TopologySpreadConstraint {
	for _, c := range changes {
		if c.Path == "/spec/topologySpreadConstraints" {
			return c.Value.([]corev1.TopologySpreadConstraint)
		}
	}
	return nil
}

// takesSpread repeats from the API's documentation which pods get no constraints.
func takesSpread(c *selectorCase) bool {
	owner := metav1.GetControllerOfNoCopy(c.Pod)
	daemon := owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == "apps/v1"
	skips := slices.Contains(c.Policy.Spec.AllowSkip, v1alpha1.SectionTopologySpread) && strings.Contains(c.Pod.Annotations[v1alpha1.AnnotationSkip], "topologySpread")
	return !daemon && !skips && c.Pod.Spec.NodeName == ""
}

// selectorWanted is a selector as sorted requirements.
type selectorWanted struct {
	all                         []string
	revision, leftOut, ownerOwn bool
}

// requirements writes a selector so that equal ones are equal: sorted, each requirement once, = as in.
func requirements(selector labels.Selector) []string {
	list, selectable := selector.Requirements()
	if !selectable {
		return []string{"nothing"}
	}
	written := make([]string, 0, len(list))
	for _, r := range list {
		written = append(written, requirement(r.Key(), r.Operator(), r.Values().UnsortedList()...))
	}
	slices.Sort(written)
	return slices.Compact(written)
}

func requirement(key string, op selection.Operator, values ...string) string {
	switch op {
	case selection.Equals, selection.DoubleEquals:
		op = selection.In
	case selection.NotEquals:
		op = selection.NotIn
	}
	slices.Sort(values)
	return fmt.Sprintf("%s %s %q", key, op, slices.Compact(values))
}

// wantedSelector is the scheduler's, with what the policy's documentation promises on top: a rule for owners that the
// scheduler does not know, and no revision without revisionAware, unless the revision is all there is.
func wantedSelector(fromScheduler labels.Selector, c *selectorCase) selectorWanted {
	w := selectorWanted{all: requirements(fromScheduler)}
	owner := metav1.GetControllerOfNoCopy(c.Pod)
	if owner == nil {
		return w
	}
	if added := ruled(c, owner); len(added) > 0 {
		w.ownerOwn = true
		w.all = sortedUnion(w.all, added)
	}
	value, ok := c.Pod.Labels[draw.RevisionKey]
	revision := requirement(draw.RevisionKey, selection.In, value)
	if owner.Kind != "ReplicaSet" || !ok || !slices.Contains(w.all, revision) {
		return w
	}
	without := slices.DeleteFunc(slices.Clone(w.all), func(r string) bool { return r == revision })
	// Only where the revision is named once, as a Deployment's ReplicaSet does, it is the Deployment's revision.
	named := slices.ContainsFunc(without, func(r string) bool { return strings.HasPrefix(r, draw.RevisionKey+" ") })
	if len(without) == 0 || named || expressed(c) {
		return w
	}
	w.revision = true
	if !ptr.Deref(c.Policy.Spec.TopologySpread.RevisionAware, true) {
		w.all, w.leftOut = without, true
	}
	return w
}

// ruled returns what the policy's ownerRules add for the pod's controller.
func ruled(c *selectorCase, owner *metav1.OwnerReference) []string {
	gvk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	if defaulting.OwnerHasSelector(owner) {
		return nil
	}
	for _, r := range c.Policy.Spec.TopologySpread.OwnerRules {
		if r.APIGroup != gvk.Group || r.Kind != gvk.Kind {
			continue
		}
		var added []string
		for _, key := range r.LabelKeys {
			value, ok := c.Pod.Labels[key]
			if !ok {
				return nil
			}
			added = append(added, requirement(key, selection.In, value))
		}
		return added
	}
	return nil
}

// expressed reports whether the owner names the revision in an expression, where Podgrace leaves it.
func expressed(c *selectorCase) bool {
	owner := metav1.GetControllerOfNoCopy(c.Pod)
	for _, r := range c.Owned.ReplicaSets {
		if defaulting.OwnerHasSelector(owner) && r.Namespace == namespace && slices.ContainsFunc(r.Spec.Selector.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool { return e.Key == draw.RevisionKey }) {
			return true
		}
	}
	return false
}

// with adds the policy's own matchLabelKeys: the pod's values, unless the selector names the key otherwise.
func (w selectorWanted) with(keys []string, podLabels map[string]string) []string {
	all := w.all
	for _, key := range keys {
		value, ok := podLabels[key]
		if ok && !slices.ContainsFunc(w.all, func(r string) bool { return strings.HasPrefix(r, key+" ") }) {
			all = sortedUnion(all, []string{requirement(key, selection.In, value)})
		}
	}
	return all
}

func sortedUnion(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

func (w selectorWanted) count(counts *draw.Tally) {
	if w.ownerOwn {
		counts.Add("by ownerRules")
	}
	if w.leftOut {
		counts.Add("revision left out")
	} else if w.revision {
		counts.Add("revision through matchLabelKeys")
	}
}
