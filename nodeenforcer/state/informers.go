package state

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// informers sets up the informers. They send no request before they run.
func (c *Cluster) informers(clients *Clients) error {
	c.nodes = informer(clients.Core, "nodes", fields.OneTermEqualSelector("metadata.name", c.nodeName), &corev1.Node{})
	c.pods = informer(clients.Core, "pods", fields.OneTermEqualSelector("spec.nodeName", c.nodeName), &corev1.Pod{})
	if c.policies == nil {
		c.ofCluster = informer(clients.Policies, "nodepolicies", fields.Everything(), &v1alpha1.NodePolicy{})
	}
	for _, i := range c.watched() {
		if err := i.SetTransform(slim); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) watched() []toolscache.SharedInformer {
	if c.ofCluster == nil {
		return []toolscache.SharedInformer{c.nodes, c.pods}
	}
	return []toolscache.SharedInformer{c.nodes, c.pods, c.ofCluster}
}

func informer(client rest.Interface, resource string, selector fields.Selector, kind runtime.Object) toolscache.SharedInformer {
	request := func(o *metav1.ListOptions, watches bool) *rest.Request {
		o.Watch, o.FieldSelector = watches, selector.String()
		return client.Get().Resource(resource).VersionedParams(o, metav1.ParameterCodec)
	}
	lw := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return request(&o, false).Do(ctx).Get()
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return request(&o, true).Watch(ctx)
		},
	}
	return toolscache.NewSharedInformer(lw, kind, 0)
}

// register has every change notified, and returns the registrations, which know when each kind is synced.
func (c *Cluster) register() (all []toolscache.ResourceEventHandlerRegistration, err error) {
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.notify() }, UpdateFunc: func(_, _ any) { c.notify() }, DeleteFunc: func(any) { c.notify() },
	}
	for _, i := range c.watched() {
		registered, err := i.AddEventHandler(handler)
		if err != nil {
			return nil, fmt.Errorf("watch the API server: %w", err)
		}
		all = append(all, registered)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers = all[:2]
	if c.ofCluster != nil {
		c.ofPolicies = all[2]
	}
	return all, nil
}

// object is the informer's object of that name; it must not be changed.
func object[T any](of toolscache.SharedInformer, name string) (*T, bool) {
	o, exists, err := of.GetStore().GetByKey(name)
	t, ok := o.(*T)
	return t, err == nil && exists && ok
}

// objects are all of the informer's objects, in no order; they must not be changed.
func objects[T any](of toolscache.SharedInformer) (all []*T) {
	for _, o := range of.GetStore().List() {
		if t, ok := o.(*T); ok {
			all = append(all, t)
		}
	}
	return all
}
