package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/volumelock/volumelocktest"
)

// objects are found by their type and name, and as the informers find them. None is changed: another takes its place.
type objects map[reflect.Type]map[string]client.Object

func (s objects) put(o client.Object) {
	of := reflect.TypeOf(o)
	if s[of] == nil {
		s[of] = map[string]client.Object{}
	}
	s[of][o.GetName()] = o
}

func (s objects) drop(o client.Object) { delete(s[reflect.TypeOf(o)], o.GetName()) }

// all of a type, by name.
func (s objects) all(of reflect.Type) (all []client.Object) {
	for _, name := range slices.Sorted(maps.Keys(s[of])) {
		all = append(all, s[of][name])
	}
	return all
}

// Get is of client.Reader.
func (s objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o := s[reflect.TypeOf(into)][key.Name]
	if o == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	assign(into, o)
	return nil
}

// List is of client.Reader: all, or those whose field has a value.
func (s objects) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	var with client.ListOptions
	with.ApplyOptions(options)
	of := reflect.PointerTo(reflect.TypeOf(into).Elem().Field(2).Type.Elem()) // Items
	var found []runtime.Object
	for _, o := range s.all(of) {
		if with.FieldSelector == nil || slices.ContainsFunc(indexes, func(i index) bool {
			field := with.FieldSelector.Requirements()[0]
			return reflect.TypeOf(i.of) == of && i.field == field.Field && slices.Contains(i.value(o), field.Value)
		}) {
			found = append(found, o.DeepCopyObject())
		}
	}
	return meta.SetList(into, found)
}

func assign(into, o client.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
}

// change is what an API server tells who watches.
type change struct {
	is   client.Object // as it is, or was when it was deleted
	gone bool
}

// server is an API server: it refuses what is not as it was read, keeps what has finalizers, and tells what has changed.
type server struct {
	client.Client
	objects
	versions int
	now      func() time.Time
	changed  func(change)
	between  func() error   // before and after each request
	did      map[string]int // requests that write, by what they do
	say      func(format string, args ...any)
}

func (s *server) next() string { s.versions++; return strconv.Itoa(s.versions) }

func (s *server) request(do func() error) error {
	if err := s.between(); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return s.between()
}

// write is a request that is counted.
func (s *server) write(what string, o client.Object, do func() error) error {
	return s.request(func() error {
		err := do()
		if err != nil {
			what = string(apierrors.ReasonForError(err))
		}
		s.did[fmt.Sprintf("%s %s", what, reflect.TypeOf(o).Elem().Name())]++
		s.say("%s %s", what, o.GetName())
		return err
	})
}

// store stores an object under its next version, or takes it away if it was deleted and nothing keeps it.
func (s *server) store(o client.Object) {
	o.SetResourceVersion(s.next())
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		s.drop(o)
		s.changed(change{is: o, gone: true})
		return
	}
	s.put(o)
	s.changed(change{is: o})
}

func (s *server) make(o client.Object) {
	o.SetUID(types.UID(fmt.Sprintf("uid-%s-%d", o.GetName(), s.versions)))
	if stamp := o.GetCreationTimestamp(); stamp.IsZero() {
		o.SetCreationTimestamp(metav1.NewTime(s.now()))
	}
	s.store(o)
}

func (s *server) remove(o client.Object) {
	if o.GetDeletionTimestamp() != nil {
		return
	}
	c := o.DeepCopyObject().(client.Object)
	c.SetDeletionTimestamp(new(metav1.NewTime(s.now())))
	s.store(c)
}

// stored is an object as it is, if it is as somebody has read it who wants to change it.
func (s *server) stored(o client.Object, uid *types.UID, version *string) (client.Object, error) {
	is := s.objects[reflect.TypeOf(o)][o.GetName()]
	switch {
	case is == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, o.GetName())
	case uid != nil && *uid != is.GetUID() || version != nil && *version != is.GetResourceVersion():
		return nil, apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("it was changed"))
	}
	return is.DeepCopyObject().(client.Object), nil
}

func (s *server) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return s.request(func() error { return s.objects.Get(ctx, key, into, options...) })
}

func (s *server) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	return s.request(func() error { return s.objects.List(ctx, into, options...) })
}

func (s *server) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	return s.write("make", o, func() error {
		if s.objects[reflect.TypeOf(o)][o.GetName()] != nil {
			return apierrors.NewAlreadyExists(schema.GroupResource{}, o.GetName())
		}
		c := o.DeepCopyObject().(client.Object)
		s.make(c)
		assign(o, c)
		return nil
	})
}

func (s *server) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	return s.write("delete", o, func() error {
		var with client.DeleteOptions
		with.ApplyOptions(options)
		is, err := s.stored(o, with.Preconditions.UID, with.Preconditions.ResourceVersion)
		if err == nil {
			s.remove(is)
		}
		return err
	})
}

func (s *server) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return s.patch("patch", o, patch, func(is, patched client.Object) {
		patched.(*storagev1.VolumeAttachment).Status = is.(*storagev1.VolumeAttachment).Status
	})
}

// patch stores an object as a patch has it, but for what keep keeps of it.
func (s *server) patch(what string, o client.Object, patch client.Patch, keep func(is, patched client.Object)) error {
	return s.write(what, o, func() error {
		is, err := s.stored(o, nil, nil)
		if err != nil {
			return err
		}
		patched, err := volumelocktest.Merge(is, reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object), o, patch)
		if err != nil {
			return err
		}
		keep(is, patched)
		s.store(patched)
		assign(o, patched)
		return nil
	})
}

func (s *server) Status() client.SubResourceWriter { return statusWriter{server: s} }

type statusWriter struct {
	client.SubResourceWriter
	*server
}

func (w statusWriter) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errors.New("nobody creates a status")
}

func (w statusWriter) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errors.New("nobody applies a status")
}

func (w statusWriter) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return w.write("update the status of", o, func() error {
		is, err := w.stored(o, new(o.GetUID()), new(o.GetResourceVersion()))
		if err != nil {
			return err
		}
		is.(*v1alpha1.VolumeLock).Status = o.DeepCopyObject().(*v1alpha1.VolumeLock).Status
		w.store(is)
		assign(o, is)
		return nil
	})
}

func (w statusWriter) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return w.patch("patch the status of", o, patch, func(is, patched client.Object) {
		patched.SetFinalizers(is.GetFinalizers())
		patched.SetAnnotations(is.GetAnnotations())
	})
}

// queue is a controller's: a request is in it once, and not decided about twice at once. One that comes earlier than it was to come by itself takes the place of that, as in controller-runtime's.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	ready   []reconcile.Request
	later   map[reconcile.Request]time.Time
	running map[reconcile.Request]bool
}

// Add is of workqueue.TypedInterface.
func (q *queue) Add(r reconcile.Request) {
	delete(q.later, r)
	if !slices.Contains(q.ready, r) {
		q.ready = append(q.ready, r)
	}
}

func (q *queue) addAt(r reconcile.Request, at time.Time) {
	if is, known := q.later[r]; !slices.Contains(q.ready, r) && (!known || at.Before(is)) {
		q.later[r] = at
	}
}

// take takes one of those that are ready.
func (q *queue) take(r *rand.Rand) (reconcile.Request, bool) {
	var free []int
	for i := range q.ready {
		if !q.running[q.ready[i]] {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return reconcile.Request{}, false
	}
	i := free[r.IntN(len(free))]
	taken := q.ready[i]
	q.ready = slices.Delete(q.ready, i, i+1)
	return taken, true
}

// listener is one handler of what an informer hears of, as late as it may be.
type listener struct {
	of      reflect.Type
	queue   *queue
	heeds   predicate.Predicate
	handler handler.EventHandler
	notices []any
}

// hear has the handler hear of what is next.
func (l *listener) hear(ctx context.Context) {
	notice := l.notices[0]
	l.notices = l.notices[1:]
	switch e := notice.(type) {
	case event.CreateEvent:
		if l.heeds.Create(e) {
			l.handler.Create(ctx, e, l.queue)
		}
	case event.UpdateEvent:
		if l.heeds.Update(e) {
			l.handler.Update(ctx, e, l.queue)
		}
	case event.DeleteEvent:
		if l.heeds.Delete(e) {
			l.handler.Delete(ctx, e, l.queue)
		}
	}
}

// informed is what the informers of a replica have: of each type of objects as it was at some time.
type informed struct {
	objects
	t         *testing.T
	ahead     map[reflect.Type][]change // that it has not heard of
	listeners []*listener
}

// notify tells all who listen.
func (i *informed) notify(of reflect.Type, notice any) {
	for _, l := range i.listeners {
		if l.of == of {
			l.notices = append(l.notices, notice)
		}
	}
}

// hear has it hear of one change of a type.
func (i *informed) hear(of reflect.Type) {
	c := i.ahead[of][0]
	i.ahead[of] = i.ahead[of][1:]
	i.heard(of, c)
}

func (i *informed) heard(of reflect.Type, c change) {
	was, is := i.objects[of][c.is.GetName()], kept(i.t, c.is.DeepCopyObject()).(client.Object)
	switch {
	case c.gone && was == nil:
	case c.gone:
		i.drop(is)
		i.notify(of, event.DeleteEvent{Object: is})
	case was == nil:
		i.put(is)
		i.notify(of, event.CreateEvent{Object: is})
	default:
		i.put(is)
		i.notify(of, event.UpdateEvent{ObjectOld: was, ObjectNew: is})
	}
}

// relist has it read all of a type again, as when its watch has ended: of what was between it hears nothing, and of what is gone only as it was.
func (i *informed) relist(of reflect.Type, from objects) {
	i.ahead[of] = nil
	for _, was := range i.all(of) {
		if from[of][was.GetName()] == nil {
			i.drop(was)
			i.notify(of, event.DeleteEvent{Object: was, DeleteStateUnknown: true})
		}
	}
	for _, is := range from.all(of) {
		if was := i.objects[of][is.GetName()]; was == nil || was.GetResourceVersion() != is.GetResourceVersion() {
			i.heard(of, change{is: is})
		}
	}
}

// types that anybody hears of, in one order.
func (i *informed) types() (all []reflect.Type) {
	for of := range i.ahead {
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b reflect.Type) int { return cmp.Compare(a.String(), b.String()) })
	return all
}
