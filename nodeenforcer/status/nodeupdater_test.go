package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// nodeAPI is an API server with one Node, which fails or hangs when it is told to.
type nodeAPI struct {
	client.WithWatch
	mu    sync.Mutex
	reads int
	fails error
	hangs bool
}

func newNodeAPI(taints ...corev1.Taint) *nodeAPI {
	api := &nodeAPI{}
	api.WithWatch = fake.NewClientBuilder().WithScheme(state.Scheme()).WithStatusSubresource(&corev1.Node{}).WithObjects(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: taints},
	}).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			api.mu.Lock()
			fails, hangs := api.fails, api.hangs
			api.reads++
			api.mu.Unlock()
			if hangs {
				<-ctx.Done()
				return ctx.Err()
			}
			return errors.Join(fails, c.Get(ctx, key, o, opts...))
		},
	}).Build()
	return api
}

func (a *nodeAPI) fail(err error, hang bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails, a.hangs = err, hang
}

func (a *nodeAPI) requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reads
}

// says is what the Node says: its taint's value, and conditions with their status.
func (a *nodeAPI) says(t *testing.T) string {
	t.Helper()
	a.fail(nil, false)
	var node corev1.Node
	if err := a.Get(t.Context(), client.ObjectKey{Name: "n"}, &node); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	a.reads--
	a.mu.Unlock()
	var said []string
	for _, taint := range node.Spec.Taints {
		said = append(said, fmt.Sprintf("%s=%s:%s", taint.Key, taint.Value, taint.Effect))
	}
	for _, c := range node.Status.Conditions {
		said = append(said, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	slices.Sort(said)
	return strings.ReplaceAll(strings.Join(said, " "), "podgrace.dev/", "")
}

// keeper runs one over an API server until the test's bubble ends.
func keeper(t *testing.T, api *nodeAPI) (*NodeUpdater, *statetest.Log) {
	log := &statetest.Log{}
	k := NewNodeUpdater(&Writer{Nodes: nodesOf{api}, Name: "n", Now: time.Now}, clock.RealClock{}, funcr.New(log.Write, funcr.Options{}))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	return k, log
}

// taintBefore is from before a restart.
const taintBefore = "pressure=memory:NoSchedule"

func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newNodeAPI(corev1.Taint{Key: enforcement.TaintPressure, Value: "memory", Effect: corev1.TaintEffectNoSchedule})
		k, _ := keeper(t, api)
		expect := func(what, want string) {
			t.Helper()
			synctest.Wait()
			if got := api.says(t); got != want {
				t.Errorf("%s: the Node says %s, want %s", what, got, want)
			}
		}
		time.Sleep(5 * time.Minute)
		expect("nothing is known yet, after a restart", taintBefore)
		k.SetEnforced("")
		expect("as planned", "PodgraceEnforced=True "+taintBefore)
		k.SetPressure([]string{"disk", "memory"}, "both are short")
		expect("pressure", "PodgraceEnforced=True PodgracePressure=True pressure=disk-memory:NoSchedule")
		k.SetEnforced("one file")
		expect("drift", "PodgraceEnforced=False PodgracePressure=True pressure=disk-memory:NoSchedule")
		k.SetPressure(nil, "")
		expect("it is over", "PodgraceEnforced=False PodgracePressure=False")

		requests := api.requests()
		for range 100 {
			k.SetEnforced("one file")
			k.SetPressure([]string{}, "")
		}
		synctest.Wait()
		if got := api.requests(); got != requests {
			t.Errorf("the same words cost %d requests", got-requests)
		}

		k.SetPressure([]string{"pid"}, "")
		expect("pressure again", "PodgraceEnforced=False PodgracePressure=True pressure=pid:NoSchedule")
		var node corev1.Node
		if err := api.Get(t.Context(), client.ObjectKey{Name: "n"}, &node); err != nil {
			t.Fatal(err)
		}
		node.Spec.Taints = nil
		if err := api.Update(t.Context(), &node); err != nil {
			t.Fatal(err)
		}
		time.Sleep(statusEvery)
		expect("somebody took the taint", "PodgraceEnforced=False PodgracePressure=True pressure=pid:NoSchedule")
	})
}

// While the API server is away it is asked ever more seldom, and then told the last word only.
func TestKeeperRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newNodeAPI()
		api.fail(errors.New("down"), false)
		k, log := keeper(t, api)
		k.SetPressure([]string{"memory"}, "short")
		time.Sleep(time.Second)
		k.SetPressure([]string{"memory", "pid"}, "more")
		k.SetPressure(nil, "")
		k.SetEnforced("x")
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if n := api.requests(); n < 30 || n > 50 {
			t.Errorf("%d requests in half an hour", n)
		}
		if log.Count("failed to update the Node's conditions") == 0 {
			t.Error("nothing was told")
		}
		api.fail(nil, false)
		time.Sleep(2 * statusEvery)
		synctest.Wait()
		if got := api.says(t); got != "PodgraceEnforced=False PodgracePressure=False" {
			t.Errorf("the Node says %s", got)
		}
		// The next trouble begins with short pauses again.
		api.fail(errors.New("down"), false)
		requests := api.requests()
		k.SetEnforced("")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := api.requests() - requests; n < 3 {
			t.Errorf("%d requests in five seconds", n)
		}
	})
}

// An API server that hangs does not keep the last word from being said once it answers.
func TestKeeperHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newNodeAPI()
		api.fail(nil, true)
		k, _ := keeper(t, api)
		k.SetPressure([]string{"memory"}, "short")
		synctest.Wait()
		k.SetPressure([]string{"pid"}, "short")
		api.fail(nil, false)
		time.Sleep(statusTimeout)
		synctest.Wait()
		if got := api.says(t); got != "PodgracePressure=True pressure=pid:NoSchedule" {
			t.Errorf("the Node says %s", got)
		}
		api.fail(nil, true) // and it ends while it hangs
		k.SetPressure(nil, "")
		synctest.Wait()
	})
}

// It is told by several at once.
func TestKeeperTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newNodeAPI()
		k, _ := keeper(t, api)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				short := []string{"memory"}
				k.SetEnforced(fmt.Sprint(i))
				k.SetPressure(short, "short")
				short[0] = "changed by its owner"
			})
		}
		all.Wait()
		k.SetEnforced("")
		synctest.Wait()
		if got := api.says(t); got != "PodgraceEnforced=True PodgracePressure=True pressure=memory:NoSchedule" {
			t.Errorf("the Node says %s", got)
		}
	})
	var nobody *NodeUpdater
	nobody.SetEnforced("x")
	nobody.SetPressure(nil, "")
}

// What is said is no longer than people read, and cut between characters.
func TestNodeStatusIsShort(t *testing.T) {
	var node corev1.Node
	NodeStatus{Unenforced: strings.Repeat("ä", 5000)}.apply(&node, statetest.LongAgo)
	for _, c := range node.Status.Conditions {
		if len(c.Message) > 1024 || strings.ToValidUTF8(c.Message, "?") != c.Message {
			t.Errorf("%s: %d bytes", c.Type, len(c.Message))
		}
	}
	before := node.DeepCopy()
	if spec, status := (NodeStatus{PressureUnknown: true, EnforcedUnknown: true}).apply(&node, statetest.LongAgo.Add(time.Hour)); spec || status {
		t.Errorf("it knows nothing and changes %v to %v", before, node)
	}
}
