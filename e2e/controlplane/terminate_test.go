package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// enforcerAPI is the API as the node enforcer of a node uses it.
func enforcerAPI(t *testing.T, s *suite.Suite, node string, change ...func(*rest.Config)) *terminate.Client {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:podgrace-node:podgrace-nodeenforcer", Groups: []string{"system:masters"},
		Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}},
	}
	for _, c := range change {
		c(config)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return terminate.NewClient(kube.CoreV1().RESTClient(), clock.RealClock{})
}

func refOf(pod *corev1.Pod) terminate.Ref {
	return terminate.Ref{NamespacedName: client.ObjectKeyFromObject(pod), UID: pod.UID}
}

// run makes a pod look as its kubelet would: running and ready.
func run(t *testing.T, s *suite.Suite, pod *corev1.Pod) {
	t.Helper()
	kubelet, _ := s.Warned(t, "system:node:"+pod.Spec.NodeName, "system:nodes")
	now := pod.DeepCopy()
	now.Status.Phase = corev1.PodRunning
	now.Status.Conditions = append(now.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	if err := kubelet.Status().Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
}

// disruption returns why a pod is marked as a target of disruption; empty where it is not.
func disruption(pod *corev1.Pod) string {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return ""
	}
	return pod.Status.Conditions[i].Reason
}

func get(t *testing.T, s *suite.Suite, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	var now corev1.Pod
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), &now); err != nil {
		t.Fatal(err)
	}
	return &now
}

// A budget that forbids an eviction keeps the pod from any harm; once it allows it the pod gets the grace that was asked for.
func TestEvictionRespectsBudget(t *testing.T) {
	s := start(t)
	pod := guarded(t, s)
	run(t, s, pod)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "db"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
	}}
	s.Create(t, budget)
	settled := func(allowed int32) {
		t.Helper()
		suite.Eventually(t, "the budget", func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(budget), budget)
			return budget.Status.ObservedGeneration == budget.Generation && budget.Status.CurrentHealthy == 1 && budget.Status.DisruptionsAllowed == allowed, err
		})
	}
	settled(0)
	api := enforcerAPI(t, s, pod.Spec.NodeName)
	if a := api.Evict(t.Context(), refOf(pod), 7); a.Verdict != terminate.Budget {
		t.Fatalf("verdict %d: %v", a.Verdict, a.Err)
	}
	if now := get(t, s, pod); now.DeletionTimestamp != nil || disruption(now) != "" {
		t.Errorf("refused, but deleted at %v, marked %q", now.DeletionTimestamp, disruption(now))
	}
	budget.Spec.MinAvailable = new(intstr.FromInt32(0))
	if err := s.Client.Update(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	settled(1)
	for range 2 {
		if a := api.Evict(t.Context(), refOf(pod), 7); a.Verdict != terminate.Accepted {
			t.Fatalf("verdict %d: %v", a.Verdict, a.Err)
		}
	}
	now := get(t, s, pod)
	if now.DeletionGracePeriodSeconds == nil || *now.DeletionGracePeriodSeconds != 7 || disruption(now) != "EvictionByEvictionAPI" {
		t.Errorf("grace %v, marked %q", now.DeletionGracePeriodSeconds, disruption(now))
	}
}

// A pod that was recreated under its name is not the victim. The victim of a hard eviction is marked, and what guards pods
// does not stand in the way.
func TestTerminationIsForOneUID(t *testing.T) {
	s := start(t)
	old := guarded(t, s)
	var pod *corev1.Pod
	suite.Eventually(t, "the recreated pod", func(ctx context.Context) (bool, error) {
		pod = &corev1.Pod{}
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(old), pod)
		if err == nil && pod.UID == old.UID {
			// Refused until the API server's own informer knows to which node the pod was bound (NodeRestriction).
			return false, letGo(ctx, s, old)
		}
		return err == nil && pod.Spec.NodeName != "", client.IgnoreNotFound(err)
	})
	t.Cleanup(func() { _ = letGo(context.Background(), s, pod) })
	run(t, s, pod)
	api := enforcerAPI(t, s, pod.Spec.NodeName)
	for what, a := range map[string]terminate.Answer{
		"evict": api.Evict(t.Context(), refOf(old), 1), "delete": api.Delete(t.Context(), refOf(old), 1),
	} {
		if a.Verdict != terminate.Gone {
			t.Errorf("%s: verdict %d: %v", what, a.Verdict, a.Err)
		}
	}
	if err := api.Mark(t.Context(), refOf(old), "memory is short"); err == nil {
		t.Error("marked")
	}
	if now := get(t, s, pod); now.DeletionTimestamp != nil || disruption(now) != "" {
		t.Errorf("deleted at %v, marked %q", now.DeletionTimestamp, disruption(now))
	}
	if err := api.Mark(t.Context(), refOf(pod), "memory is short"); err != nil {
		t.Error(err)
	}
	if a := api.Delete(t.Context(), refOf(pod), 1); a.Verdict != terminate.Accepted {
		t.Errorf("verdict %d: %v", a.Verdict, a.Err)
	}
	now := get(t, s, pod)
	if now.DeletionGracePeriodSeconds == nil || *now.DeletionGracePeriodSeconds != 1 || disruption(now) != terminate.ReasonEvicted {
		t.Errorf("grace %v, marked %q", now.DeletionGracePeriodSeconds, disruption(now))
	}
	if a := api.Delete(t.Context(), terminate.Ref{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: "no-such"}, UID: "1"}, 1); a.Verdict != terminate.Gone {
		t.Errorf("verdict %d: %v", a.Verdict, a.Err)
	}
}

// away is a network in which the API server can be out of reach: connections break, new ones are refused.
type away struct {
	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

func (a *away) dial(ctx context.Context, network, address string) (net.Conn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shut {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		a.conns = append(a.conns, conn)
	}
	return conn, err
}

func (a *away) set(shut bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shut = shut
	for _, conn := range a.conns {
		conn.Close()
	}
	a.conns = nil
}

// steps is a Recorder whose steps can be waited for.
type steps chan terminate.Record

func (s steps) Record(_ terminate.Ref, r terminate.Record) { s <- r }

// until returns the step once it comes.
func (s steps) until(t *testing.T, step terminate.Step) terminate.Record {
	t.Helper()
	for {
		select {
		case r := <-s:
			if r.Step == step {
				return r
			}
		case <-time.After(time.Minute):
			t.Fatalf("no step %s", step)
		}
	}
}

// The API server goes away before a hard eviction: the victim's real process gets its signal and, in this tree, its kill; when
// the API server is back the pod is deleted.
func TestTerminationWithoutAPIServer(t *testing.T) {
	s := start(t)
	pod := guarded(t, s)
	run(t, s, pod)
	process := exec.Command("sleep", "3600")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill() })
	dir := "/kubepods/burstable/pod" + string(pod.UID)
	tree := cgrouptest.NewFake()
	tree.Add(dir, map[string]string{"memory.high": "max", "memory.current": "4096"})
	tree.Add(path.Join(dir, "main1"), nil, process.Process.Pid)
	network := &away{}
	seen := make(steps, 100)
	limits := terminate.DefaultLimits()
	limits.Retry.Max = 500 * time.Millisecond
	limits.Mark, limits.HardCall = time.Minute, time.Minute // a machine that is busy with other tests is not what is tested
	terminator := terminate.New(terminate.Config{
		API:     enforcerAPI(t, s, pod.Spec.NodeName, func(c *rest.Config) { c.Dial = network.dial }),
		Cgroups: tree, Processes: terminate.Host{Proc: "/proc"}, Ledger: &ledger.Ledger{File: filepath.Join(t.TempDir(), "contained")},
		Recorder: seen, Clock: clock.RealClock{}, Limits: limits,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- terminator.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	network.set(true)
	if err := terminator.Ask(terminate.Request{Pod: pod, Path: dir, Kind: eviction.Hard, GraceSeconds: 1, Contain: true, Message: "memory is short"}); err != nil {
		t.Fatal(err)
	}
	signalled := seen.until(t, terminate.StepSignalled)
	if high, _ := tree.Get(dir, "memory.high"); high != "4096" {
		t.Errorf("memory.high is %s", high)
	}
	killed := seen.until(t, terminate.StepKilled)
	if grace := killed.After - signalled.After; grace < 2*time.Second {
		t.Errorf("killed %s after its signal", grace)
	}
	if now := get(t, s, pod); now.DeletionTimestamp != nil {
		t.Error("the API server was not away")
	}
	var exit *exec.ExitError
	if err := process.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the process ended by %v", err)
	}
	network.set(false)
	if r := seen.until(t, terminate.StepAccepted); r.Err != nil {
		t.Error(r.Err)
	}
	if now := get(t, s, pod); fmt.Sprint(now.DeletionTimestamp != nil, disruption(now)) != fmt.Sprint(true, terminate.ReasonEvicted) {
		t.Errorf("deleted at %v, marked %q", now.DeletionTimestamp, disruption(now))
	}
	tree.Remove(dir)
	seen.until(t, terminate.StepGone)
}
