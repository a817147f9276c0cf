package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/cluster"
	podgraceinstall "github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/reviews"
	"github.com/podgrace/podgrace/webhook"
)

// side is one of the two webhooks: a process that serves.
type side struct {
	name string
	// url of the server, metricsURL of the Go runtime's counters.
	url, metricsURL string
	// patched says that every recorded review gets a patch; else none does.
	patched bool
	client  *http.Client
	pid     int
	stop    func() error
}

// startPodgrace installs the real webhook and what the recorded pods refer to.
func startPodgrace(ctx context.Context, c *cluster.Cluster) (*side, error) {
	w, err := podgraceinstall.Install(ctx, c, podgraceinstall.Options{})
	if err != nil {
		return nil, err
	}
	if err := furnish(ctx, c); err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	ca, err := caBundle(ctx, c)
	if err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	return &side{
		name: "podgrace", url: w.URL, metricsURL: w.MetricsURL + "/metrics",
		patched: true, client: reviews.NewClient(ca), pid: w.PID, stop: w.Stop,
	}, nil
}

// furnish applies the examples' policies and the classes that they name, three nodes in three zones, and the owners and
// Services of the recorded pods.
func furnish(ctx context.Context, c *cluster.Cluster) error {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	for i, zone := range []string{"zone-a", "zone-b", "zone-c"} {
		name := fmt.Sprintf("node-%d", i+1)
		if err := c.AddNode(ctx, name, map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelHostname: name}); err != nil {
			return err
		}
	}
	policies, err := filepath.Glob(filepath.Join(root, "examples/*/policy.yaml"))
	if err != nil {
		return fmt.Errorf("find the examples' policies: %w", err)
	}
	var files []string
	for _, policy := range policies { // an example without one shows something else, by objects that no API server would store so
		files = append(files, filepath.Join(filepath.Dir(policy), "cluster.yaml"))
	}
	files = append(append(files, policies...), filepath.Join(root, "e2e/bench/webhook/testdata/cluster.yaml"))
	for _, file := range files {
		if _, _, err := c.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", file); err != nil {
			return err
		}
	}
	return nil
}

// caBundle returns what the webhook's leader has the API server trust.
func caBundle(ctx context.Context, c *cluster.Cluster) ([]byte, error) {
	kube, err := client.New(c.Config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	var configuration admissionregistrationv1.MutatingWebhookConfiguration
	if err := kube.Get(ctx, client.ObjectKey{Name: certs.ConfigurationName}, &configuration); err != nil {
		return nil, fmt.Errorf("read the webhook configuration: %w", err)
	}
	return configuration.Webhooks[0].ClientConfig.CABundle, nil
}

// startBare starts the webhook to compare with.
func startBare(ctx context.Context, c *cluster.Cluster) (*side, error) {
	bare, err := reviews.StartBare(ctx, c)
	if err != nil {
		return nil, err
	}
	return &side{name: "bare", url: bare.URL, metricsURL: bare.MetricsURL, client: reviews.NewClient(bare.Trusted), pid: bare.PID(), stop: bare.Stop}, nil
}

// waitAnswers returns when every recorded review gets the answer that it should: certificate served, informers synced,
// policies in force.
func (s *side) waitAnswers(ctx context.Context, reviews []review) error {
	var last error
	err := cluster.Until(ctx, s.name+" to answer the recorded reviews", func(ctx context.Context) (bool, error) {
		last = s.judgeAll(ctx, reviews)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w; it last said: %w", err, last)
	}
	return nil
}

func (s *side) judgeAll(ctx context.Context, reviews []review) error {
	var answer bytes.Buffer
	for _, r := range reviews {
		if err := s.send(ctx, r, &answer); err != nil {
			return err
		}
		if err := r.judge(answer.Bytes(), s.patched); err != nil {
			return err
		}
	}
	return nil
}
