package state

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
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Cluster is the state by watching the API server: this node, its pods and all NodePolicies. Until it has answered, and
// where it is away when we start, the last checkpoint counts.
type Cluster struct {
	nodeName   string
	policies   []*v1alpha1.NodePolicy // from files; nil: from the cluster
	checkpoint string                 // file; empty: none
	kubelet    *Kubelet
	clock      clock.WithTicker
	log        logr.Logger
	nodes      toolscache.SharedInformer
	pods       toolscache.SharedInformer
	ofCluster  toolscache.SharedInformer // NodePolicies; nil: those from files count
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

// NewCluster watches nothing yet.
func NewCluster(config *rest.Config, o ClusterOptions) (*Cluster, error) {
	clients, err := NewClients(config)
	if err != nil {
		return nil, fmt.Errorf("set up the informers: %w", err)
	}
	c := &Cluster{
		nodeName: o.NodeName, policies: o.Policies, checkpoint: o.Checkpoint, kubelet: o.Kubelet, clock: o.Clock, log: o.Log,
		changed: make(chan struct{}, 1), config: o.Config, asked: o.Kubelet == nil,
	}
	if err := c.informers(clients); err != nil {
		return nil, fmt.Errorf("set up the informers: %w", err)
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
		c.log.Error(err, "ignoring checkpoint")
	case saved.Node.Name != c.nodeName:
		c.log.Info("ignoring checkpoint, it is another node's", "file", c.checkpoint, "node", saved.Node.Name)
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
	registered, err := c.register()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, i := range c.watched() {
		group.Go(func() error { i.RunWithContext(ctx); return nil })
	}
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
	if s, ok := c.live(); ok {
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
	node, ok := object[corev1.Node](c.nodes, c.nodeName)
	if !ok {
		return State{}, false // not registered yet, or deleted: its pods are as they were
	}
	s := State{Node: node, Config: c.config, Guessed: c.guessed(), From: "the API server", Live: true, Policy: c.policyFor(node), Pods: objects[corev1.Pod](c.pods)}
	s.PolicyUnknown = !c.policiesKnown() && c.last == nil
	sortPods(s.Pods)
	return s, true
}

func (c *Cluster) policiesKnown() bool {
	return c.policies != nil || c.ofPolicies != nil && c.ofPolicies.HasSynced()
}

// policyFor is the node's policy. Until the cluster's are known the checkpoint's counts.
func (c *Cluster) policyFor(node *corev1.Node) *v1alpha1.NodePolicy {
	policies := c.policies
	if policies == nil {
		if !c.policiesKnown() {
			if c.last != nil {
				return c.last.Policy
			}
			return nil
		}
		policies = objects[v1alpha1.NodePolicy](c.ofCluster)
	}
	chosen, err := PolicyFor(node, policies)
	broken := ""
	if err != nil {
		broken = err.Error()
	}
	if broken != c.broken && err != nil {
		c.log.Error(err, "ignoring NodePolicy with invalid nodeSelector")
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

// kubeletEvery is how often the kubelet is asked for its configuration: it only changes when it restarts. kubeletRetry is how soon
// it is asked again where it did not answer.
const (
	kubeletEvery = time.Minute
	kubeletRetry = 5 * time.Second
)

// askKubelet keeps the kubelet's configuration until the context ends. What it last said holds while it is away.
func (c *Cluster) askKubelet(ctx context.Context) {
	if c.kubelet == nil {
		return
	}
	for failed := false; ; {
		config, err := c.kubelet.Config(ctx)
		if err != nil && ctx.Err() == nil && !failed {
			c.log.Error(err, "failed to read the kubelet's configuration, using the last known one or the defaults")
		}
		failed = err != nil
		c.answered(config)
		pause := kubeletEvery
		if failed {
			pause = kubeletRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-c.clock.After(pause):
		}
	}
}

// answered takes over the kubelet's configuration; nil: it did not answer.
func (c *Cluster) answered(config *kubeletconfigv1beta1.KubeletConfiguration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked && (config == nil || apiequality.Semantic.DeepEqual(config, c.config)) {
		return // no news
	}
	c.asked = true
	if config != nil {
		c.config = config
	}
	c.notify()
}

// guessed says whether the plan is by the kubelet's defaults although it was asked.
func (c *Cluster) guessed() bool { return c.kubelet != nil && c.config == nil }
