package vm

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/e2e/vm"
)

const nodeName = "guest"

// threshold of memory.available. Well above the memory that the kernel takes itself, which the working set, by which
// the kubelet measures, leaves out.
const threshold = "600Mi"

// patience is for what happens in the guest: its processor is emulated, and shares two cores with the API server.
const patience = 5 * time.Minute

var shared = &suite.Shared{Tier: "virtual machine", Options: cluster.Options{ControllerManager: true, Scheduler: true}}

func TestMain(m *testing.M) { suite.Main(m, shared) }

var (
	startNode sync.Once
	node      *vm.Node
	nodeErr   error
)

func start(t *testing.T) (*suite.Suite, *vm.Node) {
	t.Helper()
	clustertest.Require(t, "virtual machine", vm.NodeSupported())
	s := shared.Get(t)
	startNode.Do(func() {
		node, nodeErr = vm.Start(context.Background(), s.Cluster, vm.Options{
			Name:   nodeName,
			Labels: map[string]string{"podgrace.test/guest": "yes"},
			KubeletConfig: func(config *kubeletv1beta1.KubeletConfiguration) {
				config.EvictionHard = map[string]string{"memory.available": threshold}
				config.EvictionPressureTransitionPeriod = metav1.Duration{Duration: time.Second}
			},
		})
	})
	if nodeErr != nil {
		t.Fatal(nodeErr)
	}
	return s, node
}

// run runs a script in the guest.
func run(t *testing.T, n *vm.Node, script string) string {
	t.Helper()
	output, err := n.Run(t.Context(), script)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return output
}

// namespace makes a namespace in which pods can be created.
func namespace(t *testing.T, s *suite.Suite) string {
	t.Helper()
	ns := s.Namespace(t)
	s.WaitServiceAccount(t, ns)
	return ns
}

func pod(namespace, name, image string, resources corev1.ResourceRequirements, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(5)),
			RestartPolicy:                 corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "main", Image: image, ImagePullPolicy: corev1.PullNever, Args: args, Resources: resources,
			}},
		},
	}
}

// running makes a pod and returns when it runs; p is then as the API server has it.
func running(t *testing.T, s *suite.Suite, p *corev1.Pod) {
	t.Helper()
	s.Create(t, p)
	eventually(t, "pod "+p.Name+" running", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		return p.Status.Phase == corev1.PodRunning && p.Status.ContainerStatuses[0].Started != nil, err
	})
}

// eventually waits for a state that another process reaches on its own: longer than suite.Eventually, since a guest is
// slow, and slower still on a machine with other work.
func eventually(t *testing.T, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	suite.EventuallyWithin(t, patience, what, condition)
}
