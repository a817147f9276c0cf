package eviction_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

func TestReason(t *testing.T) {
	t.Parallel()
	const mi = int64(1) << 20
	containers := func(c *eviction.Candidate) {
		c.Pod.Spec.InitContainers = []corev1.Container{{Name: "sidecar"}}
		c.Pod.Spec.Containers = append(c.Pod.Spec.Containers, corev1.Container{Name: "within", Resources: c.Pod.Spec.Containers[0].Resources})
		c.Containers = map[string]int64{"app": 900 * mi, "sidecar": 10 * mi, "within": 64 * mi, "gone": mi}
	}
	hard := eviction.Cause{Need: eviction.Need{Signal: memory, Kind: eviction.Hard, Threshold: 500 * mi, Available: 412 * mi}, Node: "n1", GraceSeconds: 1}
	for name, tc := range map[string]struct {
		cause eviction.Cause
		pod   eviction.Candidate
		want  string
	}{
		"memory": {hard, candidate("hog", uses(memory, 910*mi), requests(corev1.ResourceMemory, "64Mi"), order(50), containers),
			"The node was low on resource: memory. Threshold quantity: 500Mi, available: 412Mi. " +
				"Container app was using 900Mi, request is 64Mi, has larger consumption of memory. " +
				"Container sidecar was using 10Mi, request is 0, has larger consumption of memory. " +
				"Node n1, signal memory.available (hard threshold): pod ns/hog is number 1 of 1 in the order of eviction: above its request of 128Mi, priority 0, eviction order 50, using 910Mi. It has 1 s to stop."},
		"memory, containers not known": {hard, candidate("hog", uses(memory, 910*mi), requests(corev1.ResourceMemory, "64Mi")),
			"The node was low on resource: memory. Threshold quantity: 500Mi, available: 412Mi. " +
				"Pod hog was using 910Mi, request is 64Mi, has larger consumption of memory. " +
				"Node n1, signal memory.available (hard threshold): pod ns/hog is number 1 of 1 in the order of eviction: above its request of 64Mi, priority 0, eviction order 0, using 910Mi. It has 1 s to stop."},
		"stall, usage not known": {eviction.Cause{Need: eviction.Need{Signal: stall, Kind: eviction.Hard}, Node: "n1", GraceSeconds: 5}, candidate("p", prio(7)),
			"The node was low on resource: memory. Processes waited for memory longer than the policy allows. " +
				"Node n1, signal memory.stall (hard threshold): pod ns/p is number 1 of 1 in the order of eviction: what it uses is not known, priority 7, eviction order 0. It has 5 s to stop."},
		"disk": {eviction.Cause{Need: eviction.Need{Signal: disk, Kind: eviction.Soft, Threshold: 1000 * mi, Available: mi}, Node: "n1", GraceSeconds: 30},
			candidate("p", uses(disk, 5*mi), requests(corev1.ResourceEphemeralStorage, "6Mi")),
			"The node was low on resource: ephemeral-storage. Threshold quantity: 1000Mi, available: 1Mi. " +
				"Node n1, signal nodefs.available (soft threshold): pod ns/p is number 1 of 1 in the order of eviction: not above its request of 6Mi, priority 0, eviction order 0, using 5Mi. It has 30 s to stop."},
		"inodes": {eviction.Cause{Need: eviction.Need{Signal: inodes, Kind: eviction.Hard, Threshold: 1048576, Available: 9}, Node: "n1", GraceSeconds: 1}, candidate("p", uses(inodes, 2048)),
			"The node was low on resource: inodes. Threshold quantity: 1048576, available: 9. " +
				"Node n1, signal nodefs.inodesFree (hard threshold): pod ns/p is number 1 of 1 in the order of eviction: priority 0, eviction order 0, using 2048. It has 1 s to stop."},
		"processes": {eviction.Cause{Need: eviction.Need{Signal: pids, Kind: eviction.Hard, Threshold: 100, Available: 9}, Node: "n1", GraceSeconds: 1}, candidate("p", uses(pids, 2048)),
			"The node was low on resource: pids. Threshold quantity: 100, available: 9. " +
				"Node n1, signal pid.available (hard threshold): pod ns/p is number 1 of 1 in the order of eviction: priority 0, eviction order 0, using 2048. It has 1 s to stop."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := eviction.Reason(tc.cause, eviction.Rank(tc.cause.Signal, []eviction.Candidate{tc.pod})[0])
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// An event takes 1024 bytes, whatever the names and however many the containers.
func TestReasonFitsAnEvent(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 253)
	pod := candidate(long, uses(memory, 1<<40), prio(-2147483648), func(c *eviction.Candidate) {
		c.Pod.Namespace = long[:63]
		c.Containers = map[string]int64{}
		for i := range 100 {
			name := fmt.Sprintf("%s-%d", long[:58], i)
			c.Containers[name] = 1<<40 + 1
			c.Pod.Spec.Containers = append(c.Pod.Spec.Containers, corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1")}}})
		}
	})
	got := eviction.Reason(eviction.Cause{Need: eviction.Need{Signal: memory, Kind: eviction.Hard, Threshold: 1<<62 + 1, Available: 1<<62 + 1}, Node: long, GraceSeconds: 60}, eviction.Rank(memory, []eviction.Candidate{pod})[0])
	if len(got) > 1024 || !strings.HasSuffix(got, "to stop.") || !strings.Contains(got, "Container n") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}
