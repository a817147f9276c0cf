package podgrace

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/webhook"
)

// user is the webhook's service account.
const user = "system:serviceaccount:podgrace-system:podgrace-webhook"

// groups are what every service account of podgrace-system is in.
var groups = []string{"system:serviceaccounts", "system:serviceaccounts:podgrace-system"}

// Webhook is a running webhook.
type Webhook struct {
	// URL of the server, without a path.
	URL string
	// HealthURL serves /readyz, MetricsURL serves /metrics.
	HealthURL, MetricsURL string
	// LogPath is the file with what it logs.
	LogPath string
	// PID of the process.
	PID int

	child *cluster.Process
}

// RequestTimeout is what the webhook is configured to take as the longest request. The API server's own is a minute, as everywhere.
const RequestTimeout = 10 * time.Second

// Options of an installation.
type Options struct {
	// Args are more flags for the webhook.
	Args []string
	// Log gets progress lines; nil is silent.
	Log io.Writer
	// Unready does not wait for /readyz, for a webhook that is meant to be broken.
	Unready bool
	// CalledAt is the URL, without a path, that Install's configurations call; empty: that of the webhook which it starts.
	CalledAt string
}

// Build compiles the webhook into a folder and returns the program's path.
func Build(ctx context.Context, dir string) (string, error) { return build(ctx, dir, "webhook") }

// Install applies what deploy has, starts one webhook and returns when the API server has its CA.
func Install(ctx context.Context, c *cluster.Cluster, options Options) (*Webhook, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return nil, err
	}
	if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{Paths: Definitions(root), MaxTime: 2 * time.Minute}); err != nil {
		return nil, fmt.Errorf("install the CustomResourceDefinitions: %w", err)
	}
	kube, err := client.New(c.Config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	for _, file := range []string{"base/namespace.yaml", "webhook/rbac.yaml", "components/selfmanaged/rbac.yaml", "components/selfmanaged/policies.yaml"} {
		if err := apply(ctx, kube, filepath.Join(root, "deploy", file), nil); err != nil {
			return nil, err
		}
	}
	program, err := Build(ctx, filepath.Join(c.Dir, "bin"))
	if err != nil {
		return nil, err
	}
	w, err := Start(ctx, c, program, options)
	if err != nil {
		return nil, err
	}
	if err := apply(ctx, kube, filepath.Join(root, "deploy", "webhook", "configurations.yaml"), localise(cmp.Or(options.CalledAt, w.URL))); err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	for _, file := range []string{"policies.yaml", "fencing.yaml"} {
		if err := apply(ctx, kube, filepath.Join(root, "deploy", "webhook", file), nil); err != nil {
			return nil, errors.Join(err, w.Stop())
		}
	}
	if err := waitCABundle(ctx, kube); err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	return w, nil
}

// Definitions are the folders with the CustomResourceDefinitions of all programs.
func Definitions(root string) []string {
	crds := filepath.Join(root, "deploy", "crds")
	return []string{crds, filepath.Join(crds, "fencer"), filepath.Join(crds, "volumelock")}
}

// Kubeconfig writes a kubeconfig of the webhook's service account, and returns its path.
func Kubeconfig(c *cluster.Cluster) (string, error) {
	return c.KubeconfigFor(user, groups...)
}

// Start starts one webhook process and returns when it is ready.
func Start(ctx context.Context, c *cluster.Cluster, program string, options Options) (*Webhook, error) {
	kubeconfig, err := Kubeconfig(c)
	if err != nil {
		return nil, err
	}
	ports, err := cluster.FreePorts(3)
	if err != nil {
		return nil, err
	}
	w := &Webhook{
		URL:        "https://localhost:" + ports[0],
		HealthURL:  "http://127.0.0.1:" + ports[1],
		MetricsURL: "http://127.0.0.1:" + ports[2],
		LogPath:    filepath.Join(c.Dir, "log", "webhook-"+ports[0]+".log"),
	}
	args := append([]string{
		"--kubeconfig", kubeconfig, "--bind-address", "127.0.0.1", "--dns-names", "localhost",
		"--port", ports[0], "--health-port", ports[1], "--metrics-port", ports[2], "--shutdown-delay", "0s",
		"--api-server-request-timeout", RequestTimeout.String(),
	}, options.Args...)
	if w.child, err = cluster.StartProcess("webhook", w.LogPath, program, args...); err != nil {
		return nil, err
	}
	w.PID = w.child.PID()
	if options.Unready {
		return w, nil
	}
	if err := w.waitReady(ctx); err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	return w, nil
}

// Stop ends the webhook.
func (w *Webhook) Stop() error { return w.child.Stop() }

// Kill ends it by SIGKILL.
func (w *Webhook) Kill() error { return w.child.Kill() }

// Exited returns nil while it runs, and afterwards why it ended.
func (w *Webhook) Exited() error { return w.child.Exited() }

func (w *Webhook) waitReady(ctx context.Context) error {
	return waitReady(ctx, "the webhook", w.child, w.HealthURL)
}

// waitReady returns when /readyz answers, or the process has ended.
func waitReady(ctx context.Context, what string, child *cluster.Process, healthURL string) error {
	var last string
	err := cluster.Until(ctx, what+" to be ready", func(ctx context.Context) (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, healthURL+"/readyz?verbose", nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(req)
		if err != nil {
			last = err.Error()
			return false, nil
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		last = string(body)
		return response.StatusCode == http.StatusOK, nil
	}, child)
	if err != nil {
		return fmt.Errorf("%w; it last said: %s", err, last)
	}
	return nil
}

// localise makes a webhook configuration call a URL instead of a Service.
func localise(url string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { CallAt(o, url, nil) }
}

// CallAt makes a webhook configuration call a server at a URL instead of a Service. What the server is known by is nil where somebody else writes it.
func CallAt(o *unstructured.Unstructured, url string, caBundle []byte) {
	hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	for _, h := range hooks {
		hook := h.(map[string]any)
		path, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "path")
		config := map[string]any{"url": url + path}
		if caBundle != nil {
			config["caBundle"] = base64.StdEncoding.EncodeToString(caBundle)
		}
		hook["clientConfig"] = config
	}
	if hooks != nil {
		o.Object["webhooks"] = hooks
	}
}

// Manifest returns the objects of one of deploy's files, as Install applies them for this webhook.
func Manifest(file string, w *Webhook) ([]*unstructured.Unstructured, error) {
	all, err := Objects(file)
	for _, o := range all {
		localise(w.URL)(o)
	}
	return all, err
}

// Objects returns those of a file.
func Objects(file string) ([]*unstructured.Unstructured, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read a manifest: %w", err)
	}
	defer f.Close()
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		all = append(all, o)
	}
}

// apply creates or updates every object of a file.
func apply(ctx context.Context, kube client.Client, file string, change func(*unstructured.Unstructured)) error {
	all, err := Objects(file)
	if err != nil {
		return err
	}
	for _, o := range all {
		if change != nil {
			change(o)
		}
		if err := ApplyObject(ctx, kube, o); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// ApplyObject creates or updates an object, as kubectl apply --server-side does.
func ApplyObject(ctx context.Context, kube client.Client, o *unstructured.Unstructured) error {
	if err := kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("e2e"), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// waitCABundle returns when the webhook's leader has written its CA into both configurations.
func waitCABundle(ctx context.Context, kube client.Client) error {
	return cluster.Until(ctx, "the leader to write caBundle", func(ctx context.Context) (bool, error) {
		var m admissionregistrationv1.MutatingWebhookConfiguration
		var v admissionregistrationv1.ValidatingWebhookConfiguration
		key := client.ObjectKey{Name: certs.ConfigurationName}
		if err := errors.Join(kube.Get(ctx, key, &m), kube.Get(ctx, key, &v)); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		for _, w := range m.Webhooks {
			if len(w.ClientConfig.CABundle) == 0 {
				return false, nil
			}
		}
		for _, w := range v.Webhooks {
			if len(w.ClientConfig.CABundle) == 0 {
				return false, nil
			}
		}
		return true, nil
	})
}
