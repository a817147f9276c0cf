package lookup_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// What keeps a replica from knowing the cluster counts; that a watch ends does not.
func TestWatchFailures(t *testing.T) {
	registry := prometheus.NewRegistry()
	handle := lookup.NewWatchErrorHandler(registry)
	policies, nodes := cache.NewReflector(nil, &v1alpha1.PodPolicy{}, nil, 0), cache.NewReflector(nil, &corev1.Node{}, nil, 0)
	gone := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonGone}}
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, apierrors.NewResourceExpired("compacted"), gone} {
		handle(t.Context(), policies, err)
	}
	handle(t.Context(), policies, apierrors.NewNotFound(schema.GroupResource{Group: "podgrace.dev", Resource: "podpolicies"}, ""))
	handle(t.Context(), policies, errors.New("connection refused"))
	handle(t.Context(), nodes, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil))
	want := `# HELP podgrace_webhook_watch_failures_total Failed lists and watches of the API server, by the type as the log names it. While they fail this replica decides by stale informers.
# TYPE podgrace_webhook_watch_failures_total counter
podgrace_webhook_watch_failures_total{type="*v1.Node"} 1
podgrace_webhook_watch_failures_total{type="*v1alpha1.PodPolicy"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
