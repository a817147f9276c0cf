package lookup

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// indexed is a cache whose one informer holds what the test put there.
type indexed struct {
	cache.Informers
	client.Reader
	informer toolscache.SharedIndexInformer
	err      error
}

func (i indexed) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return i.informer, i.err
}

func service(namespace, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func names(services []*corev1.Service) []string {
	var all []string
	for _, s := range services {
		all = append(all, s.Namespace+"/"+s.Name)
	}
	slices.Sort(all)
	return all
}

// The informer's own objects come back, uncopied, of one namespace or of all; a reader without informers is listed.
func TestStored(t *testing.T) {
	informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &corev1.Service{}, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	a, b, c := service("one", "a"), service("one", "b"), service("two", "c")
	for _, s := range []*corev1.Service{a, b, c} {
		if err := informer.GetIndexer().Add(s); err != nil {
			t.Fatal(err)
		}
	}
	listing := fake.NewClientBuilder().WithObjects(a.DeepCopy(), b.DeepCopy(), c.DeepCopy()).Build()
	for name, reader := range map[string]client.Reader{"informer": indexed{informer: informer}, "list": listing} {
		for namespace, want := range map[string][]string{"one": {"one/a", "one/b"}, "": {"one/a", "one/b", "two/c"}, "three": nil} {
			got, err := stored(t.Context(), reader, &corev1.Service{}, namespace, &corev1.ServiceList{})
			if err != nil || !slices.Equal(names(got), want) {
				t.Errorf("%s, namespace %q: got %v, %v; want %v", name, namespace, names(got), err, want)
			}
			if name == "informer" && namespace == "one" && !slices.Contains(got, a) {
				t.Error("the informer's object was copied")
			}
		}
	}
	if _, err := stored(t.Context(), indexed{err: errors.New("no such kind")}, &corev1.Service{}, "", &corev1.ServiceList{}); err == nil {
		t.Error("an informer that can't start is no empty list")
	}
}
