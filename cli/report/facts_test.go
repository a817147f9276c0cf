package report

import (
	"testing"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

func TestSubject(t *testing.T) {
	for want, r := range map[string]review.Result{
		"Pod shop/db-0": {Operation: "CREATE"},
		"delete Pod shop/db-0 as alice@example.com":    {Operation: "DELETE", User: "alice@example.com"},
		"update status of Pod shop/db-0":               {Operation: "UPDATE", Subresource: "status"},
		"create eviction of Pod shop/db-0 as \\x1beve": {Operation: "CREATE", Subresource: "eviction", User: "\x1beve"},
	} {
		r.Resource = manifest.Resource{Kind: "Pod", Namespace: "shop", Name: "db-0"}
		if got := subject(&r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
