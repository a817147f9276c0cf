package controller

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/podgrace/podgrace/policy/policytest/draw"
	"github.com/podgrace/podgrace/volumelock/volumelocktest"
)

// interleavings is how many are tried: go test ./volumelock/controller -run TestInterleavings -interleavings=10000.
var interleavings = flag.Int("interleavings", 1000, "random interleavings to try")

// seed of the first one.
var seed = flag.Uint64("seed", 0, "seed of the first interleaving; 0: RAPID_SEED, or a random one")

var errKilled = errors.New("the attacher is killed")

// worldClock is that of the attachers' machines of a world.
type worldClock struct{ *volumelocktest.World }

func (c worldClock) Now() time.Time                  { return c.Clock() }
func (c worldClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// late is an informer that may say what was, of each object by itself.
type late struct {
	*volumelocktest.API
	random *rand.Rand
	kept   map[string]client.Object // nil: there was none
}

// Get reads what is, or what was when it was last read.
func (l *late) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	of := fmt.Sprintf("%T %s", into, key.Name)
	was, known := l.kept[of]
	switch {
	case !known || l.random.IntN(3) > 0:
		err := l.API.Get(ctx, key, into, options...)
		switch {
		case err == nil:
			l.kept[of] = into.DeepCopyObject().(client.Object)
		case apierrors.IsNotFound(err):
			l.kept[of] = nil
		}
		return err
	case was == nil:
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(was.DeepCopyObject()).Elem())
	return nil
}

// TestInterleavings: the real handlers on an API where others do something between any two of their requests, and any request fails, or is carried out and its answer lost, as when the
// handler's process is killed there; and with informers that are late. Other replicas are at work beside it, and the clock of every other history jumps. No two nodes can write to the volume at once.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	first := *seed
	if first == 0 {
		first = draw.Seed()
	}
	ctx := log.IntoContext(context.Background(), logr.Discard())
	var seen volumelocktest.Counts
	requests, killed := 0, 0
	for i := range *interleavings {
		r := rand.New(rand.NewPCG(first+uint64(i), 2))
		w := volumelocktest.New()
		if i%2 > 0 {
			volumelocktest.Jump(first + uint64(i))(w)
		}
		between := func() error {
			requests++
			for range r.IntN(3) / 2 * (1 + r.IntN(3)) {
				w.Happen(r)
			}
			if r.IntN(40) == 0 {
				killed++
				return errKilled
			}
			return nil
		}
		api := &volumelocktest.API{World: w, Before: between, After: between}
		x := &Attacher{Client: api, Live: api, Cache: &late{API: api, random: r, kept: map[string]client.Object{}}, Drivers: []string{volumelocktest.Driver}, Clock: worldClock{w}}
		w.Hand = func(about string) {
			reconcile := x.ReconcileLock
			if about != "" {
				reconcile = x.ReconcileAttachment
			} else if about = w.LockName(); about == "" {
				return
			}
			_, err := reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: about}})
			if err != nil && !errors.Is(err, errKilled) {
				t.Fatalf("-seed=%d: %v", first+uint64(i), err)
			}
		}
		for range 20 + r.IntN(100) {
			w.Happen(r)
			if all := w.Writers(); len(all) > 1 {
				t.Fatalf("-seed=%d: nodes %v have the volume", first+uint64(i), all)
			}
		}
		seen.Add(w.Seen)
	}
	t.Logf("%d interleavings, %d requests, killed %d times: %+v", *interleavings, requests, killed, seen)
	if by := seen.ByName(); *interleavings >= 1000 && (by["mounting"] == 0 || by["a handover"] == 0 || by["attaching"] == 0) {
		t.Errorf("interleavings in which nothing happens: %+v", seen)
	}
}
