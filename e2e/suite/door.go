package suite

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/podgrace"
)

// door is how tests reach the webhook other than by the API server's calls.
type door struct {
	http             *http.Client
	reviews, metrics string // URLs, without a path
}

// doorOf is that of a webhook which the tests started.
func doorOf(w *podgrace.Webhook) *door {
	return &door{
		http:    &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}, //nolint:gosec // our own process on loopback
		reviews: w.URL, metrics: w.MetricsURL,
	}
}

// findDoor is that of the only replica in a cluster, through the API server's proxy. With several, what one replica has read
// another need not have, and a test that waited for the one would ask the other.
func findDoor(ctx context.Context, kube client.Client, config *rest.Config) (*door, error) {
	var pods corev1.PodList
	if err := kube.List(ctx, &pods, client.InNamespace("podgrace-system"), client.MatchingLabels{"app.kubernetes.io/name": "podgrace-webhook"}); err != nil {
		return nil, fmt.Errorf("finding the webhook: %w", err)
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("the cluster has %d pods of the webhook, and these tests need just one: kubectl scale deployment -n podgrace-system podgrace-webhook --replicas=1, and wait until the others are gone", len(pods.Items))
	}
	proxied, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("reaching the webhook: %w", err)
	}
	base := config.Host + "/api/v1/namespaces/podgrace-system/pods/"
	name := pods.Items[0].Name
	return &door{http: proxied, reviews: base + "https:" + name + ":9443/proxy", metrics: base + name + ":8080/proxy"}, nil
}

// Metrics returns what the webhook's /metrics says.
func (s *Suite) Metrics(ctx context.Context) (string, error) {
	d := s.reach()
	text, err := d.ask(ctx, http.MethodGet, d.metrics+"/metrics", "", nil)
	return string(text), err
}

// Counted is what the webhook counts of a namespace and of what it missed, for a test that failed: why a pod did not get what its policy gives
// is told to its creator alone, which is a controller.
func (s *Suite) Counted(t testing.TB, namespace string) string {
	t.Helper()
	text, err := s.Metrics(context.WithoutCancel(t.Context()))
	if err != nil {
		return err.Error()
	}
	var counted []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, fmt.Sprintf("namespace=%q", namespace)) || strings.HasPrefix(line, "podgrace_reviews_") || strings.HasPrefix(line, "podgrace_spread_unjudged_total") {
			counted = append(counted, line)
		}
	}
	return strings.Join(counted, "")
}

// Post sends a body to a path of the webhook, as the API server does, and returns the answer's.
func (s *Suite) Post(ctx context.Context, path, contentType string, body []byte) ([]byte, error) {
	d := s.reach()
	return d.ask(ctx, http.MethodPost, d.reviews+path, contentType, body)
}

// reach is the suite's door: that of its webhook, unless the cluster has one.
func (s *Suite) reach() *door {
	if s.door != nil {
		return s.door
	}
	return doorOf(s.Webhook)
}

func (d *door) ask(ctx context.Context, method, url, contentType string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	response, err := d.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}
