package selffence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/selffence"
)

const (
	patience = 30 * time.Second
	timeout  = 12 * time.Second
	boot     = "boot-1"
)

// world is a machine with a watchdog, its kubelet, and an API server. Time is that of the test's bubble.
type world struct {
	mu    sync.Mutex
	began time.Time
	// api says how the API server answers: fine, cut (nothing gets through), proxy (what stands before it answers instead), lost (done, and no answer), late (done much later, and
	// no answer), forbidden.
	api string
	// broken: the connection brings no answer, until it is closed.
	broken  bool
	node    corev1.Node
	version int
	// renewed is when the Lease was renewed for the last time, by the kubelet.
	renewed time.Time
	kubelet bool

	// The watchdog: open by whom, armed, fed last.
	opened  *dog
	armed   bool
	timeout time.Duration
	next    time.Duration // what the next one to open it sets
	fed     time.Time
	dead    time.Time
	stalls  time.Duration // between a decision to feed and the feeding
	wrong   []string
	unfit   error
	feeding int
}

func newWorld() *world {
	w := &world{began: time.Now(), api: "fine", kubelet: true, renewed: time.Now(), next: timeout}
	w.node.Name, w.node.Annotations = "n", map[string]string{}
	return w
}

var errCut = errors.New("no route to host")

// call is a request to the API server that does something.
func (w *world) call(ctx context.Context, do func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expire()
	api := w.api
	if w.broken {
		api = "broken"
	}
	switch api {
	case "cut":
		return errCut
	case "broken":
	case "proxy":
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{Resource: "nodes"}, "n", "no such backend", 0, true)
	case "lost":
		_ = do()
	case "late":
		time.AfterFunc(20*time.Second, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			_ = do()
		})
	case "forbidden":
		return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "n", errors.New("no such right"))
	default:
		return do()
	}
	w.mu.Unlock()
	<-ctx.Done()
	w.mu.Lock()
	return ctx.Err()
}

// Renewal is for selffence.Leases.
func (w *world) Renewal(ctx context.Context, _ string) (text string, err error) {
	err = w.call(ctx, func() error { text = w.renewed.String(); return nil })
	return text, err
}

// Get is for status.Nodes.
func (w *world) Get(ctx context.Context, _ string) (node *corev1.Node, err error) {
	if w.mood() == "forbidden" { // other rights are there
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.node.DeepCopy(), nil
	}
	err = w.call(ctx, func() error { node = w.node.DeepCopy(); return nil })
	return node, err
}

func (w *world) mood() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.api
}

// Patch is for status.Nodes.
func (w *world) Patch(ctx context.Context, _ string, _ types.PatchType, patch []byte, _ ...string) error {
	var p struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(patch, &p); err != nil {
		return err
	}
	do := func() error {
		if p.Metadata.ResourceVersion != "" && p.Metadata.ResourceVersion != w.node.ResourceVersion {
			return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("changed"))
		}
		w.version++
		w.node.ResourceVersion = fmt.Sprint(w.version)
		w.node.Annotations[v1alpha1.AnnotationSelfFence] = p.Metadata.Annotations[v1alpha1.AnnotationSelfFence]
		return nil
	}
	switch mood := w.mood(); {
	case mood == "late announcement" && !strings.Contains(p.Metadata.Annotations[v1alpha1.AnnotationSelfFence], `"off"`):
		time.AfterFunc(20*time.Second, func() { w.set(func() { _ = do() }) })
		<-ctx.Done()
		return ctx.Err()
	case mood == "forbidden":
		w.mu.Lock()
		defer w.mu.Unlock()
		return do()
	}
	return w.call(ctx, do)
}

// dog is the watchdog, open.
type dog struct {
	w       *world
	timeout time.Duration
	gone    bool // the process that opened it has ended
}

func (w *world) open() (selffence.Watchdog, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unfit != nil {
		return nil, w.unfit
	}
	if said := w.says(); strings.HasPrefix(said, boot) {
		w.wrong = append(w.wrong, "opened while the Node says "+said)
	}
	d := &dog{w: w, timeout: w.next}
	w.opened = d
	w.feed(d)
	return d, nil
}

// feed feeds it after the process was held up.
func (w *world) feed(d *dog) {
	stalls := w.stalls
	w.mu.Unlock()
	time.Sleep(stalls)
	w.mu.Lock()
	if w.expire(); w.dead.IsZero() && !d.gone {
		w.armed, w.fed, w.timeout = true, time.Now(), d.timeout
		w.feeding++
	}
}

// expire resets the machine when the watchdog was not fed.
func (w *world) expire() {
	if w.armed && w.dead.IsZero() && time.Since(w.fed) >= w.timeout {
		w.dead = w.fed.Add(w.timeout)
	}
}

func (d *dog) Feed() error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.gone {
		return errors.New("closed")
	}
	d.w.feed(d)
	return nil
}

func (d *dog) Disarm() error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.armed, d.gone = false, true
	return nil
}

func (d *dog) Close() error           { d.w.crash(); return nil }
func (d *dog) Timeout() time.Duration { return d.timeout }
func (d *dog) Identity() string       { return "test" }

// crash ends the process: the kernel feeds the watchdog once more.
func (w *world) crash() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expire()
	if w.opened != nil && !w.opened.gone {
		w.opened.gone = true
		if w.dead.IsZero() && w.armed {
			w.fed = time.Now()
		}
	}
	w.opened = nil
}

func (w *world) feeder() *selffence.Feeder {
	return &selffence.Feeder{
		Node: "n", BootID: boot, Patience: patience, Open: w.open, Leases: w, Nodes: w, Clock: clock.RealClock{}, Log: logr.Discard(),
		Now: func() time.Duration { return time.Since(w.began) }, HangUp: func() { w.set(func() { w.broken = false }) },
	}
}

// pass lets time pass, in which the kubelet renews its Lease. It holds the promise against what is so: a machine that says that its watchdog is armed, and whose Lease was not
// renewed for D+3W, is gone.
func (w *world) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		w.mu.Lock()
		w.expire()
		if w.kubelet && w.dead.IsZero() && w.api != "cut" && w.api != "proxy" && time.Since(w.renewed) >= 10*time.Second {
			w.renewed = time.Now()
		}
		var says v1alpha1.SelfFence
		_ = json.Unmarshal([]byte(w.node.Annotations[v1alpha1.AnnotationSelfFence]), &says)
		announced := says.BootID == boot && says.Off == "" && says.Timeout.Duration > 0
		if len(w.wrong) == 0 && announced && w.dead.IsZero() && time.Since(w.renewed) > says.Patience.Duration+3*says.Timeout.Duration {
			w.wrong = append(w.wrong, fmt.Sprintf("the machine lives %s after the last renewal; armed %v, fed %s ago", time.Since(w.renewed), w.armed, time.Since(w.fed)))
		}
		w.mu.Unlock()
	}
}

// start runs a feeder. stop ends it in order, kill as SIGKILL does.
func (w *world) start() (stop, kill func()) {
	w.set(func() { w.broken = false }) // a new process has a connection of its own
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.feeder().Run(ctx) // what it leaves behind is looked at
	}()
	end := func() { cancel(); <-done }
	return end, func() {
		w.crash()
		w.mu.Lock()
		mood := w.api
		w.api = "cut" // what is dead sends nothing
		w.mu.Unlock()
		end()
		w.mu.Lock()
		w.api = mood
		w.mu.Unlock()
	}
}

// Whatever happens: who sees that the watchdog is armed, and no renewal of the Lease, can reckon when the machine is gone. And a machine that is not cut off is not reset.
func TestReckoning(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failed any
		synctest.Test(t, func(*testing.T) {
			defer func() { failed = recover() }()
			w := newWorld()
			stop, kill := w.start()
			defer func() { kill() }()
			for range rapid.IntRange(1, 25).Draw(rt, "events") {
				switch rapid.SampledFrom([]string{"api", "api", "connection", "kubelet", "stall", "stop", "kill", "nothing"}).Draw(rt, "event") {
				case "api":
					w.set(func() {
						w.api = rapid.SampledFrom([]string{"fine", "fine", "cut", "proxy", "lost", "late", "forbidden"}).Draw(rt, "API server")
					})
				case "connection":
					w.set(func() { w.broken = true })
				case "kubelet":
					w.set(func() { w.kubelet = !w.kubelet })
				case "stall":
					w.set(func() {
						w.stalls = time.Duration(rapid.SampledFrom([]int{0, 3, 11, 14, 150}).Draw(rt, "stall")) * time.Second
					})
				case "stop":
					stop()
					w.set(func() {
						w.next = time.Duration(rapid.SampledFrom([]int{10, 12, 40}).Draw(rt, "next timeout")) * time.Second
					})
					w.pass(time.Duration(rapid.SampledFrom([]int{0, 3, 30, 150}).Draw(rt, "away")) * time.Second)
					stop, kill = w.start()
				case "kill":
					kill()
					w.set(func() {
						w.next = time.Duration(rapid.SampledFrom([]int{10, 12, 40}).Draw(rt, "next timeout")) * time.Second
					})
					w.pass(time.Duration(rapid.SampledFrom([]int{0, 3, 30, 150}).Draw(rt, "away")) * time.Second)
					stop, kill = w.start()
				}
				w.pass(time.Duration(rapid.IntRange(1, 90).Draw(rt, "seconds")) * time.Second)
				now := w.now()
				if len(now.wrong) > 0 {
					rt.Fatal(strings.Join(now.wrong, "\n"))
				}
				if !now.dead.IsZero() {
					return
				}
			}
		})
		if failed != nil {
			panic(failed)
		}
	})
}

// machine is what is so now.
type machine struct {
	dead    time.Time
	armed   bool
	feeding int
	wrong   []string
}

func (w *world) now() machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return machine{w.dead, w.armed, w.feeding, w.wrong}
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// said is what the Node says, in a word.
func (w *world) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.says()
}

func (w *world) says() string {
	var says v1alpha1.SelfFence
	switch text := w.node.Annotations[v1alpha1.AnnotationSelfFence]; {
	case text == "":
		return "nothing"
	case json.Unmarshal([]byte(text), &says) != nil:
		return text
	case says.Off != "":
		return "off"
	}
	return fmt.Sprint(says.BootID, " ", says.Patience.Duration, " ", says.Timeout.Duration, " ", says.Watchdog)
}

const announced = boot + " 30s 12s test"

func TestFeeder(t *testing.T) {
	tests := map[string]func(t *testing.T, w *world, stop, kill func()){
		"a machine that is not cut off lives": func(t *testing.T, w *world, stop, _ func()) {
			w.pass(time.Hour)
			if !w.now().dead.IsZero() || !w.now().armed || w.said() != announced {
				t.Errorf("dead %v, armed %v, says %s", w.now().dead, w.now().armed, w.said())
			}
			stop()
			if w.now().armed || w.said() != "off" {
				t.Errorf("ended in order: armed %v, says %s", w.now().armed, w.said())
			}
		},
		"one that is cut off is reset": func(t *testing.T, w *world, stop, _ func()) {
			w.pass(time.Minute)
			w.set(func() { w.api = "cut" })
			w.pass(2 * time.Minute)
			if w.now().dead.IsZero() {
				t.Error("it lives")
			}
			stop()
		},
		"and one whose kubelet is dead": func(t *testing.T, w *world, stop, _ func()) {
			w.pass(time.Minute)
			w.set(func() { w.kubelet = false })
			w.pass(2 * time.Minute)
			if w.now().dead.IsZero() {
				t.Error("it lives")
			}
			stop()
		},
		"a short cut resets nothing": func(t *testing.T, w *world, stop, _ func()) {
			w.pass(time.Minute)
			w.set(func() { w.api = "cut" })
			w.pass(patience / 2)
			w.set(func() { w.api = "fine" })
			w.pass(time.Minute)
			if !w.now().dead.IsZero() {
				t.Error("it was reset")
			}
			stop()
		},
		"without evidence it is not opened": func(t *testing.T, w *world, stop, _ func()) {
			w.set(func() { w.kubelet = false })
			w.pass(time.Minute)
			if w.now().feeding != 0 {
				t.Error("the watchdog was opened")
			}
			stop()
		},
		"a right that is missing has it disarmed": func(t *testing.T, w *world, stop, _ func()) {
			w.pass(time.Minute)
			w.set(func() { w.api = "forbidden" })
			w.pass(2 * time.Minute)
			if !w.now().dead.IsZero() || w.now().armed || w.said() != "off" {
				t.Errorf("dead %v, armed %v, says %s", w.now().dead, w.now().armed, w.said())
			}
			w.set(func() { w.api = "fine" })
			w.pass(time.Minute)
			if !w.now().armed || w.said() != announced {
				t.Errorf("then: armed %v, says %s", w.now().armed, w.said())
			}
			stop()
		},
		"a node that is being worked on has it disarmed": func(t *testing.T, w *world, stop, _ func()) {
			w.pass(time.Minute)
			w.set(func() {
				w.node.Annotations[v1alpha1.AnnotationMaintenance], w.version = "a new kubelet", w.version+1
				w.node.ResourceVersion = "m"
			})
			w.pass(90 * time.Second)
			w.set(func() { w.kubelet = false })
			w.pass(10 * time.Minute)
			if !w.now().dead.IsZero() || w.now().armed || w.said() != "off" {
				t.Errorf("dead %v, armed %v, says %s", w.now().dead, w.now().armed, w.said())
			}
			w.set(func() { w.kubelet = true; delete(w.node.Annotations, v1alpha1.AnnotationMaintenance) })
			w.pass(4 * time.Minute)
			if !w.now().armed || w.said() != announced {
				t.Errorf("then: armed %v, says %s", w.now().armed, w.said())
			}
			stop()
		},
		"an enforcer that ends without being able to say so leaves it armed": func(t *testing.T, w *world, stop, _ func()) {
			w.pass(time.Minute)
			w.set(func() { w.api = "cut" })
			stop()
			if !w.now().armed || w.said() != announced {
				t.Errorf("armed %v, says %s", w.now().armed, w.said())
			}
		},
		"one that was killed is followed by another, which feeds nothing without evidence": func(t *testing.T, w *world, _, kill func()) {
			w.pass(time.Minute)
			w.set(func() { w.api = "cut" })
			kill()
			before := w.now().feeding
			stop, _ := w.start()
			w.pass(time.Minute)
			if now := w.now(); now.dead.IsZero() || now.feeding != before {
				t.Errorf("dead %v, fed %d times", now.dead, now.feeding-before)
			}
			stop()
		},
		"one that ends is given some seconds to say so": func(t *testing.T, w *world, stop, _ func()) {
			w.pass(time.Minute)
			w.set(func() { w.api = "cut" })
			time.AfterFunc(5*time.Second, func() { w.set(func() { w.api = "fine" }) })
			stop()
			if w.now().armed || w.said() != "off" {
				t.Errorf("armed %v, says %s", w.now().armed, w.said())
			}
		},
		"a connection that brings nothing is not the API server's being away": func(t *testing.T, w *world, stop, _ func()) {
			w.pass(time.Minute)
			w.set(func() { w.broken = true })
			w.pass(10 * time.Minute)
			if now := w.now(); !now.dead.IsZero() || !now.armed || w.said() != announced {
				t.Errorf("dead %v, armed %v, says %s", now.dead, now.armed, w.said())
			}
			stop()
		},
		"one that ends over a connection that brings nothing says so over another": func(t *testing.T, w *world, stop, _ func()) {
			w.pass(time.Minute)
			w.set(func() { w.broken = true })
			stop()
			if w.now().armed || w.said() != "off" {
				t.Errorf("armed %v, says %s", w.now().armed, w.said())
			}
		},
		"one that is held up before it opens the watchdog does not announce it": func(t *testing.T, w *world, stop, _ func()) {
			w.set(func() { w.stalls = 5 * time.Minute })
			w.pass(30 * time.Second)
			w.set(func() { w.stalls, w.kubelet = 0, false })
			w.pass(10 * time.Minute)
			if now := w.now(); len(now.wrong) > 0 || now.armed || !now.dead.IsZero() || w.said() != "off" {
				t.Errorf("%q; dead %v, armed %v, says %s", now.wrong, now.dead, now.armed, w.said())
			}
			stop()
		},
		"that there is no Node is not a proxy's to say": func(t *testing.T, w *world, stop, _ func()) {
			w.pass(time.Minute)
			w.set(func() { w.api = "proxy" })
			w.pass(5 * time.Minute)
			if now := w.now(); len(now.wrong) > 0 || now.dead.IsZero() {
				t.Errorf("%q; dead %v, armed %v, says %s", now.wrong, now.dead, now.armed, w.said())
			}
			stop()
		},
		"one that was killed where the node is being worked on is followed by another, which disarms it": func(t *testing.T, w *world, _, kill func()) {
			w.pass(time.Minute)
			w.set(func() {
				w.node.Annotations[v1alpha1.AnnotationMaintenance], w.node.ResourceVersion = "a new kubelet", "m"
			})
			kill()
			w.set(func() { w.timeout = time.Hour })
			stop, _ := w.start()
			w.pass(10 * time.Minute)
			if now := w.now(); len(now.wrong) > 0 || now.armed || !now.dead.IsZero() || w.said() != "off" {
				t.Errorf("%q; dead %v, armed %v, says %s", now.wrong, now.dead, now.armed, w.said())
			}
			stop()
		},
		"that it is armed does not come after that it is off": func(t *testing.T, w *world, stop, _ func()) {
			w.set(func() { w.api = "late announcement" })
			for !w.now().armed {
				w.pass(time.Second)
			}
			w.pass(6 * time.Second) // it is being announced
			stop()
			w.pass(time.Minute)
			if w.said() != "off" {
				t.Error(w.said())
			}
		},
		"nobody reckons with an earlier timeout": func(t *testing.T, w *world, _, kill func()) {
			w.pass(time.Minute)
			kill()
			w.set(func() { w.next, w.timeout = time.Hour, time.Hour })
			stop, _ := w.start()
			w.pass(time.Minute)
			if now := w.now(); len(now.wrong) > 0 || !now.armed || w.said() != boot+" 30s 1h0m0s test" {
				t.Error(now.wrong, now.armed, w.said())
			}
			stop()
		},
		"a Node that is made anew by what was saved of it is told anew": func(t *testing.T, w *world, stop, _ func()) {
			w.pass(time.Minute)
			w.set(func() { w.node.UID, w.node.ResourceVersion = "another", "m" })
			w.pass(2 * time.Minute)
			var says v1alpha1.SelfFence
			w.set(func() { _ = json.Unmarshal([]byte(w.node.Annotations[v1alpha1.AnnotationSelfFence]), &says) })
			if says.NodeUID != "another" || w.said() != announced {
				t.Errorf("%+v", says)
			}
			stop()
		},
		"a watchdog that is unfit is not announced": func(t *testing.T, w *world, stop, kill func()) {
			kill()
			w.set(func() { w.unfit, w.armed, w.dead = selffence.ErrUnfit, false, time.Time{} })
			again, _ := w.start()
			w.pass(50 * time.Minute)
			if w.said() == announced || w.version > 3 {
				t.Errorf("says %s, after %d writes", w.said(), w.version)
			}
			again()
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				stop, kill := w.start()
				test(t, w, stop, kill)
			})
		})
	}
}

// An API server that is away for half a minute less than the patience resets nothing, with the default times, whenever it begins (docs/fencing.md).
func TestOutage(t *testing.T) {
	for begins := range 15 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.next = 30 * time.Second
			f := w.feeder()
			f.Patience = 2 * time.Minute
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- f.Run(ctx) }()
			w.pass(time.Minute + time.Duration(begins)*time.Second)
			w.set(func() { w.api = "cut" })
			w.pass(f.Patience - 30*time.Second)
			w.set(func() { w.api = "fine" })
			w.pass(time.Minute)
			if now := w.now(); !now.armed || !now.dead.IsZero() {
				t.Errorf("begun after %d s: armed %v, dead %v", begins, now.armed, now.dead)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEvidence(t *testing.T) {
	var e selffence.Evidence
	steps := []struct {
		asked   time.Duration
		renewal string
		now     time.Duration
		want    bool
	}{
		{1, "a", 1, false},     // may be years old
		{2, "a", 2, false},     // and still
		{3, "b", 3, true},      // stored after 2
		{4, "b", 12, true},     // 10 after 2
		{5, "b", 13, false},    // 11 after it
		{6, "c", 15, true},     // stored after 5
		{5, "b", 16, false},    // an answer that came late says nothing
		{6, "c", 4, false},     // a clock that went back
		{7, "c", 15, true},     // the same
		{100, "d", 110, false}, // stored after 7, perhaps long ago
	}
	for i, s := range steps {
		e.Learn(s.asked, s.renewal)
		if got := e.Within(s.now, 10); got != s.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}
