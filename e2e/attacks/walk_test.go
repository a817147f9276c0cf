package attacks

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// walk chooses what is sent next, by what is stored.
type walk struct {
	*world
	rng    *rand.Rand
	model  *model
	scheme *runtime.Scheme
	// pods, nodes and attachments as they are stored, in an order that does not depend on a map's.
	pods        []*podState
	nodes       []*corev1.Node
	attachments []*storagev1.VolumeAttachment

	state *stored

	// version up to which all of this is known, and that of the round before.
	version, before uint64
	made, forgeries int
	record          record
}

// attempt returns the requests of one try, which are sent in their order. One without a name only prepares.
type attempt struct {
	name string
	try  func(*walk) []request
}

// attempts are what is tried, each as often as any other. Those that must have been both refused and allowed are judged by Podgrace.
var attempts = []attempt{
	{"delete", (*walk).deletePod},
	{"delete a collection of pods", (*walk).deletePods},
	{"eviction", (*walk).evict},
	{"status", (*walk).endStatus},
	{"finalizer", (*walk).finalizer},
	{"confirm a pod", (*walk).confirmPod},
	{"binding", (*walk).binding},
	{"delete a node", (*walk).deleteNode},
	{"delete a collection of nodes", (*walk).deleteNodes},
	{"out of service", (*walk).outOfService},
	{"confirm a node", (*walk).confirmNode},
	{"finalizer of a node", (*walk).nodeFinalizer},
	{"delete a VolumeAttachment", (*walk).detach},
	{"", (*walk).ownership},
	{"", (*walk).stopped},
	{"", (*walk).stopped},
}

// A round is what is sent between two looks at what is stored, by several at once.
const (
	perRound = 3 // times each of the attempts
	senders  = 8 // as many as keep a small machine busy
)

// Nobody gets round the guard: no protected pod is taken for gone without a reason that counts.
func TestWalk(t *testing.T) {
	w := newWalk(t, start(t), denying)
	begin := time.Now()
	told := 0
	// A short walk may be too short for a rare outcome, so that it goes on for a while with what lacks one.
	for w.record.n < *requests || len(w.untried()) > 0 && w.record.n < 3**requests {
		next := attempts
		if untried := w.untried(); w.record.n >= *requests {
			next = slices.DeleteFunc(slices.Clone(attempts), func(a attempt) bool { return a.name != "" && !slices.Contains(untried, a.name) })
		}
		w.round(t, slices.Repeat(next, perRound))
		w.tell(t)
		if n := w.record.n / 10_000; n > told {
			told = n
			t.Logf("%d requests after %s", w.record.n, time.Since(begin).Round(time.Second))
		}
	}
	t.Log(w.summary(time.Since(begin)))
	if attempts := w.untried(); len(attempts) > 0 {
		t.Errorf("of %d requests never both refused and allowed, so that nothing is shown: %q", w.record.n, attempts)
	}
}

// newWalk returns a walk over a world with the given policies.
func newWalk(t *testing.T, s *suite.Suite, policies func(*testing.T, *world)) *walk {
	t.Helper()
	chosen := cmp.Or(*seed, draw.Seed())
	t.Logf("repeat with -attacks.seed=%d -attacks.requests=%d; what is chosen then depends also on what controllers do meanwhile", chosen, *requests)
	w := &walk{world: newWorld(t, s, policies), rng: rand.New(rand.NewPCG(chosen, 0)), scheme: scheme.Scheme, record: newRecord()} //nolint:gosec // it chooses what to try
	w.model = newModel(map[string]bool{w.stateful: false, w.all: true})
	kube, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	var first []event
	if w.state, first, err = follow(t.Context(), kube); err != nil {
		t.Fatal(err)
	}
	for _, e := range first {
		w.model.apply(e)
	}
	return w
}

// round sends each of the attempts, between two looks at what is stored.
func (w *walk) round(t *testing.T, next []attempt) {
	t.Helper()
	w.tend(t, w.model, w.rng.IntN)
	w.look(t)
	w.model.recent, w.before = w.before, w.version
	w.send(t.Context(), w.plan(next))
	w.look(t)
}

// untried are the attempts that were not both refused and allowed.
func (w *walk) untried() []string {
	var untried []string
	for _, r := range attempts {
		if counts := w.record.counts[r.name]; r.name != "" && (counts[refused] == 0 || counts[let] == 0) {
			untried = append(untried, r.name)
		}
	}
	return untried
}

// look has the model judge what was stored since the last look.
func (w *walk) look(t *testing.T) {
	t.Helper()
	changes, version, err := w.state.until(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range changes {
		w.model.apply(e)
	}
	w.version = version
	w.pods = slices.SortedFunc(maps.Values(w.model.pods), func(a, b *podState) int { return cmp.Compare(podName(a.pod), podName(b.pod)) })
	w.pods = slices.DeleteFunc(w.pods, func(p *podState) bool { return !slices.Contains(w.namespaces(), p.pod.Namespace) })
	w.nodes = nil
	for _, name := range slices.Sorted(maps.Keys(w.model.nodes)) {
		if n := w.model.nodes[name].node; n != nil && slices.Contains([]string{busy, cold, leaving}, n.Labels[group]) {
			w.nodes = append(w.nodes, n)
		}
	}
	w.attachments = slices.SortedFunc(maps.Values(w.model.attachments), func(a, b *storagev1.VolumeAttachment) int { return cmp.Compare(a.Name, b.Name) })
	w.attachments = slices.DeleteFunc(w.attachments, func(v *storagev1.VolumeAttachment) bool { return v.Name == marker })
}

// plan chooses a round's requests: lists, each of which is sent in its order.
func (w *walk) plan(next []attempt) [][]request {
	var all [][]request
	for _, r := range next {
		if list := r.try(w); list != nil {
			all = append(all, list)
		}
	}
	w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (w *walk) send(ctx context.Context, lists [][]request) {
	next := make(chan []request)
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for list := range next {
				for _, r := range list {
					o, says := send(ctx, w.users[r.who], w.Config.Host, r)
					w.record.add(r, o, says)
				}
			}
		})
	}
	for _, list := range lists {
		next <- list
	}
	close(next)
	all.Wait()
}

// tell ends the test where the model found something.
func (w *walk) tell(t *testing.T) {
	t.Helper()
	if len(w.model.violations) == 0 {
		return
	}
	for _, v := range w.model.violations {
		t.Errorf("%s\nWhat was stored last (version, object, and what of it decides):\n%s\nThe last requests that may have to do with it (number, who, what, and what became of it):\n%s", v.what, v.past, w.record.concerning(v.about))
	}
	t.FailNow()
}

// summary says what was tried, and what it came to.
func (w *walk) summary(took time.Duration) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d requests in %s\n", w.record.n, took.Round(time.Second))
	for _, attempt := range slices.Sorted(maps.Keys(w.record.counts)) {
		fmt.Fprintf(&text, "%-32s", cmp.Or(attempt, "(prepares)"))
		for _, o := range slices.Sorted(maps.Keys(w.record.counts[attempt])) {
			fmt.Fprintf(&text, " %s %d,", o, w.record.counts[attempt][o])
		}
		fmt.Fprintln(&text)
	}
	for _, what := range slices.Sorted(maps.Keys(w.model.removals)) {
		fmt.Fprintf(&text, "%s %d\n", what, w.model.removals[what])
	}
	return text.String()
}

// one is true once in n times.
func (w *walk) one(n int) bool { return w.rng.IntN(n) == 0 }

func oneOf[T any](w *walk, list []T) T { return list[w.rng.IntN(len(list))] }

// dryly makes a dry run of some requests.
func (w *walk) dryly(r request) request {
	if w.one(6) {
		r.dry = true
		if r.query == nil {
			r.query = url.Values{}
		}
		r.query.Set("dryRun", metav1.DryRunAll)
	}
	return r
}

func (w *walk) podWhere(is func(*podState) bool) *corev1.Pod {
	list := slices.DeleteFunc(slices.Clone(w.pods), func(p *podState) bool { return !is(p) })
	if len(list) == 0 {
		return nil
	}
	return oneOf(w, list).pod
}

// target is a pod to attack, mostly one that is protected.
func (w *walk) target() *corev1.Pod {
	protected := !w.one(3)
	return w.podWhere(func(p *podState) bool { return w.model.holds(p) == protected })
}

func (w *walk) nodeWhere(is func(*corev1.Node) bool) *corev1.Node {
	list := slices.DeleteFunc(slices.Clone(w.nodes), func(n *corev1.Node) bool { return !is(n) })
	if len(list) == 0 {
		return nil
	}
	return oneOf(w, list)
}

func (w *walk) attachment() *storagev1.VolumeAttachment {
	if len(w.attachments) == 0 {
		return nil
	}
	return oneOf(w, w.attachments)
}
