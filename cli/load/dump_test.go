package load

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// paged lists pods p0 to p4 in pages of two, as long as it keeps them.
type paged struct {
	client.Reader
	expires bool
	asked   []string
}

func (p *paged) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	p.asked = append(p.asked, fmt.Sprintf("limit %d from %q", o.Limit, o.Continue))
	pods := list.(*corev1.PodList)
	from, until := 0, 5
	if o.Limit > 0 {
		if _, err := fmt.Sscan(o.Continue, &from); o.Continue != "" && err != nil {
			return fmt.Errorf("continue %q: %w", o.Continue, err)
		}
		if p.expires && from == 4 {
			return apierrors.NewResourceExpired("the list is gone")
		}
		if until = min(from+2, 5); until < 5 {
			pods.Continue = fmt.Sprint(until)
		}
	}
	for i := from; i < until; i++ {
		pods.Items = append(pods.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)}})
	}
	return nil
}

func TestListDocuments(t *testing.T) {
	for name, expires := range map[string]bool{"page by page": false, "anew where a page is no longer kept": true} {
		t.Run(name, func(t *testing.T) {
			p := &paged{expires: expires}
			documents, err := listDocuments(t.Context(), p, dumpKind{corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.PodList{}}, "")
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, d := range documents {
				names = append(names, d.Name)
			}
			if want := []string{"p0", "p1", "p2", "p3", "p4"}; !slices.Equal(names, want) {
				t.Errorf("got %q, want %q; asked %q", names, want, p.asked)
			}
			if got := slices.Contains(p.asked, `limit 0 from ""`); got != expires {
				t.Errorf("the whole list was asked for: %t; asked %q", got, p.asked)
			}
		})
	}
}
