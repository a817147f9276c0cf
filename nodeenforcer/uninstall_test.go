package nodeenforcer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podgrace/podgrace/policy/enforcement"
)

// uninstallAPI is an API server. Its pods end at a time, unless they are stuck.
type uninstallAPI struct {
	clock   *clocktesting.FakeClock
	ends    time.Time
	pods    []corev1.Pod
	stuck   []string
	nodes   []*corev1.Node
	gone    bool // the DaemonSet
	err     error
	deleted bool
	patched []string
}

func (a *uninstallAPI) DeleteDaemonSet(_ context.Context, key types.NamespacedName) error {
	if a.gone {
		return apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, key.Name)
	}
	a.deleted = a.err == nil
	return a.err
}

func (a *uninstallAPI) PodsIn(_ context.Context, _, selector string) (*corev1.PodList, error) {
	if selector != "app.kubernetes.io/name=enforcer" {
		return nil, errors.New("selector " + selector)
	}
	pods := &corev1.PodList{}
	for _, p := range a.pods {
		if a.clock.Now().Before(a.ends) || slices.Contains(a.stuck, p.Name) {
			pods.Items = append(pods.Items, p)
		}
	}
	a.clock.Step(uninstallPoll) // time passes from one look to the next
	return pods, nil
}

func (a *uninstallAPI) Get(_ context.Context, name string) (*corev1.Node, error) {
	for _, n := range a.nodes {
		if n.Name == name {
			return n.DeepCopy(), nil
		}
	}
	return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
}

func (a *uninstallAPI) Patch(_ context.Context, name string, _ types.PatchType, _ []byte, _ ...string) error {
	a.patched = append(a.patched, name)
	return nil
}

func (a *uninstallAPI) EachNode(_ context.Context, do func(*corev1.Node)) error {
	for _, n := range a.nodes {
		do(n)
	}
	return nil
}

// The pods have ended before anything else is deleted, but for those that can't; what they left on their Nodes is removed, and nothing else is written.
func TestUninstall(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus, more ...corev1.NodeConditionType) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
		for _, kind := range more {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse})
		}
		return n
	}
	pod := func(name, on, container string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "enforcer", Controller: new(true)}}},
			Spec:       corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Name: container}}},
		}
	}
	nodes := []*corev1.Node{node("clean", corev1.ConditionTrue), node("off", corev1.ConditionUnknown, enforcement.NodeConditionEnforced), node("left", corev1.ConditionTrue, enforcement.NodeConditionPressure)}
	for name, tc := range map[string]struct {
		pods    []corev1.Pod
		stuck   []string
		gone    bool
		err     error
		took    time.Duration // at least
		patched []string
		want    string // in the error
	}{
		"all end":                       {pods: []corev1.Pod{pod("a", "clean", "nodeenforcer")}, took: 10 * time.Second, patched: []string{"left", "off"}},
		"it is gone already":            {gone: true, patched: []string{"left", "off"}},
		"one on a node that is off":     {pods: []corev1.Pod{pod("a", "off", SelfFenceContainer)}, stuck: []string{"a"}, patched: []string{"left", "off"}},
		"one on a Node that is deleted": {pods: []corev1.Pod{pod("a", "deleted", SelfFenceContainer)}, stuck: []string{"a"}, patched: []string{"left", "off"}},
		"one is stuck":                  {pods: []corev1.Pod{pod("a", "clean", "nodeenforcer")}, stuck: []string{"a"}, took: time.Minute, patched: []string{"left", "off"}},
		"one with a watchdog is stuck":  {pods: []corev1.Pod{pod("a", "clean", SelfFenceContainer)}, stuck: []string{"a"}, took: time.Minute, want: "would leave a watchdog armed, by which their machines reset themselves: a"},
		"somebody else's pod":           {pods: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{NodeName: "clean"}}}, stuck: []string{"a"}, patched: []string{"left", "off"}},
		"it may not":                    {err: errors.New("forbidden"), want: "delete DaemonSet podgrace-node/enforcer: forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
			began := clock.Now()
			api := &uninstallAPI{clock: clock, ends: began.Add(10 * time.Second), pods: tc.pods, stuck: tc.stuck, nodes: nodes, gone: tc.gone, err: tc.err}
			u := &Uninstall{API: api, DaemonSet: types.NamespacedName{Namespace: "podgrace-node", Name: "enforcer"}, Timeout: time.Minute, Clock: ticking{clock}, Log: logr.Discard()}
			err := u.Run(t.Context())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
			slices.Sort(api.patched)
			if !slices.Equal(slices.Compact(api.patched), tc.patched) {
				t.Errorf("wrote into %v, want %v", api.patched, tc.patched)
			}
			if took := clock.Since(began); took < tc.took || took > tc.took+2*time.Second {
				t.Errorf("took %s, want %s", took, tc.took)
			}
		})
	}
}

// ticking is a clock whose timers have always fired.
type ticking struct{ *clocktesting.FakeClock }

func (ticking) After(time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	fired <- time.Time{}
	return fired
}
