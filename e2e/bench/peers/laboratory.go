package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/webhook"
)

// side is one way to have the policy in force.
type side struct {
	name string
	// how says in few words in which form it has the policy, version which one it is.
	how, version string
	// namespace is its own.
	namespace string
	// pids of its processes besides the API server: most have one, those in it none.
	pids []int
	// pod that is created there, and what comes back has the policy's fields, but for the side that has none.
	pod     []byte
	without bool
	// hooks are what the API server calls for a pod that is created there, with what it asked.
	hooks []*hook
}

// laboratory is an API server with all sides.
type laboratory struct {
	*cluster.Cluster
	kube     client.Client
	clients  kubernetes.Interface
	sides    []*side
	progress io.Writer
	stops    []func() error
}

func newLaboratory(ctx context.Context, c *cluster.Cluster, progress io.Writer) (*laboratory, error) {
	l := &laboratory{Cluster: c, progress: progress}
	config := rest.CopyConfig(c.Config)
	config.QPS = -1 // no limit
	var err, err2 error
	l.kube, err = client.New(config, client.Options{Scheme: webhook.NewScheme()})
	l.clients, err2 = kubernetes.NewForConfig(config)
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("make clients: %w", err)
	}
	for i, zone := range []string{"zone-a", "zone-b", "zone-c"} {
		name := fmt.Sprintf("node-%d", i+1)
		if err := c.AddNode(ctx, name, map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelHostname: name}); err != nil {
			return nil, err
		}
	}
	return l, l.apply(ctx, "common.yaml")
}

// stop ends the sides' processes.
func (l *laboratory) stop() error {
	var errs []error
	for _, stop := range l.stops {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// serverVersion is the API server's.
func (l *laboratory) serverVersion() (string, error) {
	v, err := l.clients.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask for the API server's version: %w", err)
	}
	return v.GitVersion, nil
}

// apply applies a file of testdata.
func (l *laboratory) apply(ctx context.Context, file string) error {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	_, _, err = l.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(root, "e2e/bench/peers/testdata", file))
	return err
}

// retried is apply for what the API server refuses until somebody has answered it.
func (l *laboratory) retried(ctx context.Context, file string) error {
	var last error
	err := cluster.Until(ctx, file+" to be taken", func(ctx context.Context) (bool, error) {
		last = l.apply(ctx, file)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w; it last said: %w", err, last)
	}
	return nil
}

// add makes the namespace of a side, with the ReplicaSet whose pods are created there. Nobody runs its controller.
func (l *laboratory) add(ctx context.Context, s *side) error {
	s.namespace = namespaceOf(s.name)
	replicas := int32(2) // of one that is scaled to 0 Podgrace keeps no selector, and reads it for each pod
	labels := map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "57f6dc8459"}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-57f6dc8459", Namespace: s.namespace, Labels: labels}}
	set.Spec.Replicas = &replicas
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "localhost/app:1"}}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, set} {
		if err := l.kube.Create(ctx, o); err != nil {
			return fmt.Errorf("make what pods of side %q refer to: %w", s.name, err)
		}
	}
	var err error
	if s.pod, err = newPod(set); err != nil {
		return err
	}
	l.sides = append(l.sides, s)
	fmt.Fprintf(l.progress, "%s: there\n", s.name)
	return nil
}

// prefix of the sides' namespaces.
const prefix = "peers-"

func namespaceOf(name string) string { return prefix + name }

// others are the namespaces of all sides but one.
func others(but string) []string {
	var all []string
	for _, name := range []string{nothing, inProcess, bare, podgraceMutating, podgrace, kyvernoSide, gatekeeperSide} {
		if name != but {
			all = append(all, namespaceOf(name))
		}
	}
	return all
}

// ready returns when each side's pod comes back as it should and all of them alike, and what the API server asks of each is recorded.
func (l *laboratory) ready(ctx context.Context) error {
	for _, s := range l.sides {
		begin := time.Now()
		var last error
		err := cluster.Until(ctx, s.name+" to have its policy in force", func(ctx context.Context) (bool, error) {
			last = l.tryOnce(ctx, s)
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("%w; it last said: %w", err, last)
		}
		fmt.Fprintf(l.progress, "%s: its policy is in force (%s)\n", s.name, time.Since(begin).Round(time.Second))
	}
	if err := l.findHooks(ctx); err != nil {
		return err
	}
	if err := l.record(ctx); err != nil {
		return err
	}
	return l.same(ctx)
}

// tryOnce creates a pod, and has one refused that the policy forbids.
func (l *laboratory) tryOnce(ctx context.Context, s *side) error {
	if err := l.create(ctx, s); err != nil {
		return err
	}
	if s.without || s.name == podgraceMutating || s.name == bare { // neither says no
		return nil
	}
	return l.refused(ctx, s)
}
