package state

import (
	"context"
	"encoding/json"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// Clients are REST clients of the API groups that the enforcer uses. client-go's clientset and controller-runtime's client are not
// used here: with either all groups of Kubernetes are in the program and registered at its start, and that stays in the memory of
// every node.
type Clients struct {
	// Core takes and gives Pods, Nodes and policy/v1 Evictions, Events events.k8s.io/v1, Leases coordination.k8s.io/v1, Policies NodePolicies.
	Core, Events, Leases, Policies *rest.RESTClient
}

// NewClients asks for nothing yet.
func NewClients(config *rest.Config) (*Clients, error) {
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	codecs := serializer.NewCodecFactory(Scheme())
	var c Clients
	for _, of := range []struct {
		client **rest.RESTClient
		path   string
		group  schema.GroupVersion
		coding string // ours has no protobuf
	}{
		{&c.Core, "/api", corev1.SchemeGroupVersion, runtime.ContentTypeProtobuf},
		{&c.Events, "/apis", eventsv1.SchemeGroupVersion, runtime.ContentTypeProtobuf},
		{&c.Leases, "/apis", coordinationv1.SchemeGroupVersion, runtime.ContentTypeProtobuf},
		{&c.Policies, "/apis", v1alpha1.GroupVersion, runtime.ContentTypeJSON},
	} {
		one := rest.CopyConfig(config)
		one.APIPath, one.GroupVersion, one.NegotiatedSerializer = of.path, &of.group, codecs.WithoutConversion()
		if one.ContentType == "" {
			one.ContentType, one.AcceptContentTypes = of.coding, of.coding+","+runtime.ContentTypeJSON
		}
		if *of.client, err = rest.RESTClientForConfigAndClient(one, shared); err != nil {
			return nil, fmt.Errorf("make a client of %s: %w", of.group, err)
		}
	}
	return &c, nil
}

// Get is for Nodes.
func (c *Clients) Get(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	return node, c.Core.Get().Resource("nodes").Name(name).Do(ctx).Into(node)
}

// Patch is for Nodes.
func (c *Clients) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, subresources ...string) error {
	return c.Core.Patch(kind).Resource("nodes").Name(name).SubResource(subresources...).
		VersionedParams(&metav1.PatchOptions{FieldManager: enforcement.NodeEnforcer}, metav1.ParameterCodec).Body(patch).Do(ctx).Error()
}

// Renewal is the renewTime of a node's Lease as it is now: without a resourceVersion no cache answers that lags behind. A Lease without one is of nobody.
func (c *Clients) Renewal(ctx context.Context, node string) (string, error) {
	lease := &coordinationv1.Lease{}
	if err := c.Leases.Get().Namespace(corev1.NamespaceNodeLease).Resource("leases").Name(node).Do(ctx).Into(lease); err != nil {
		return "", fmt.Errorf("read the Lease of node %s: %w", node, err)
	}
	if lease.Spec.RenewTime == nil {
		return "", fmt.Errorf("the Lease of node %s has no renewTime", node)
	}
	return lease.Spec.RenewTime.UTC().Format(metav1.RFC3339Micro), nil
}

// DaemonSet is what the enforcer reads of the DaemonSet that it belongs to. The group apps is not in the scheme, for the memory that it would take.
type DaemonSet struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// DaemonSet reads one.
func (c *Clients) DaemonSet(ctx context.Context, key types.NamespacedName) (*DaemonSet, error) {
	text, err := c.Policies.Get().AbsPath("/apis/apps/v1/namespaces", key.Namespace, "daemonsets", key.Name).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	set := &DaemonSet{}
	if err := json.Unmarshal(text, set); err != nil {
		return nil, fmt.Errorf("read DaemonSet %s: %w", key, err)
	}
	return set, nil
}

// DeleteDaemonSet deletes one in the foreground: it exists until its pods have ended.
func (c *Clients) DeleteDaemonSet(ctx context.Context, key types.NamespacedName) error {
	return c.Policies.Delete().AbsPath("/apis/apps/v1/namespaces", key.Namespace, "daemonsets", key.Name).SetHeader("Content-Type", runtime.ContentTypeJSON).
		Body([]byte(`{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Foreground"}`)).Do(ctx).Error()
}

// PodsIn lists the pods of a namespace with a label.
func (c *Clients) PodsIn(ctx context.Context, namespace, selector string) (*corev1.PodList, error) {
	pods := &corev1.PodList{}
	return pods, c.Core.Get().Namespace(namespace).Resource("pods").VersionedParams(&metav1.ListOptions{LabelSelector: selector}, metav1.ParameterCodec).Do(ctx).Into(pods)
}

// EachNode calls a function for each Node of the cluster, which are read in pages.
func (c *Clients) EachNode(ctx context.Context, do func(*corev1.Node)) error {
	for options := (metav1.ListOptions{Limit: 500}); ; {
		page := &corev1.NodeList{}
		if err := c.Core.Get().Resource("nodes").VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(page); err != nil {
			return err
		}
		for i := range page.Items {
			do(&page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// PodsOf lists the pods of a node.
func (c *Clients) PodsOf(ctx context.Context, node string) (*corev1.PodList, error) {
	pods := &corev1.PodList{}
	of := fields.OneTermEqualSelector("spec.nodeName", node).String()
	return pods, c.Core.Get().Resource("pods").VersionedParams(&metav1.ListOptions{FieldSelector: of}, metav1.ParameterCodec).Do(ctx).Into(pods)
}

// NodePolicies lists those of the cluster.
func (c *Clients) NodePolicies(ctx context.Context) (*v1alpha1.NodePolicyList, error) {
	policies := &v1alpha1.NodePolicyList{}
	return policies, c.Policies.Get().Resource("nodepolicies").Do(ctx).Into(policies)
}

// Scheme knows what the enforcer reads and writes.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyv1.AddToScheme, eventsv1.AddToScheme, coordinationv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // a type is registered twice: a mistake in this program
		}
	}
	return scheme
}
