package state_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// nowhere is an API server that is away.
var nowhere = &rest.Config{Host: "http://127.0.0.1:1"}

func nodeWith(labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}}
}

// newTestCluster is of node n, and does not run yet.
func newTestCluster(t *testing.T, config *rest.Config, o state.ClusterOptions) (*state.Cluster, *statetest.Log) {
	t.Helper()
	log := &statetest.Log{}
	o.NodeName, o.Log = "n", funcr.New(log.Write, funcr.Options{})
	if o.Clock == nil {
		o.Clock = testclock.NewFakeClock(statetest.LongAgo)
	}
	c, err := state.NewCluster(config, o)
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

// startCluster runs it until the test ends, and checks that it ends then.
func startCluster(t *testing.T, c *state.Cluster) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

// awaitNews waits until the source says by itself that something changed, and it is what is awaited. It is never asked without
// news, as the agent does not ask.
func awaitNews(t *testing.T, c *state.Cluster, what string, holds func(state.State, bool) bool) state.State {
	t.Helper()
	for {
		statetest.Until(t, what, func() bool {
			select {
			case <-c.Changed():
				return true
			default:
				return false
			}
		})
		if s, known := c.State(); holds(s, known) {
			return s
		}
	}
}

func isKnown(_ state.State, known bool) bool { return known }

// A node without a pod, in a cluster without a policy, is known as well, and that without waiting for anything to happen.
func TestClusterOfNothing(t *testing.T) {
	api := newSmallAPI(t)
	api.put(nodeWith(nil))
	c, _ := newTestCluster(t, api.config(), state.ClusterOptions{})
	if _, known := c.State(); known {
		t.Error("it is known before anything was asked")
	}
	startCluster(t, c)
	s := awaitNews(t, c, "an empty node", isKnown)
	if s.Node.Name != "n" || len(s.Pods) > 0 || s.Policy != nil || !s.Live || s.Config != nil || s.Guessed {
		t.Errorf("got %+v", s)
	}
}

func TestClusterFollows(t *testing.T) {
	api := newSmallAPI(t)
	pod := statetest.Pod("b", "cpu=100m")
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: "secret"}}
	api.put(pod)
	api.put(statetest.Pod("a"))
	c, log := newTestCluster(t, api.config(), state.ClusterOptions{})
	startCluster(t, c)
	statetest.Until(t, "the pods are known", func() bool { return c.KnownPods() == 2 })
	if _, known := c.State(); known {
		t.Error("it is known without its Node")
	}

	api.put(nodeWith(map[string]string{"pool": "web"}))
	s := awaitNews(t, c, "the Node registers", isKnown)
	if len(s.Pods) != 2 || s.Pods[0].Name != "a" || s.Pods[1].Spec.Containers[0].Env != nil || s.Policy != nil {
		t.Errorf("got %+v", s)
	}

	broken := nodePolicy("broken", 9, nil)
	broken.Spec.NodeSelector = &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	api.put(broken)
	api.put(nodePolicy("web", 1, map[string]string{"pool": "web"}))
	awaitNews(t, c, "a policy", func(s state.State, _ bool) bool { return s.Policy != nil && s.Policy.Name == "web" })
	api.put(nodePolicy("all", 5, nil))
	awaitNews(t, c, "a heavier policy", func(s state.State, _ bool) bool { return s.Policy.Name == "all" })
	if n := log.Count("NodePolicy broken"); n != 1 {
		t.Errorf("the broken policy was told %d times: %q", n, log.Lines())
	}
	api.remove(nodePolicy("all", 5, nil))
	awaitNews(t, c, "it is deleted", func(s state.State, _ bool) bool { return s.Policy.Name == "web" })
	api.put(nodeWith(nil))
	awaitNews(t, c, "the Node has other labels", func(s state.State, _ bool) bool { return s.Policy == nil })

	api.remove(pod)
	s = awaitNews(t, c, "a pod is deleted", func(s state.State, _ bool) bool { return len(s.Pods) == 1 })
	if again, _ := c.State(); &again.Pods[0] != &s.Pods[0] {
		t.Error("it was put together again without news")
	}
	if err := c.Save(s); err != nil {
		t.Error(err)
	}
	api.remove(nodeWith(nil))
	s = awaitNews(t, c, "the Node is deleted", func(s state.State, known bool) bool { return known && !s.Live })
	if len(s.Pods) != 1 || s.Node == nil {
		t.Errorf("what was last known does not count: %+v", s)
	}
}

// The kind NodePolicy may be installed later than the node enforcer. Until then what the checkpoint says counts.
func TestClusterWithoutTheKind(t *testing.T) {
	api := newSmallAPI(t)
	api.install(policiesPath, false)
	api.put(nodeWith(nil))
	file, _ := saved(t)
	c, _ := newTestCluster(t, api.config(), state.ClusterOptions{Checkpoint: file})
	startCluster(t, c)
	s := awaitNews(t, c, "the Node", func(s state.State, _ bool) bool { return s.Live })
	if s.Policy == nil || s.Policy.Name != "workers" {
		t.Errorf("the policy is %v", s.Policy)
	}
	if s.PolicyUnknown {
		t.Error("the checkpoint says which policy there is")
	}
	api.put(nodePolicy("new", 1, nil))
	api.install(policiesPath, true)
	awaitNews(t, c, "a policy", func(s state.State, _ bool) bool { return s.Policy != nil && s.Policy.Name == "new" })
}

// Without a checkpoint it is not known then that there is none, and that is not kept.
func TestClusterWithoutTheKindOrCheckpoint(t *testing.T) {
	api := newSmallAPI(t)
	api.install(policiesPath, false)
	api.put(nodeWith(nil))
	file := filepath.Join(t.TempDir(), "checkpoint")
	c, _ := newTestCluster(t, api.config(), state.ClusterOptions{Checkpoint: file})
	startCluster(t, c)
	s := awaitNews(t, c, "the Node", isKnown)
	if s.Policy != nil || !s.PolicyUnknown || !s.Live {
		t.Errorf("got %+v", s)
	}
	if err := c.Save(s); err != nil {
		t.Error(err)
	}
	if _, err := state.LoadCheckpoint(file); !errors.Is(err, state.ErrNoCheckpoint) {
		t.Errorf("it was saved: %v", err)
	}
	api.install(policiesPath, true)
	awaitNews(t, c, "no policy", func(s state.State, _ bool) bool { return !s.PolicyUnknown && s.Policy == nil })
}

// That no policy is left is known by an answer with none in it, and not by an event.
func TestClusterForgetsThePolicy(t *testing.T) {
	api := newSmallAPI(t)
	api.put(nodeWith(nil))
	file, _ := saved(t)
	c, _ := newTestCluster(t, api.config(), state.ClusterOptions{Checkpoint: file})
	startCluster(t, c)
	awaitNews(t, c, "no policy", func(s state.State, _ bool) bool { return s.Live && s.Policy == nil })
}

// Until the kubelet was asked nothing is planned; afterwards by its defaults, as long as it has not answered. What it said holds.
func TestClusterAsksTheKubelet(t *testing.T) {
	api := newSmallAPI(t)
	api.put(nodeWith(nil))
	var answer atomic.Pointer[string]
	answer.Store(new(""))
	first := make(chan struct{})
	kubelet := statetest.KubeletAt(t, statetest.Answering(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-first:
		case <-r.Context().Done():
		}
		_, _ = w.Write([]byte(*answer.Load()))
	}), "")
	clock := testclock.NewFakeClock(statetest.LongAgo)
	c, log := newTestCluster(t, api.config(), state.ClusterOptions{Kubelet: kubelet, Clock: clock, Policies: []*v1alpha1.NodePolicy{}})
	startCluster(t, c)
	statetest.Until(t, "the API server has said all", c.Answered)
	if s, known := c.State(); known {
		t.Errorf("the kubelet was not asked yet, and it is known: %+v", s)
	}
	close(first)
	if s := awaitNews(t, c, "it does not answer", isKnown); !s.Guessed || s.Config != nil {
		t.Errorf("got %+v", s)
	}
	again := func(text string) {
		t.Helper()
		answer.Store(&text)
		statetest.Until(t, "it waits", clock.HasWaiters)
		clock.Step(state.KubeletEvery)
	}
	again("garbage")
	again(`{"kubeletconfig":{"cgroupDriver":"systemd"}}`)
	if s := awaitNews(t, c, "it answers", func(s state.State, _ bool) bool { return s.Config != nil }); s.Guessed || s.Config.CgroupDriver != "systemd" {
		t.Errorf("got %+v", s)
	}
	if n := log.Count("failed to read the kubelet's configuration"); n != 1 {
		t.Errorf("told %d times: %q", n, log.Lines())
	}
	again("garbage")
	statetest.Until(t, "it was asked", clock.HasWaiters)
	select {
	case <-c.Changed():
		t.Error("no answer is news")
	default:
	}
	if s, _ := c.State(); s.Guessed || s.Config == nil {
		t.Errorf("what it said is forgotten: %+v", s)
	}
}

// It is asked by several at once, while all changes.
func TestClusterTogether(t *testing.T) {
	api := newSmallAPI(t)
	api.put(nodeWith(nil))
	c, _ := newTestCluster(t, api.config(), state.ClusterOptions{Checkpoint: filepath.Join(t.TempDir(), "checkpoint")})
	startCluster(t, c)
	ended := make(chan error, 3)
	for range cap(ended) {
		go func() {
			for range 200 {
				if s, known := c.State(); known {
					for _, p := range s.Pods {
						if p.Name == "" || s.Node == nil {
							ended <- errors.New("half a state")
							return
						}
					}
					if err := c.Save(s); err != nil {
						ended <- err
						return
					}
				}
			}
			ended <- nil
		}()
	}
	for name := range strings.SplitSeq("a b c d e f g h", " ") {
		api.put(statetest.Pod(name))
		api.put(nodePolicy(name, 1, nil))
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	awaitNews(t, c, "the last pod", func(s state.State, _ bool) bool { return len(s.Pods) == 8 && s.Policy != nil })
}
