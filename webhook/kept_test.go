package webhook_test

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// informed is a reader with the stores of informers, filled as an informer fills them: by the transform of the cache's options.
type informed struct {
	client.Reader // of what no informer trims so far that it is no object of its kind
	stores        map[reflect.Type]toolscache.Indexer
}

func (i informed) Indexer(kind client.Object) toolscache.Indexer {
	if i.stores[reflect.TypeOf(kind)] == nil {
		i.stores[reflect.TypeOf(kind)] = toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	}
	return i.stores[reflect.TypeOf(kind)]
}

func informers(t *testing.T, objects ...client.Object) informed {
	t.Helper()
	i := informed{cluster(namespace("shop")), map[reflect.Type]toolscache.Indexer{}}
	for _, o := range objects {
		transform := func(in any) (any, error) { return in, nil }
		for kind, options := range lookup.CacheOptions().ByObject {
			if reflect.TypeOf(kind) == reflect.TypeOf(o) {
				transform = options.Transform
			}
		}
		stored, err := transform(o.DeepCopyObject())
		if err != nil {
			t.Fatal(err)
		}
		if err := i.Indexer(o).Add(stored); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// What informers keep is enough for each kind of owner and for Services; a ReplicaSet that is to have no pods is read live.
func TestSelectorsOfWhatInformersKeep(t *testing.T) {
	web := map[string]string{"app": "web"}
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	selector := &metav1.LabelSelector{MatchLabels: web}
	for name, tc := range map[string]struct {
		object client.Object
		owner  *metav1.OwnerReference
		live   int64
	}{
		"Service":                {&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: web}}, nil, 0},
		"ReplicaSet":             {&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}}, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet"}, 0},
		"StatefulSet":            {&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector}}, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet"}, 0},
		"ReplicationController":  {&corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: web}}, &metav1.OwnerReference{APIVersion: "v1", Kind: "ReplicationController"}, 0},
		"ReplicaSet of no pods":  {&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Replicas: new(int32(0))}}, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet"}, 1},
		"StatefulSet of no pods": {&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Replicas: new(int32(0))}}, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var reads atomic.Int64
			live := interceptor.NewClient(cluster(tc.object), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				reads.Add(1)
				return c.Get(ctx, key, o, options...)
			}})
			e := newEngine(t, informers(t, tc.object), live, podPolicy("p", spreading(softly)))
			e.Lookup.Reads = lookup.NewReads(live)
			request := review(pods, plainPod)
			if tc.owner != nil {
				request = ownedBy(t, "shop", *tc.owner, "web", "1")
			}
			if got := webhook.Handler(e.MutatePods).Handle(t.Context(), request); len(got.Patches) != 1 || reads.Load() != tc.live {
				t.Errorf("%d live reads, want %d; got %+v", reads.Load(), tc.live, got)
			}
		})
	}
}
