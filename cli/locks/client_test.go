package locks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// decoding is a reader that decodes into what it is given, as JSON is: objects that a list has already are written over, and what they point to.
type decoding struct {
	client.Reader

	page func(token string) *v1alpha1.VolumeLockList
}

func (d decoding) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	text, err := json.Marshal(d.page((&client.ListOptions{}).ApplyOptions(options).Continue))
	if err != nil {
		return err
	}
	into.SetContinue("")
	return json.Unmarshal(text, into)
}

// TestPages: custom resources come as JSON. What was read of one page stays as it was read, whether or not the reader clears what it decodes into, as that of controller-runtime does.
func TestPages(t *testing.T) {
	t.Parallel()
	first, second := v1alpha1.VolumeLockList{ListMeta: metav1.ListMeta{Continue: "more"}}, v1alpha1.VolumeLockList{}
	for i := range aPage + 1 {
		name := fmt.Sprintf("volume-%d", i)
		l := v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"of": name}}, Status: v1alpha1.VolumeLockStatus{Release: &v1alpha1.VolumeRelease{Attachment: types.UID(name)}}}
		if i < aPage {
			first.Items = append(first.Items, l)
		} else {
			second.Items = append(second.Items, l)
		}
	}
	page := func(token string) *v1alpha1.VolumeLockList {
		if token == "" {
			return &first
		}
		return &second
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(page(r.URL.Query().Get("continue"))); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion})
	mapper.Add(v1alpha1.GroupVersion.WithKind("VolumeLock"), meta.RESTScopeRoot)
	remote, err := client.New(&rest.Config{Host: server.URL}, client.Options{Scheme: NewScheme(), Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	for name, kube := range map[string]client.Reader{"controller-runtime's": remote, "one that clears nothing": decoding{page: page}} {
		locks, err := all(t.Context(), kube, &v1alpha1.VolumeLockList{}, func(l *v1alpha1.VolumeLockList) []v1alpha1.VolumeLock { return l.Items })
		if err != nil || len(locks) != aPage+1 {
			t.Fatalf("%s: %d locks, %v", name, len(locks), err)
		}
		for _, l := range locks {
			if l.Annotations["of"] != l.Name || l.Status.Release.Attachment != types.UID(l.Name) {
				t.Errorf("%s: %s has what is of %s and of %s", name, l.Name, l.Annotations["of"], l.Status.Release.Attachment)
			}
		}
	}
}
