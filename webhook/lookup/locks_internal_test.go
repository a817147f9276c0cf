package lookup

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// Of a pod's volumes those are told of that its own node holds, by what the informer stores of their locks.
func TestHeldBy(t *testing.T) {
	t.Parallel()
	l := &Locks{toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, locksByVolume), func() bool { return true }, nil}
	for volume, node := range map[string]string{"b": "n1", "a": "n1", "c": "n2", "d": "n1"} {
		lock := &v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: "volume-" + volume}, Spec: v1alpha1.VolumeLockSpec{PersistentVolume: volume, VolumeHandle: "long", Node: v1alpha1.BootReference{Name: node}}}
		if err := l.indexer.Add(trimmedLock(lock)); err != nil {
			t.Fatal(err)
		}
	}
	claims := policy.Claims{"1": {Volume: "a"}, "2": {Volume: "b"}, "3": {Volume: "c"}, "4": {}, "5": {Volume: "free"}, "6": {Volume: "d", Recreated: true}}
	if held := l.HeldBy("n1", claims); !slices.Equal(held, []string{"a", "b"}) {
		t.Errorf("it holds %q", held)
	}
	l.synced = func() bool { return false }
	if held := l.HeldBy("n1", claims); held != nil {
		t.Errorf("before it has synced: %q", held)
	}
	if held := (*Locks)(nil).HeldBy("n1", claims); held != nil {
		t.Errorf("where the kind is not installed: %q", held)
	}
}

// A cluster without the volume lock has no CustomResourceDefinition of VolumeLocks: the webhook starts, and knows of no lock.
func TestFollowLocksWithoutTheKind(t *testing.T) {
	t.Parallel()
	none := meta.NewDefaultRESTMapper(nil)
	none.Add(v1alpha1.GroupVersion.WithKind("PodPolicy"), meta.RESTScopeRoot)
	types := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	locks, err := FollowLocks(t.Context(), &rest.Config{Host: "https://127.0.0.1:1"}, cache.Options{HTTPClient: http.DefaultClient, Scheme: types, Mapper: none})
	if err != nil || locks != nil {
		t.Fatalf("got %v, %v", locks, err)
	}
	if held := locks.HeldBy("n1", policy.Claims{"1": {Volume: "a"}}); held != nil {
		t.Errorf("it holds %q", held)
	}
}

// TestReadyWithoutLocks: a replica whose role lacks VolumeLocks gets ready. They are asked for all the while.
func TestReadyWithoutLocks(t *testing.T) {
	t.Parallel()
	refused := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch query := r.URL.Query(); {
		case strings.HasSuffix(r.URL.Path, "/volumelocks"):
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
			select {
			case refused <- struct{}{}:
			default:
			}
		case query.Get("sendInitialEvents") != "": // a list is asked for then
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case query.Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprint(w, `{"metadata":{"resourceVersion":"1"},"items":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	known := scheme.Scheme
	if err := v1alpha1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range slices.AppendSeq([]client.Object{&v1alpha1.VolumeLock{}}, maps.Keys(CacheOptions().ByObject)) {
		gvk, err := apiutil.GVKForObject(kind, known)
		if err != nil {
			t.Fatal(err)
		}
		mapper.Add(gvk, meta.RESTScopeRoot)
	}
	mgr, err := ctrl.NewManager(&rest.Config{Host: server.URL}, ctrl.Options{Scheme: known, Cache: CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }})
	if err != nil {
		t.Fatal(err)
	}
	locks, err := FollowLocks(t.Context(), mgr.GetConfig(), cache.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: known, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	ready := &Readiness{Cache: mgr.GetCache(), Followed: func() bool { return true }}
	for _, runs := range []interface{ Start(context.Context) error }{locks, ready} {
		if err := mgr.Add(runs); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case <-refused:
	case <-ctx.Done():
		t.Fatal("nobody asks for VolumeLocks")
	}
	if err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) { return ready.Ready(), nil }); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	if locks.synced() {
		t.Error("VolumeLocks were read")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
