package fencing

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
	core "github.com/podgrace/podgrace/fencing"
)

// staleAPI is a way to the API server on which nothing new comes of some nodes' Leases, while everything else does and is written: who reads them gets them as they were, as from an API
// server whose own watch of etcd is behind, or that is on the wrong side of a network that is cut in two.
type staleAPI struct {
	*httputil.ReverseProxy
	mu     sync.Mutex
	passed map[string][]byte // Leases as the watch told them last, by the names of the nodes
	known  map[string][]byte // those of the nodes that are behind
}

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/" + corev1.NamespaceNodeLease + "/leases"

// behindStaleAPI starts such a way for the fencer.
func behindStaleAPI(t *testing.T, l *lab) (_ *staleAPI, way *rest.Config) {
	t.Helper()
	s := &staleAPI{ReverseProxy: &httputil.ReverseProxy{}, passed: map[string][]byte{}}
	s.Rewrite = func(r *httputil.ProxyRequest) {
		if strings.HasPrefix(r.In.URL.Path, leasesPath) { // in a form that can be read here
			r.Out.Header.Set("Accept", "application/json")
			r.Out.Header.Del("Accept-Encoding")
		}
	}
	s.ModifyResponse = func(r *http.Response) error {
		if strings.HasPrefix(r.Request.URL.Path, leasesPath) && r.Request.URL.Query().Has("watch") {
			r.Body = s.filtered(r.Body)
		}
		return nil
	}
	way, err := clientcmd.BuildConfigFromFlags("", suite.Proxy(t, l.fencerConfig(t), s.ReverseProxy, s))
	if err != nil {
		t.Fatal(err)
	}
	return s, way
}

// ServeHTTP passes a request on, or answers with what is known.
func (s *staleAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name, ok := strings.CutPrefix(r.URL.Path, leasesPath+"/"); ok && r.Method == http.MethodGet {
		if old := s.old(name); old != nil {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(old)
			return
		}
	}
	s.ReverseProxy.ServeHTTP(w, r)
}

func (s *staleAPI) old(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[name]
}

// filtered is a watch without the events of nodes that are behind.
func (s *staleAPI) filtered(from io.ReadCloser) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		defer from.Close()
		lines := bufio.NewReader(from)
		for {
			line, err := lines.ReadBytes('\n')
			if s.pass(line) {
				if _, err := writer.Write(line); err != nil {
					return
				}
			}
			if err != nil {
				writer.CloseWithError(err)
				return
			}
		}
	}()
	return reader
}

// pass reports whether a line of a watch passes, and notes the Lease that it tells.
func (s *staleAPI) pass(line []byte) bool {
	var event struct{ Object json.RawMessage }
	var object struct{ Metadata struct{ Name string } }
	if json.Unmarshal(line, &event) != nil || json.Unmarshal(event.Object, &object) != nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[object.Metadata.Name] != nil {
		return false
	}
	s.passed[object.Metadata.Name] = event.Object
	return true
}

// version is that of a node's Lease as the watch told it last; empty: it has told none.
func (s *staleAPI) version(node string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lease coordinationv1.Lease
	if json.Unmarshal(s.passed[node], &lease) != nil {
		return ""
	}
	return lease.ResourceVersion
}

// fallBehind withholds news of these nodes; without nodes it withholds none. A read returns what the watch returned last, because a difference between the two counts as a sign of life.
func (s *staleAPI) fallBehind(t *testing.T, nodes ...string) {
	t.Helper()
	suite.Eventually(t, "the watch to tell the Leases of "+strings.Join(nodes, ", "), func(context.Context) (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.known = map[string][]byte{}
		for _, name := range nodes {
			if s.passed[name] == nil {
				return false, fmt.Errorf("it has not told that of %s", name)
			}
		}
		for _, name := range nodes {
			s.known[name] = s.passed[name]
		}
		return true, nil
	})
}

// Of half of the nodes nothing new reaches the fencer, which writes all the while: it says so, and fences none of them, not even the one that is really silent, not ready, and whose pod has waited
// for as long as the policy says. When they are heard of again, the conditions are taken back, and that one is fenced: nothing else kept it from being.
func TestHalfSilent(t *testing.T) {
	l := prepare(t)
	namespace := l.Namespace(t)
	l.Policy(t, namespace, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}})
	const first, well, dead = 6, 10, 11
	bmc, another := l.machine(t, dead, machineUUID(dead)), l.machine(t, well, machineUUID(well))
	pods := map[int]*corev1.Pod{}
	for _, i := range []int{well, dead} {
		l.policy(t, i, v1alpha1.FenceModeFence)
		pods[i] = l.database(t, namespace, i)
	}
	api, way := behindStaleAPI(t, l)
	l.startFencerWith(t, way)
	suite.Eventually(t, "the fencer to lead", func(context.Context) (bool, error) {
		n, err := l.fencer.rounds()
		return n > 0, err
	})

	var half []string
	for i := first; i <= dead; i++ {
		half = append(half, nodeName(i))
	}
	suite.Eventually(t, "the watch to tell a Lease of the node that falls silent", func(context.Context) (bool, error) { return api.version(nodeName(dead)) != "", nil })
	l.StopHeartbeat(nodeName(dead))
	suite.Eventually(t, "the watch to tell its last renewal", func(ctx context.Context) (bool, error) {
		var lease coordinationv1.Lease
		err := l.Client.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: nodeName(dead)}, &lease)
		return err == nil && api.version(lease.Name) == lease.ResourceVersion, err
	})
	api.fallBehind(t, half...)
	for _, name := range half {
		suite.EventuallyWithin(t, soon, "node "+name+" to be shown", func(context.Context) (bool, error) {
			c := l.condition(t, name)
			if c == nil || c.Status != corev1.ConditionUnknown || c.Reason != core.PartitionedCutOff {
				return false, fmt.Errorf("%+v", c)
			}
			return true, nil
		})
	}
	partitioned := func(i int, status corev1.ConditionStatus) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			var now corev1.Pod
			err := l.Client.Get(ctx, client.ObjectKeyFromObject(pods[i]), &now)
			return slices.ContainsFunc(now.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == core.ConditionPartitioned && c.Status == status }), err
		}
	}
	suite.Eventually(t, "the condition of a pod", partitioned(well, corev1.ConditionUnknown))
	l.notReady(t, nodeName(dead))
	// From now on all but the doubt speaks for a fence of it, round for round.
	before, err := l.fencer.rounds()
	if err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "more rounds", func(context.Context) (bool, error) {
		n, err := l.fencer.rounds()
		return n >= before+20, err
	})
	for _, name := range half {
		if fence, err := l.fenceOf(t.Context(), name); fence != nil || err != nil {
			t.Errorf("a Fence of node %s: %+v, %v", name, fence, err)
		}
	}
	if bmc.Offs() > 0 || another.Offs() > 0 {
		t.Errorf("the power was ordered off %d and %d times", bmc.Offs(), another.Offs())
	}

	api.fallBehind(t)
	for _, name := range half[:len(half)-1] {
		suite.Eventually(t, "node "+name+" to be heard of", func(context.Context) (bool, error) {
			c := l.condition(t, name)
			return c != nil && c.Status == corev1.ConditionFalse && c.Reason == core.PartitionedReturned, nil
		})
	}
	suite.Eventually(t, "the condition of the pod to be taken back", partitioned(well, corev1.ConditionFalse))
	l.renew(t, dead)
	if another.Offs() > 0 {
		t.Error("a node that is well was powered off")
	}
}
