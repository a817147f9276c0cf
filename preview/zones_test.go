package preview

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/cli/scheduling"
)

// A zone has hostnames, not nodes' names; what lacks either label is in none.
func TestZones(t *testing.T) {
	node := func(name, host, zone string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		for key, value := range map[string]string{corev1.LabelHostname: host, corev1.LabelTopologyZone: zone} {
			if value != "" {
				n.Labels[key] = value
			}
		}
		return n
	}
	got := zonesOf([]*corev1.Node{node("n3", "h3", "B"), node("n2", "h2", "A"), node("n1", "h1", "A"), node("n4", "h4", ""), node("n5", "", "A"), node("n6", "h1", "A")})
	if diff := cmp.Diff([]scheduling.Zone{{Name: "A", Hostnames: []string{"h1", "h2"}}, {Name: "B", Hostnames: []string{"h3"}}}, got); diff != "" {
		t.Errorf("zones (-want +got): %s", diff)
	}
	if got := zonesOf([]*corev1.Node{node("n1", "h1", "")}); got != nil {
		t.Errorf("zones %v of nodes that have none", got)
	}
}
