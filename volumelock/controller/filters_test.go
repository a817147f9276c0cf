package controller

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy/policytest/draw"
	"github.com/podgrace/podgrace/volumelock"
)

// watched is how many histories are tried: go test ./volumelock/controller -run TestFilters -watched=10000.
var watched = flag.Int("watched", 300, "random histories of events to try")

// TestFilters: whatever happens, and however late and in whatever order informers and handlers hear of it, no event is swallowed that matters: once all was heard of and all requests are worked off
// there is nothing to be done about any VolumeAttachment or VolumeLock, and what is to be looked at again later will be. A request whose answer is lost was carried out by then, or never is.
func TestFilters(t *testing.T) {
	t.Parallel()
	first := *seed
	if first == 0 {
		first = draw.Seed()
	}
	seen := map[string]int{}
	for i := range *watched {
		if left := search(t, first+uint64(i), nil, seen); left != "" {
			t.Fatalf("-seed=%d: %s", first+uint64(i), left)
		}
	}
	t.Logf("%d histories: %v", *watched, seen)
	for _, what := range []string{"make VolumeLock", "update the status of VolumeLock", "delete VolumeLock", "patch VolumeAttachment", "patch the status of VolumeAttachment", "delete VolumeAttachment", "patch the status of Node", "Conflict VolumeLock"} {
		if *watched >= 300 && seen[what] == 0 {
			t.Errorf("histories without: %s. There are %v", what, seen)
		}
	}
}

// found are the seeds of histories that find what swallows too much; 0 where there is none.
var found = map[string]uint64{
	"a Node that is gone is no news to its locks":          13880567464172015238,
	"a lock that is gone is no news":                       12362874027064965179,
	"a lock that is made is always at rest":                10277064443635677870,
	"an attachment that is deleted is no news":             4093027151131027515,
	"an attachment that was attached is no news":           5342449870796453073,
	"volumeattachment has no use for *v1.CSIDriver":        14386560516690810341,
	"volumeattachment has no use for *v1.Node":             5387170612485770462,
	"volumeattachment has no use for *v1.PersistentVolume": 14970619787558953940,
	"volumeattachment has no use for *v1alpha1.VolumeLock": 6327940532253349014,
	"volumelock has no use for *v1.CSIDriver":              14205746131454752162,
	"volumelock has no use for *v1.Node":                   3006908620814895482,
	"volumelock has no use for *v1alpha1.FenceReceipt":     5581033379185662091,
	"what is attached is as it should be":                  778158855858390762,
	"what is not attached is no news to its lock":          5858568544871571602,
}

// TestFiltersFind: what swallows more than it may is found.
func TestFiltersFind(t *testing.T) {
	t.Parallel()
	spoiled := map[string]func(x *Attacher, all []wiring){}
	for c, w := range (&Attacher{}).wirings(context.Background()) { // nobody watches a kind of objects
		for b := range w.beside {
			spoiled[fmt.Sprintf("%s has no use for %T", w.name, w.beside[b].of)] = func(_ *Attacher, all []wiring) {
				all[c].beside[b].news = func(context.Context, client.Object) []reconcile.Request { return nil }
			}
		}
	}
	swallow := func(name string, of client.Object, what func(x *Attacher, o client.Object) bool) func(*Attacher, []wiring) {
		return func(x *Attacher, all []wiring) {
			for _, w := range all {
				for i := range w.beside {
					if b := &w.beside[i]; w.name == name && reflect.TypeOf(b.of) == reflect.TypeOf(of) {
						news := b.news
						b.news = func(ctx context.Context, o client.Object) []reconcile.Request {
							if what(x, o) {
								return nil
							}
							return news(ctx, o)
						}
					}
				}
			}
		}
	}
	maps.Copy(spoiled, map[string]func(*Attacher, []wiring){
		"a lock that is made is always at rest": func(_ *Attacher, all []wiring) {
			all[1].heeds.CreateFunc = func(e event.CreateEvent) bool { return e.IsInInitialList }
		},
		"what is attached is as it should be": func(_ *Attacher, all []wiring) {
			heeds := all[0].heeds.UpdateFunc
			all[0].heeds.UpdateFunc = func(e event.UpdateEvent) bool {
				return !e.ObjectNew.(*storagev1.VolumeAttachment).Status.Attached && heeds(e)
			}
		},
		"an attachment that is deleted is no news": func(_ *Attacher, all []wiring) {
			heeds := all[0].heeds.UpdateFunc
			all[0].heeds.UpdateFunc = func(e event.UpdateEvent) bool { return e.ObjectNew.GetDeletionTimestamp() == nil && heeds(e) }
		},
		"an attachment that was attached is no news": func(x *Attacher, all []wiring) {
			all[0].heeds.UpdateFunc = func(e event.UpdateEvent) bool {
				was := e.ObjectOld.(*storagev1.VolumeAttachment).DeepCopy()
				was.Status.Attached = false
				return x.news(quiet, was, e.ObjectNew.(*storagev1.VolumeAttachment))
			}
		},
		"a lock that is gone is no news":              swallow("volumeattachment", &v1alpha1.VolumeLock{}, func(x *Attacher, o client.Object) bool { return x.lockNow(quiet, o.GetName()) == nil }),
		"a Node that is gone is no news to its locks": swallow("volumelock", &corev1.Node{}, func(x *Attacher, o client.Object) bool { return x.nodeNow(quiet, o.GetName()) == nil }),
		"what is attached is no news to its lock":     swallow("volumelock", &storagev1.VolumeAttachment{}, func(_ *Attacher, o client.Object) bool { return o.(*storagev1.VolumeAttachment).Status.Attached }),
		"what is not attached is no news to its lock": swallow("volumelock", &storagev1.VolumeAttachment{}, func(_ *Attacher, o client.Object) bool { return !o.(*storagev1.VolumeAttachment).Status.Attached }),
	})
	for name, spoil := range spoiled {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if left := search(t, found[name], nil, map[string]int{}); left != "" {
				t.Fatalf("-seed=%d: also with all filters as they are: %s", found[name], left)
			}
			if left := search(t, found[name], spoil, map[string]int{}); left != "" {
				t.Logf("%s: %s", name, left)
				return
			}
			first := found[name] + 1 // histories are others than when the seed was found; from here on, so that one is found each time or never
			for i := range uint64(20 * *watched) {
				if left := search(t, first+i, spoil, map[string]int{}); left != "" {
					t.Logf("%s: history %d; that of seed %d would be the first: %s", name, i+1, first+i, left)
					return
				}
			}
			t.Error("nobody notices")
		})
	}
}

// search plays the history of a seed. If something is left to be done it says so, by what of the history that needs.
func search(t *testing.T, seed uint64, spoil func(*Attacher, []wiring), seen map[string]int) string {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 4))
	all := make([]uint64, 10+r.IntN(40))
	for i := range all {
		all[i] = r.Uint64()
	}
	h := play(t, all, spoil)
	for what, n := range h.api.did {
		seen[what] += n
	}
	if h.left == "" {
		return ""
	}
	for i := range slices.Backward(all) {
		if fewer := slices.Delete(slices.Clone(all), i, i+1); play(t, fewer, spoil).left != "" {
			all = fewer
		}
	}
	h = play(t, all, spoil)
	return h.left + "\n  " + strings.Join(h.log, "\n  ")
}

// history is a cluster in which something happens, and the attacher with its informers.
type history struct {
	t     *testing.T
	r     *rand.Rand // of the step that is taken
	x     *Attacher
	api   *server
	known *informed
	clock *testclock.FakePassiveClock
	// wirings and their queues, by place.
	wirings []wiring
	queues  []*queue
	busy    int  // how many are deciding
	calm    bool // nothing happens by itself, and no request fails
	pods    map[string]map[string]bool
	beats   int
	log     []string
	left    string // to be done, of which nobody has heard
}

func (h *history) say(format string, args ...any) {
	h.log = append(h.log, strings.Repeat("  ", h.busy)+fmt.Sprintf(format, args...))
}

// hosts of the cluster, and its volumes as they are made at first: two lead to one export.
var hosts = []string{"a", "b", "c"}

func volumeAt(i int) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pv-%d", i)}, Spec: corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: fmt.Sprintf("handle-%d", i),
			VolumeAttributes: map[string]string{"server": "filer", "share": []string{"/srv/db", "/srv//db/", "/srv/x"}[i]}}}}}
}

// play has each step be taken, with randomness of its own, so that one can be left out; then all is worked off, and it is seen whether something is left.
func play(t *testing.T, steps []uint64, spoil func(*Attacher, []wiring)) *history {
	t.Helper()
	h := &history{t: t, clock: testclock.NewFakePassiveClock(began), pods: map[string]map[string]bool{}}
	h.known = &informed{t: t, objects: objects{}, ahead: map[reflect.Type][]change{}}
	h.api = &server{objects: objects{}, did: map[string]int{}, say: h.say, now: h.clock.Now, between: h.between, changed: func(c change) {
		of := reflect.TypeOf(c.is)
		h.known.ahead[of] = append(h.known.ahead[of], c)
	}}
	h.x = &Attacher{Client: h.api, Live: h.api, Cache: h.known, Drivers: []string{driver}, Clock: h.clock}
	h.wirings = h.x.wirings(quiet)
	if spoil != nil {
		spoil(h.x, h.wirings)
	}
	for _, w := range h.wirings {
		q := &queue{later: map[reconcile.Request]time.Time{}, running: map[reconcile.Request]bool{}}
		h.queues = append(h.queues, q)
		listen := func(of client.Object, heeds predicate.Predicate, handler handler.EventHandler) {
			h.known.ahead[reflect.TypeOf(of)] = nil
			h.known.listeners = append(h.known.listeners, &listener{of: reflect.TypeOf(of), queue: q, heeds: heeds, handler: handler})
		}
		listen(w.of, w.heeds, &handler.EnqueueRequestForObject{})
		for _, b := range w.beside {
			listen(b.of, predicate.Funcs{}, handler.EnqueueRequestsFromMapFunc(b.news))
		}
	}
	h.r = rand.New(rand.NewPCG(0, 5))
	for _, host := range hosts {
		h.pods[host] = map[string]bool{}
		h.register(host)
	}
	for i := range 3 {
		h.api.make(volumeAt(i))
	}
	h.makeDriver(true)
	h.workOff()
	for _, step := range steps {
		h.r = rand.New(rand.NewPCG(step, 6))
		h.happen()
		if h.left != "" {
			return h
		}
	}
	h.workOff()
	return h
}

// happen is one step.
func (h *history) happen() {
	switch n := h.r.IntN(24); {
	case n < 4 && h.busy == 0:
		h.workOff()
	case n < 8:
		h.hand()
	case n < 11:
		h.hears()
	case n < 13:
		h.decides()
	case n < 19:
		pick(h, h.comesUp, h.comesUp, h.comesUp, h.goesDown, h.goesDown, h.replica)()
	case n < 21:
		h.kubelet(pick(h, hosts...))
	case n < 22:
		h.attachDetach()
	case n < 23 && h.r.IntN(5) == 0:
		of := pick(h, h.known.types()...)
		h.say("the informer of %s lists anew", of)
		h.known.relist(of, h.api.objects)
	default:
		h.passes(pick(h, time.Second, 10*time.Second, time.Minute, 11*time.Minute))
	}
}

var errLost = errors.New("the request fails, or its answer is lost")

// between has something happen between two requests of the attacher.
func (h *history) between() error {
	if h.calm {
		return nil
	}
	for range h.r.IntN(4) / 3 * (1 + h.r.IntN(3)) {
		h.happen()
	}
	if h.r.IntN(40) == 0 {
		h.say("a request is lost")
		return errLost
	}
	return nil
}

// hears has an informer hear of something, or a handler of what its informer has. False: there is nothing.
func (h *history) hears() bool {
	var all []func()
	for _, of := range h.known.types() {
		if len(h.known.ahead[of]) > 0 {
			all = append(all, func() { h.known.hear(of) })
		}
	}
	for _, l := range h.known.listeners {
		if len(l.notices) > 0 {
			all = append(all, func() { l.hear(quiet) })
		}
	}
	if len(all) == 0 {
		return false
	}
	all[h.r.IntN(len(all))]()
	return true
}

// decides has a controller work off one request. False: there is none, or too many are being worked off.
func (h *history) decides() bool {
	if h.busy == 2 {
		return false
	}
	first := h.r.IntN(len(h.queues))
	for i := range h.queues {
		at := (first + i) % len(h.queues)
		q := h.queues[at]
		r, ok := q.take(h.r)
		if !ok {
			continue
		}
		q.running[r] = true
		h.say("%s %s is decided about", h.wirings[at].name, r.Name)
		h.busy++
		result, err := h.wirings[at].reconcile(quiet, r)
		h.busy--
		delete(q.running, r)
		switch {
		case err != nil && !errors.Is(err, errLost) && !strings.Contains(err.Error(), "it is of driver") && !strings.Contains(err.Error(), "is for VolumeLock"):
			h.t.Fatalf("%v\n%s", err, strings.Join(h.log, "\n"))
		case err != nil:
			q.Add(r)
		case result.RequeueAfter > 0:
			q.addAt(r, h.clock.Now().Add(result.RequeueAfter))
		}
		return true
	}
	return false
}

// passes has time pass, and what was to be looked at by then be ready.
func (h *history) passes(by time.Duration) {
	h.say("%s pass", by)
	h.clock.SetTime(h.clock.Now().Add(by))
	h.due()
}

func (h *history) due() {
	for _, q := range h.queues {
		for _, r := range slices.SortedFunc(maps.Keys(q.later), func(a, b reconcile.Request) int { return strings.Compare(a.Name, b.Name) }) {
			if !q.later[r].After(h.clock.Now()) {
				q.Add(r)
			}
		}
	}
}

// workOff has all be heard of and all requests be worked off, also those that are to come at once, while nothing else happens; then it sees what is left.
func (h *history) workOff() {
	h.calm = true
	h.say("all is heard of and worked off")
	for range 2000 {
		if h.r.IntN(3) > 0 && h.hears() || h.decides() || h.hears() {
			continue
		}
		if !slices.ContainsFunc(h.queues, func(q *queue) bool {
			for _, at := range q.later {
				if !at.After(h.clock.Now().Add(time.Second)) {
					return true
				}
			}
			return false
		}) {
			h.left = h.leaves()
			h.calm = false
			return
		}
		h.clock.SetTime(h.clock.Now().Add(again))
		h.due()
	}
	h.left = "it never ends"
}

// leaves is what is to be done by all that is so now, and nobody does.
func (h *history) leaves() string {
	for at, decide := range []func(name string) (volumelock.Decision, *subject, error){
		func(name string) (volumelock.Decision, *subject, error) {
			return h.x.decideAttachment(quiet, name, nil)
		},
		func(name string) (volumelock.Decision, *subject, error) { return h.x.decideLock(quiet, name) },
	} {
		w, q := h.wirings[at], h.queues[at]
		for _, o := range h.api.all(reflect.TypeOf(w.of)) {
			d, _, err := decide(o.GetName())
			if err != nil {
				h.t.Fatal(err)
			}
			next, looked := q.later[reconcile.Request{NamespacedName: client.ObjectKey{Name: o.GetName()}}]
			switch {
			case d.Write != nil:
				return fmt.Sprintf("%s %s: %s: %s", w.name, o.GetName(), d.Reason.Code, d.Write)
			case d.After > 0 && (!looked || next.After(h.clock.Now().Add(d.After))):
				return fmt.Sprintf("%s %s: %s: is to be looked at in %s, and will be %s", w.name, o.GetName(), d.Reason.Code, d.After, next)
			}
		}
	}
	return ""
}

// stored is an object of the API server; nil: there is none.
func stored[T client.Object](h *history, of T, name string) T {
	is, _ := h.api.objects[reflect.TypeOf(of)][name].(T)
	return is
}

// edit has somebody change an object, if it is there.
func edit[T client.Object](h *history, o T, how string, change func(T)) {
	if is := h.api.objects[reflect.TypeOf(o)][o.GetName()]; is == nil {
		return
	}
	c := h.api.objects[reflect.TypeOf(o)][o.GetName()].DeepCopyObject().(T)
	change(c)
	h.say("%s: %s", c.GetName(), how)
	h.api.store(c)
}

// any of those that the API server has; false: there is none.
func anyOf[T client.Object](h *history, of T) (T, bool) {
	all := h.api.all(reflect.TypeOf(of))
	if len(all) == 0 {
		return of, false
	}
	return all[h.r.IntN(len(all))].(T), true
}

func pick[T any](h *history, all ...T) T { return all[h.r.IntN(len(all))] }

// register makes a Node.
func (h *history) register(host string) {
	if stored(h, &corev1.Node{}, host) == nil {
		h.beats += 10
		h.say("Node %s is made", host)
		h.api.make(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: fmt.Sprintf("boot-%s-%d", host, h.beats)},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: h.beat(), LastTransitionTime: h.beat()}}}})
	}
}

func (h *history) beat() metav1.Time {
	return metav1.NewTime(began.Add(time.Duration(h.beats) * time.Second))
}

// kubelet reports what its pods use.
func (h *history) kubelet(host string) {
	edit(h, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host}}, "its kubelet reports", func(n *corev1.Node) {
		h.beats += 10
		n.Status.VolumesInUse = nil
		for _, handle := range slices.Sorted(maps.Keys(h.pods[host])) {
			n.Status.VolumesInUse = append(n.Status.VolumesInUse, volumelock.InUseName(driver, handle))
		}
		ready := &n.Status.Conditions[0]
		ready.LastHeartbeatTime = h.beat()
		if ready.Status != corev1.ConditionTrue {
			ready.Status, ready.LastTransitionTime = corev1.ConditionTrue, h.beat()
		}
	})
}

// wants has the attach/detach controller make a VolumeAttachment.
func (h *history) wants(host string, pv *corev1.PersistentVolume) {
	name := volumelock.AttachmentName(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle, host)
	if stored(h, &storagev1.VolumeAttachment{}, name) == nil {
		h.say("%s is to be attached to %s: %s", pv.Name, host, name)
		h.api.make(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: host,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name}}})
	}
}

// comesUp has a pod come to a node, up to somewhere.
func (h *history) comesUp() {
	pv, ok := anyOf(h, &corev1.PersistentVolume{})
	host := pick(h, hosts...)
	if !ok {
		return
	}
	for i := range 1 + h.r.IntN(4) {
		switch i {
		case 0:
			h.pods[host][pv.Spec.CSI.VolumeHandle] = true
			h.wants(host, pv)
		case 1:
			h.kubelet(host)
		case 2:
			h.goesOn()
		case 3:
			h.attachDetach()
		}
	}
}

// goesDown has a pod leave its node, and the volume be detached from it, up to somewhere. Or the Node goes, and the attacher is the one who deletes the VolumeAttachment.
func (h *history) goesDown() {
	a, ok := anyOf(h, &storagev1.VolumeAttachment{})
	if !ok {
		return
	}
	if n := stored(h, &corev1.Node{}, a.Spec.NodeName); n != nil && h.r.IntN(6) == 0 {
		h.say("Node %s is deleted, to which %s is attached", n.Name, a.Name)
		h.api.remove(n)
		h.goesOn()
		return
	}
	for i := range 1 + h.r.IntN(6) {
		switch i {
		case 0:
			h.pods[a.Spec.NodeName] = map[string]bool{}
		case 2:
			if is := stored(h, a, a.Name); is != nil {
				h.say("%s is deleted", a.Name)
				h.api.remove(is)
			}
		default:
			h.kubelet(a.Spec.NodeName)
		}
		h.goesOn()
	}
}

// goesOn has the attacher hear of some of what there is, and work some of it off, if it is not about to.
func (h *history) goesOn() {
	for range 6 * h.r.IntN(2) {
		if h.busy == 0 {
			h.hears()
			h.decides()
		}
	}
}

// replica is another one, whose informers are not late, and that has thought for a moment that it leads. It tries what it has begun until that is done: where one stops in the midst another one has listed all.
func (h *history) replica() {
	a, ok := anyOf(h, &storagev1.VolumeAttachment{})
	if !ok || h.busy == 2 {
		return
	}
	h.say("another replica decides about %s", a.Name)
	other := &Attacher{Client: h.api, Live: h.api, Cache: h.api.objects, Drivers: h.x.Drivers, Clock: h.clock}
	h.busy++
	for err := errLost; err != nil; {
		_, err = other.ReconcileAttachment(quiet, reconcile.Request{NamespacedName: client.ObjectKey{Name: a.Name}})
	}
	h.busy--
}

// attachDetach has the Nodes say what is attached.
func (h *history) attachDetach() {
	for _, host := range hosts {
		var attached []corev1.AttachedVolume
		for _, o := range h.api.all(reflect.TypeFor[*storagev1.VolumeAttachment]()) {
			a := o.(*storagev1.VolumeAttachment)
			if pv := stored(h, &corev1.PersistentVolume{}, volumeOf(a)); pv != nil && a.Spec.NodeName == host && a.Status.Attached && a.DeletionTimestamp == nil {
				attached = append(attached, corev1.AttachedVolume{Name: volumelock.InUseName(driver, pv.Spec.CSI.VolumeHandle)})
			}
		}
		if n := stored(h, &corev1.Node{}, host); n != nil && !slices.Equal(n.Status.VolumesAttached, attached) {
			edit(h, n, "volumes are attached", func(n *corev1.Node) { n.Status.VolumesAttached = attached })
		}
	}
}

// hand is what users, controllers and machines do.
func (h *history) hand() {
	switch h.r.IntN(10) {
	case 0, 1:
		h.pod()
	case 2, 3:
		h.machine(pick(h, hosts...))
	case 4:
		h.volume()
	case 5:
		h.csiDriver()
	case 6, 7:
		if a, ok := anyOf(h, &storagev1.VolumeAttachment{}); ok {
			h.attachment(a)
		}
	case 8:
		h.lock()
	case 9:
		h.receipt()
	}
}

// pod comes or goes.
func (h *history) pod() {
	host := pick(h, hosts...)
	pv, ok := anyOf(h, &corev1.PersistentVolume{})
	switch {
	case !ok:
	case h.r.IntN(2) == 0:
		h.pods[host][pv.Spec.CSI.VolumeHandle] = true
		h.wants(host, pv)
	default:
		h.say("the pods of %s go from %s", pv.Name, host)
		delete(h.pods[host], pv.Spec.CSI.VolumeHandle)
	}
}

func (h *history) machine(host string) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host}}
	switch h.r.IntN(7) {
	case 0:
		edit(h, n, "is not heard of", func(n *corev1.Node) {
			if ready := &n.Status.Conditions[0]; ready.Status == corev1.ConditionTrue {
				h.beats++
				ready.Status, ready.LastTransitionTime = corev1.ConditionUnknown, h.beat()
			}
		})
	case 1:
		h.pods[host] = map[string]bool{}
		edit(h, n, "has booted", func(n *corev1.Node) {
			h.beats += 10
			n.Status.NodeInfo.BootID = fmt.Sprintf("boot-%s-%d", host, h.beats)
		})
	case 2:
		if is := stored(h, n, host); is != nil {
			h.say("Node %s is deleted", host)
			h.api.remove(is)
		}
	case 3, 4:
		h.register(host)
	case 5:
		edit(h, n, "is out of service, or is not", func(n *corev1.Node) {
			if n.Spec.Taints != nil {
				n.Spec.Taints = nil
			} else {
				n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
			}
		})
	case 6:
		edit(h, n, "is cordoned, or is not", func(n *corev1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable })
	}
}

func (h *history) volume() {
	made := volumeAt(h.r.IntN(3))
	if is := stored(h, made, made.Name); is != nil {
		h.say("PersistentVolume %s is deleted", made.Name)
		h.api.remove(is)
		if h.r.IntN(2) == 0 {
			return
		}
	}
	if h.r.IntN(3) == 0 {
		made.Spec.CSI.VolumeAttributes["share"] = pick(h, "/srv/db", "/srv/x")
	}
	if h.r.IntN(3) == 0 {
		made.Spec.CSI.VolumeHandle = pick(h, "handle-0", "handle-2")
	}
	if h.r.IntN(3) == 0 {
		made.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	}
	h.say("PersistentVolume %s is made: %v %v", made.Name, made.Spec.AccessModes, *made.Spec.CSI)
	h.api.make(made)
}

// makeDriver makes the CSIDriver, and if it is to be gated with the mark that it was adopted.
func (h *history) makeDriver(gated bool) {
	h.say("the CSIDriver is made, gated: %t", gated)
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &gated}}
	h.api.make(d)
	if gated {
		h.adopt(volumelock.AdoptedMark)
	}
}

func (h *history) adopt(mark func(types.UID) string) {
	edit(h, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}}, "is marked", func(d *storagev1.CSIDriver) {
		d.Annotations = map[string]string{v1alpha1.AnnotationGated: mark(d.UID)}
	})
}

func (h *history) csiDriver() {
	is := stored(h, &storagev1.CSIDriver{}, driver)
	switch n := h.r.IntN(6); {
	case is == nil:
		h.makeDriver(n > 0)
	case n == 0:
		h.say("the CSIDriver is deleted")
		h.api.remove(is)
	case n == 1:
		h.api.remove(is)
		h.makeDriver(h.r.IntN(3) > 0)
	case n == 2:
		h.adopt(pick(h, volumelock.AdoptingMark, func(types.UID) string { return "" }))
	default:
		h.adopt(volumelock.AdoptedMark)
	}
}

func (h *history) attachment(a *storagev1.VolumeAttachment) {
	own := "external-attacher/" + driver
	switch h.r.IntN(10) {
	case 0, 1, 2, 3:
		h.say("%s is deleted", a.Name)
		h.api.remove(a)
	case 4:
		edit(h, a, "its finalizer is taken away", func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
	case 5, 6:
		edit(h, a, "an attacher of the driver's own comes, or goes", func(a *storagev1.VolumeAttachment) {
			if slices.Contains(a.Finalizers, own) {
				a.Finalizers = slices.DeleteFunc(a.Finalizers, func(f string) bool { return f == own })
			} else if a.DeletionTimestamp == nil {
				a.Finalizers = append(a.Finalizers, own)
			}
		})
	case 7:
		edit(h, a, "another attacher says attached, or not", func(a *storagev1.VolumeAttachment) { a.Status.Attached = !a.Status.Attached })
	case 8:
		edit(h, a, "somebody says why it is not attached", func(a *storagev1.VolumeAttachment) {
			a.Status.AttachError = pick(h, nil, &storagev1.VolumeError{Time: metav1.NewTime(h.clock.Now()), Message: "by hand"})
		})
	case 9:
		edit(h, a, "its mark is taken away, or another", func(a *storagev1.VolumeAttachment) {
			a.Annotations = pick(h, nil, map[string]string{v1alpha1.AnnotationVolumeLock: lockNameOf(2)})
		})
	}
}

func lockNameOf(i int) string { return volumelock.LockFor(&storagev1.VolumeAttachment{}, volumeAt(i)) }

func (h *history) lock() {
	l, ok := anyOf(h, &v1alpha1.VolumeLock{})
	if !ok || h.r.IntN(8) == 0 {
		h.makeLock()
		return
	}
	by := func(how string, change func(s *v1alpha1.VolumeLockStatus)) {
		edit(h, l, "somebody edits "+how, func(l *v1alpha1.VolumeLock) { change(&l.Status) })
	}
	switch h.r.IntN(11) {
	case 0:
		h.say("%s is deleted by hand", l.Name)
		h.api.remove(l)
	case 1, 2:
		by("status.release away", func(s *v1alpha1.VolumeLockStatus) { s.Release = nil })
	case 3:
		by("status.release", func(s *v1alpha1.VolumeLockStatus) {
			s.Release = &v1alpha1.VolumeRelease{Attachment: pick(h, volumelock.Holder(l).UID, "another"), Since: metav1.NewMicroTime(h.clock.Now())}
		})
	case 4:
		by("its message", func(s *v1alpha1.VolumeLockStatus) { s.Message = pick(h, "", "by hand") })
	case 5:
		by("its conditions", func(s *v1alpha1.VolumeLockStatus) {
			s.Conditions = pick(h, nil, []metav1.Condition{{Type: v1alpha1.ConditionConflict, Status: metav1.ConditionTrue}})
		})
	case 6:
		by("which boots to trust", func(s *v1alpha1.VolumeLockStatus) {
			s.UngatedBootID, s.DistrustedBootID = pick(h, "", v1alpha1.BootUnknown, l.Spec.Node.BootID), pick(h, "", l.Spec.Node.BootID)
		})
	case 7:
		by("its holder", func(s *v1alpha1.VolumeLockStatus) {
			s.Attachment = pick(h, nil, &v1alpha1.AttachmentReference{Name: volumelock.Holder(l).Name, UID: "another"}, &v1alpha1.AttachmentReference{Name: "another", UID: "another"})
		})
	case 8:
		by("its driver, and what was seen of its node", func(s *v1alpha1.VolumeLockStatus) {
			s.DriverUID, s.Ready, s.Heard = pick(h, nil, new(types.UID("another"))), nil, nil
		})
	default:
		edit(h, l, "somebody confirms", func(l *v1alpha1.VolumeLock) {
			l.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: volumelock.Confirmation(l)}
		})
	}
}

// makeLock is what who adopts makes, or who thinks that he may.
func (h *history) makeLock() {
	pv, host := volumeAt(h.r.IntN(3)), pick(h, hosts...)
	v, err := volumelock.VolumeOf(pv)
	n := stored(h, &corev1.Node{}, host)
	if err != nil || n == nil || stored(h, &v1alpha1.VolumeLock{}, v.LockName()) != nil {
		return
	}
	h.say("a lock of %s for %s is made", pv.Name, host)
	l := &v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: v.LockName()}, Spec: v1alpha1.VolumeLockSpec{Driver: driver, Volume: v.Key, Identity: v.Identity, PersistentVolume: pv.Name, VolumeHandle: pv.Spec.CSI.VolumeHandle,
		Adopted: h.r.IntN(3) > 0, Node: v1alpha1.BootReference{Name: host, UID: n.UID, BootID: n.Status.NodeInfo.BootID}, Attachment: v1alpha1.AttachmentReference{Name: volumelock.AttachmentName(driver, pv.Spec.CSI.VolumeHandle, host)}}}
	if d := stored(h, &storagev1.CSIDriver{}, driver); d != nil {
		l.Spec.DriverUID = d.UID
	}
	if h.r.IntN(5) == 0 {
		l.Spec.Volume = "another"
	}
	h.api.make(l)
}

func (h *history) receipt() {
	if r, ok := anyOf(h, &v1alpha1.FenceReceipt{}); ok && h.r.IntN(4) == 0 {
		h.say("%s is deleted", r.Name)
		h.api.remove(r)
		return
	}
	n := stored(h, &corev1.Node{}, pick(h, hosts...))
	if n == nil {
		return
	}
	made := &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("receipt-%d", h.api.versions)}, Spec: v1alpha1.FenceReceiptSpec{
		Class: pick(h, v1alpha1.EvidencePoweredOff, v1alpha1.EvidenceInstanceTerminated, v1alpha1.EvidenceStorageRevoked, v1alpha1.EvidenceVoid),
		Node:  &v1alpha1.BootReference{Name: n.Name, UID: n.UID, BootID: n.Status.NodeInfo.BootID}, Volumes: []string{"pv-0", "pv-2"}}}
	if of, ok := anyOf(h, &v1alpha1.FenceReceipt{}); ok && made.Spec.Class == v1alpha1.EvidenceVoid {
		made.Spec.Voids, made.Spec.Node = of.Name, of.Spec.Node
	}
	h.say("%s: %s of %s", made.Name, made.Spec.Class, n.Name)
	h.api.make(made)
}
