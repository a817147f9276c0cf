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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	mu    sync.Mutex
	known map[string][]byte // Leases as they are told, by the names of the nodes that are behind
}

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/" + corev1.NamespaceNodeLease + "/leases"

// behindStaleAPI starts such a way for the fencer.
func behindStaleAPI(t *testing.T, l *lab) (_ *staleAPI, way *rest.Config) {
	t.Helper()
	s := &staleAPI{ReverseProxy: &httputil.ReverseProxy{}}
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
			var event struct {
				Object struct{ Metadata struct{ Name string } }
			}
			if json.Unmarshal(line, &event) != nil || s.old(event.Object.Metadata.Name) == nil {
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

// fallBehind has nothing new come of these nodes. With none all is told again. No event passes while the Leases are read: one that was newer than what is told afterwards, as only a machine that
// is slow has it, would be a sign of life each time that the two are compared.
func (s *staleAPI) fallBehind(t *testing.T, l *lab, nodes ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = map[string][]byte{}
	if len(nodes) == 0 {
		return
	}
	text, _, err := l.Kubectl(t.Context(), "get", "--raw", leasesPath)
	if err != nil {
		t.Fatal(err)
	}
	var list coordinationv1.LeaseList
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	for _, lease := range list.Items {
		if !slices.Contains(nodes, lease.Name) {
			continue
		}
		lease.TypeMeta = metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"}
		if s.known[lease.Name], err = json.Marshal(lease); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.known) != len(nodes) {
		t.Fatalf("Leases of %d nodes, of %v", len(s.known), nodes)
	}
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
	l.StopHeartbeat(nodeName(dead))
	api.fallBehind(t, l, half...)
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

	api.fallBehind(t, l)
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
