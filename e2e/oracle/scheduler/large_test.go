package scheduler

import (
	"flag"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/preview/scheduler/schedulertest"
)

// From 100 nodes on the scheduler would look at some of them only, if it were not told to look at all.
var largeNodes = flag.Int("preview.nodes", 150, "nodes of the large cluster")

// TestLarge asks three questions in a large cluster, of which each node has half of its processors left: of a pod that some nodes take, of one that none takes, and of one for which
// others have to go.
func TestLarge(t *testing.T) {
	w := start(t)
	c := &schedulertest.Case{}
	for i := range *largeNodes {
		name := fmt.Sprintf("node-%d", i)
		c.Nodes = append(c.Nodes, schedulertest.Node(name, fmt.Sprint("zone-", i%3)))
		pod := schedulertest.Pod("pod-"+name, name, 1000)
		if i%3 == 2 {
			pod.Labels = nil // so that this zone has none of those that are spread
		}
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
		c.Pods = append(c.Pods, pod)
	}
	w.build(t, c)
	nowhere := schedulertest.SpreadPod("spread-more")
	nowhere.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "zone-0"} // which all constraints count, and the zone's is too full
	nowhere.Spec.TopologySpreadConstraints[0].NodeAffinityPolicy = new(corev1.NodeInclusionPolicyIgnore)
	urgent := schedulertest.Pod("urgent", "", 1500)
	urgent.Spec.PriorityClassName = "system-cluster-critical"
	for _, ask := range []struct {
		pod  *corev1.Pod
		want scheduling.Outcome
	}{
		{schedulertest.SpreadPod("spread"), scheduling.Fits}, {nowhere, scheduling.Nowhere}, {urgent, scheduling.Preempts},
	} {
		t.Run(ask.pod.Name, func(t *testing.T) {
			v, d := w.ask(t, ask.pod)
			if v.Outcome != ask.want || len(v.Nodes) < *largeNodes {
				t.Errorf("%s of %d nodes, want %s", v.Outcome, len(v.Nodes), ask.want)
			}
			d.hold(t, w, v)
		})
	}
}
