package nodeenforcer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// State is what is known of the node at one moment.
type State struct {
	Node   *corev1.Node
	Policy *v1alpha1.NodePolicy // nil: none, so the node is only observed
	// PolicyUnknown: nobody said yet which policies there are; that Policy is nil means nothing.
	PolicyUnknown bool
	Pods          []*corev1.Pod
	// Config is the kubelet's; nil: not known.
	Config *kubeletconfigv1beta1.KubeletConfiguration
	// Guessed: the kubelet was asked for its configuration and never answered.
	Guessed bool
	// From says where it is from, for people.
	From string
	// Live: from the API server, and not from a checkpoint or a file.
	Live bool
}

// Source knows the state of a node.
type Source interface {
	// State is false as long as nothing is known.
	State() (State, bool)
	// Changed has a value after the state changed.
	Changed() <-chan struct{}
	// Start keeps the state until the context ends.
	Start(ctx context.Context) error
}

// Fixed is a state that never changes: from files.
type Fixed State

// State is for Source.
func (f *Fixed) State() (State, bool) { return State(*f), true }

// Changed is for Source.
func (f *Fixed) Changed() <-chan struct{} { return nil }

// Start is for Source.
func (f *Fixed) Start(ctx context.Context) error { <-ctx.Done(); return nil }

// Cluster is the state by watching the API server: this node, its pods and all NodePolicies. Until it has answered, and
// where it is away when we start, the last checkpoint counts.
type Cluster struct {
	nodeName   string
	policies   []*v1alpha1.NodePolicy // from files; nil: from the cluster
	checkpoint string                 // file; empty: none
	kubelet    *Kubelet
	clock      clock.WithTicker
	log        logr.Logger
	informers  cache.Cache
	changed    chan struct{}
	handlers   []toolscache.ResourceEventHandlerRegistration
	ofPolicies toolscache.ResourceEventHandlerRegistration

	// stale: something changed since cached was put together.
	stale atomic.Bool

	mu     sync.Mutex
	config *kubeletconfigv1beta1.KubeletConfiguration
	asked  bool // the kubelet, for its configuration, with or without an answer
	last   *Checkpoint
	cached *State // what the API server said, once it has said all
	broken string // policies, as last told
}

// ClusterOptions are what a Cluster needs.
type ClusterOptions struct {
	NodeName string
	// Policies from files, instead of those of the cluster; nil: the cluster's.
	Policies []*v1alpha1.NodePolicy
	// Checkpoint is the file to start from and to save to; empty: none.
	Checkpoint string
	// Kubelet to ask for its configuration; nil: not asked.
	Kubelet *Kubelet
	// Config of the kubelet, where it is known; nil: as the kubelet says.
	Config *kubeletconfigv1beta1.KubeletConfiguration
	Clock  clock.WithTicker
	Log    logr.Logger
}

// Scheme knows what the enforcer reads.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // a type is registered twice: a mistake in this program
		}
	}
	return scheme
}

// Mapper knows our kinds without asking an API server, which may be away when we start.
func Mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(v1alpha1.GroupVersion.WithKind("NodePolicy"), meta.RESTScopeRoot)
	return m
}

// NewCluster watches nothing yet.
func NewCluster(config *rest.Config, o ClusterOptions) (*Cluster, error) {
	informers, err := cache.New(config, cache.Options{
		Scheme: Scheme(), Mapper: Mapper(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:  {Field: fields.OneTermEqualSelector("spec.nodeName", o.NodeName), Transform: slimPod},
			&corev1.Node{}: {Field: fields.OneTermEqualSelector("metadata.name", o.NodeName)},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the informers: %w", err)
	}
	c := &Cluster{
		nodeName: o.NodeName, policies: o.Policies, checkpoint: o.Checkpoint, kubelet: o.Kubelet, clock: o.Clock, log: o.Log,
		informers: informers, changed: make(chan struct{}, 1), config: o.Config, asked: o.Kubelet == nil,
	}
	if o.Checkpoint != "" {
		c.load()
	}
	return c, nil
}

// load takes over the last checkpoint. That there is none, or none that can be trusted, or another node's (a copied disk), must
// not keep us from starting.
func (c *Cluster) load() {
	saved, err := LoadCheckpoint(c.checkpoint)
	switch {
	case errors.Is(err, ErrNoCheckpoint):
	case err != nil:
		c.log.Error(err, "starting without the checkpoint")
	case saved.Node.Name != c.nodeName:
		c.log.Info("starting without the checkpoint: it is another node's", "file", c.checkpoint, "node", saved.Node.Name)
	default:
		c.last = saved
		if c.config == nil {
			c.config = saved.Config
		}
	}
}

// Changed is for Source.
func (c *Cluster) Changed() <-chan struct{} { return c.changed }

func (c *Cluster) notify() {
	c.stale.Store(true)
	select {
	case c.changed <- struct{}{}:
	default: // there is news already
	}
}

// Start is for Source.
func (c *Cluster) Start(ctx context.Context) error {
	c.notify() // of the checkpoint
	registered, err := c.watch(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := c.informers.Start(ctx); err != nil {
			return fmt.Errorf("watch the API server: %w", err)
		}
		return nil
	})
	group.Go(func() error { c.askKubelet(ctx); return nil })
	for _, r := range registered {
		group.Go(func() error {
			select {
			case <-ctx.Done():
			case <-r.HasSyncedChecker().Done():
				c.notify() // that there is nothing of a kind comes with no event
			}
			return nil
		})
	}
	return group.Wait()
}

func (c *Cluster) watch(ctx context.Context) (all []toolscache.ResourceEventHandlerRegistration, err error) {
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.notify() }, UpdateFunc: func(_, _ any) { c.notify() }, DeleteFunc: func(any) { c.notify() },
	}
	watched := []client.Object{&corev1.Node{}, &corev1.Pod{}}
	if c.policies == nil {
		watched = append(watched, &v1alpha1.NodePolicy{})
	}
	for _, o := range watched {
		informer, err := c.informers.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", o, err)
		}
		registered, err := informer.AddEventHandler(handler)
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", o, err)
		}
		all = append(all, registered)
		c.mu.Lock()
		if _, ofPolicies := o.(*v1alpha1.NodePolicy); ofPolicies {
			c.ofPolicies = registered
		} else {
			c.handlers = append(c.handlers, registered)
		}
		c.mu.Unlock()
	}
	return all, nil
}

// State is for Source.
func (c *Cluster) State() (State, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Under pressure we are asked forty times a second.
	if c.cached != nil && !c.stale.Load() {
		return *c.cached, true
	}
	if !c.asked && c.config == nil {
		return State{}, false // the kubelet is about to say by what configuration it plans
	}
	c.stale.Store(false) // before it is put together: what comes meanwhile is news again
	c.cached = nil
	if s, known := c.live(); known {
		if c.policiesKnown() {
			c.cached = &s
		}
		return s, true
	}
	if c.last == nil {
		return State{}, false
	}
	policy := c.last.Policy
	if c.policies != nil {
		policy, _ = PolicyFor(c.last.Node, c.policies)
	}
	return State{Node: c.last.Node, Policy: policy, Pods: c.last.Pods, Config: c.config, Guessed: c.guessed(), From: "the checkpoint of " + c.last.Saved.UTC().Format(time.RFC3339)}, true
}

// live is what the API server says, once it has said all.
func (c *Cluster) live() (State, bool) {
	if len(c.handlers) < 2 {
		return State{}, false
	}
	for _, h := range c.handlers {
		if !h.HasSynced() {
			return State{}, false
		}
	}
	ctx := context.Background() // what is asked for is in memory
	var node corev1.Node
	if err := c.informers.Get(ctx, client.ObjectKey{Name: c.nodeName}, &node); err != nil {
		return State{}, false // not registered yet, or deleted: its pods are as they were
	}
	var pods corev1.PodList
	if err := c.informers.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return State{}, false
	}
	s := State{Node: &node, Config: c.config, Guessed: c.guessed(), From: "the API server", Live: true, Policy: c.policyFor(ctx, &node)}
	s.PolicyUnknown = !c.policiesKnown() && c.last == nil
	for i := range pods.Items {
		s.Pods = append(s.Pods, &pods.Items[i])
	}
	sortPods(s.Pods)
	return s, true
}

func (c *Cluster) policiesKnown() bool {
	return c.policies != nil || c.ofPolicies != nil && c.ofPolicies.HasSynced()
}

// policyFor is the node's policy. Until the cluster's are known the checkpoint's counts.
func (c *Cluster) policyFor(ctx context.Context, node *corev1.Node) *v1alpha1.NodePolicy {
	policies := c.policies
	if policies == nil {
		if !c.policiesKnown() {
			if c.last != nil {
				return c.last.Policy
			}
			return nil
		}
		var list v1alpha1.NodePolicyList
		if err := c.informers.List(ctx, &list); err != nil {
			return nil
		}
		for i := range list.Items {
			policies = append(policies, &list.Items[i])
		}
	}
	chosen, err := PolicyFor(node, policies)
	broken := ""
	if err != nil {
		broken = err.Error()
	}
	if broken != c.broken && err != nil {
		c.log.Error(err, "a policy selects no node")
	}
	c.broken = broken
	return chosen
}

// Save writes the checkpoint of a live state. It replaces what we would start from without an API server, and what counts where
// the Node object is deleted while we run: that also without a file.
func (c *Cluster) Save(s State) error {
	if !s.Live || s.PolicyUnknown {
		return nil
	}
	saved := &Checkpoint{Saved: c.clock.Now(), Node: s.Node, Policy: s.Policy, Pods: s.Pods, Config: s.Config}
	c.mu.Lock()
	c.last = saved
	c.mu.Unlock()
	if c.checkpoint == "" {
		return nil
	}
	return SaveCheckpoint(c.checkpoint, saved)
}
