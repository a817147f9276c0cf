package controlplane

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
)

var shared = &suite.Shared{Options: cluster.Options{ControllerManager: true, Scheduler: true, ControllerManagerArgs: []string{"--node-monitor-period=1s"}}}

func TestMain(m *testing.M) { suite.Main(m, shared) }

var addNodes sync.Once

// start returns the suite with six nodes in three zones.
func start(t *testing.T) *suite.Suite {
	t.Helper()
	s := shared.Get(t)
	addNodes.Do(func() {
		for i := range 6 {
			name := fmt.Sprintf("node-%d", i)
			zone := "zone-" + string(rune('a'+i%3))
			if err := s.AddNode(context.Background(), name, map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone, "e2e": "six"}); err != nil {
				t.Fatal(err)
			}
		}
	})
	return s
}

func template(app string, change ...func(*corev1.PodSpec)) corev1.PodTemplateSpec {
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "localhost/none:1"}}}
	for _, c := range change {
		c(&spec)
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: spec}
}

func deployment(namespace, name string, replicas int32, change ...func(*corev1.PodSpec)) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name, change...),
	}}
}

// bound returns the pods of an app once there are as many as wanted, all bound to nodes.
func bound(t *testing.T, s *suite.Suite, namespace string, want int) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	suite.Eventually(t, fmt.Sprintf("%d pods bound in %s", want, namespace), func(ctx context.Context) (bool, error) {
		if err := s.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		n := 0
		for i := range list.Items {
			if list.Items[i].Spec.NodeName != "" {
				n++
			}
		}
		return n == want && len(list.Items) == want, nil
	})
	return list.Items
}

func zoneAndHost(skew int32) *v1alpha1.TopologySpreadSection {
	return &v1alpha1.TopologySpreadSection{Constraints: []v1alpha1.TopologySpreadConstraint{
		{MaxSkew: skew, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule},
		{MaxSkew: skew, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule},
	}}
}

func perZone(pods []corev1.Pod) map[string]int {
	counts := map[string]int{}
	for _, p := range pods {
		counts["zone-"+string(rune('a'+int(p.Spec.NodeName[len(p.Spec.NodeName)-1]-'0')%3))]++
	}
	return counts
}

func writeFile(path string, text []byte) error { return os.WriteFile(path, text, 0o600) }

func eventScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := eventsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}
