package volumelock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httputil"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podgrace/podgrace/e2e/suite"
)

// pass is a way to the API server on which something may happen between that a write was stored and that its writer knows.
type pass struct {
	kubeconfig string

	mu    sync.Mutex // held while it happens: the next write waits
	after func(write string)
}

// newPass is one with the volume lock's rights.
func newPass(t *testing.T) *pass {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	p := &pass{}
	proxy := &httputil.ReverseProxy{ModifyResponse: p.stored}
	p.kubeconfig = suite.Proxy(t, config, proxy, toTheirEnd(proxy))
	return p
}

// toTheirEnd passes writes on whose writer is gone: of two that are made side by side the other one may be under way when it is killed after the first, and be stored.
func toTheirEnd(proxy http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			ctx, done := context.WithCancel(context.WithoutCancel(r.Context())) // without an end of its own the proxy would have it end with the connection
			defer done()
			r = r.WithContext(ctx)
		}
		proxy.ServeHTTP(w, r)
	})
}

// then has something happen after each write from now on; nil: nothing does, and nothing is happening any more.
func (p *pass) then(after func(write string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after = after
}

// undisturbed does what may not fail for what happens: nothing is happening meanwhile, and after a write that is stored meanwhile it happens next. It may wait for nothing that the writer does.
func (p *pass) undisturbed(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
}

// written finds what a write is about, without its name: Events and Leases are none of it.
var written = regexp.MustCompile(`^/(?:api|apis/[^/]+)/[^/]+/(nodes|volumeattachments|volumelocks)(?:/[^/]+(/status)?)?$`)

func (p *pass) stored(r *http.Response) error {
	about := written.FindStringSubmatch(r.Request.URL.Path)
	if r.Request.Method == http.MethodGet || r.StatusCode >= http.StatusMultipleChoices || about == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.after != nil {
		p.after(r.Request.Method + " " + about[1] + about[2])
	}
	return nil
}

// allWrites are those of a volume that is taken, attached and released.
var allWrites = []string{
	"DELETE volumelocks", "PATCH nodes/status", "PATCH volumeattachments", "PATCH volumeattachments/status", "POST volumelocks", "PUT volumelocks/status",
}

// The volume lock is killed after its writes, before it learns that they were stored. Then, while a volume goes back, the controller manager and the API server are killed in turns. Nothing is lost, and no
// other node gets the volume.
func TestFaults(t *testing.T) {
	l := newLab(t, "faults", iscsi)
	p := newPass(t)
	l.startBy(t, p.kubeconfig)
	pv := l.disk(t, "db", "1")
	ctx := context.WithoutCancel(t.Context())

	seen := l.handOver(t, p, pv, l.a, l.b, 5, func(int) {
		if err := errors.Join(l.replica.Kill(), l.startAnother(p.kubeconfig)); err != nil {
			t.Error(err)
		}
	})
	t.Logf("the volume lock was killed %s", seen)

	seen = l.handOver(t, p, pv, l.b, l.a, 2, func(n int) {
		restart := l.RestartAPIServer
		if n%2 > 0 {
			restart = l.RestartControllerManager
		}
		if err := restart(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Logf("the controller manager and the API server were killed %s", seen)
}

// handOver has a pod on one node get a volume, and then one on another, while something fails after the volume lock's writes. It returns how often, by kind of write.
//
// After writes of one kind it fails at most so many times. Without that limit the end depends on who is faster: if the kubelet answers a question (PATCH nodes/status) before the volume
// lock is back to note it, it asks again.
func (l *lab) handOver(t *testing.T, p *pass, pv *corev1.PersistentVolume, from, to string, atMost int, fail func(n int)) failures {
	t.Helper()
	failed, n := failures{}, 0
	failing := func(write string) {
		if failed[write] < atMost {
			failed[write]++
			n++
			fail(n)
		}
	}
	first := l.newPod("first-on-"+from, "db", from)
	second := l.newPod("second-on-"+to, "db", to)
	p.then(failing)
	l.Create(t, first)
	l.runs(t, first, pv, from)
	p.then(nil)

	l.kubelets[from].SetHung(true) // so that the release begins when that is to fail as well
	l.delete(t, first)
	l.Create(t, second)
	l.inUse(t, to, pv)
	l.waits(t, second, pv, from)
	p.then(failing)
	l.kubelets[from].SetHung(false)
	l.runs(t, second, pv, to)
	p.then(nil)
	l.gone(t, first)
	l.delete(t, second)
	l.gone(t, second)
	l.free(t, pv)
	for _, want := range allWrites {
		if failed[want] == 0 {
			t.Errorf("nothing failed after %s", want)
		}
	}
	return failed
}

// failures is how often something failed after writes of each kind.
type failures map[string]int

func (f failures) String() string {
	var all []string
	for _, write := range slices.Sorted(maps.Keys(f)) {
		all = append(all, fmt.Sprintf("%d times after %s", f[write], write))
	}
	return strings.Join(all, ", ")
}
