package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	"github.com/podgrace/podgrace/policy/enforcement"
)

// Cluster is the state by watches of the API server: this node, its pods and all NodePolicies. Until they are synced, as while the API
// server is unavailable at the start, it is the last checkpoint's.
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

	// stale: something changed since cached was built.
	stale atomic.Bool

	mu     sync.Mutex
	config *kubeletconfigv1beta1.KubeletConfiguration
	asked  bool // the kubelet's configuration was requested, with or without success
	last   *Checkpoint
	cached *State // the API server's, once it is synced
	broken string // invalid policies, as last logged
}

// ClusterOptions are what a Cluster needs.
type ClusterOptions struct {
	NodeName string
	// Policies from files, instead of those of the cluster; nil: the cluster's.
	Policies []*v1alpha1.NodePolicy
	// Checkpoint is the file to start from and to save to; empty: none.
	Checkpoint string
	// Kubelet to read its configuration from; nil: it is not read.
	Kubelet *Kubelet
	// Config of the kubelet, where it is known; nil: as the kubelet says.
	Config *kubeletconfigv1beta1.KubeletConfiguration
	Clock  clock.WithTicker
	Log    logr.Logger
}

// NewCluster watches nothing before Start.
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

// load reads the last checkpoint. A missing or damaged one, or another node's (a copied disk), must not prevent the start.
func (c *Cluster) load() {
	c.removeLeftovers()
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

// saveTime is longer than any save takes. Another enforcer may be saving now: the one that this one replaces.
const saveTime = time.Hour

// removeLeftovers removes the temporary files of saves that were killed (renameio names them so).
func (c *Cluster) removeLeftovers() {
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(c.checkpoint), "."+filepath.Base(c.checkpoint)+"[0-9]*")) // the pattern is valid
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && c.clock.Now().Sub(info.ModTime()) > saveTime {
			if err := os.Remove(file); err != nil {
				c.log.Error(err, "failed to remove what a save of the checkpoint left behind")
			}
		}
	}
}

// Changed is for Source.
func (c *Cluster) Changed() <-chan struct{} { return c.changed }

func (c *Cluster) notify() {
	c.stale.Store(true)
	select {
	case c.changed <- struct{}{}:
	default: // a notification is pending already
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
	// Under pressure this is called forty times a second.
	if c.cached != nil && !c.stale.Load() {
		return *c.cached, true
	}
	if !c.asked && c.config == nil {
		return State{}, false // the kubelet's configuration is about to be read
	}
	c.stale.Store(false) // before it is built: a change meanwhile makes it stale again
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
		policy, _ = enforcement.PolicyFor(c.last.Node, c.policies)
	}
	return State{Node: c.last.Node, Policy: policy, Pods: c.last.Pods, Config: c.config, Guessed: c.guessed(), Old: true, From: "the checkpoint of " + c.last.Saved.UTC().Format(time.RFC3339)}, true
}

// live is the API server's state, once it is synced.
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
		return State{}, false // not registered yet, or deleted: the checkpoint has its pods as they were
	}
	s := State{Node: node, Config: c.config, Guessed: c.guessed(), From: "the API server", Live: true, Policy: c.policyFor(node), Pods: objects[corev1.Pod](c.pods)}
	s.PolicyUnknown = !c.policiesKnown() && c.last == nil
	sortPods(s.Pods)
	return s, true
}

func (c *Cluster) policiesKnown() bool {
	return c.policies != nil || c.ofPolicies != nil && c.ofPolicies.HasSynced()
}

// policyFor is the node's policy. Until the cluster's policies are synced it is the checkpoint's.
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
	chosen, err := enforcement.PolicyFor(node, policies)
	broken := ""
	if err != nil {
		broken = err.Error()
	}
	if broken != c.broken && err != nil {
		c.log.Error(err, "NodePolicies can't be read whole: one whose nodeSelector can't is ignored, of the others the rest holds")
	}
	c.broken = broken
	return chosen
}

// Save writes the checkpoint of a live state. The checkpoint is used at a start without an API server, and, also without a file, if the Node
// object is deleted while the enforcer runs.
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

// kubeletEvery is how often the kubelet's configuration is read: it changes only when the kubelet restarts. kubeletRetry is the wait after a
// failure.
const (
	kubeletEvery = time.Minute
	kubeletRetry = 5 * time.Second
)

// askKubelet keeps the kubelet's configuration in sync until the context ends. The last one stays in use while the kubelet is unavailable.
func (c *Cluster) askKubelet(ctx context.Context) {
	if c.kubelet == nil {
		return
	}
	for failed := false; ; {
		config, err := c.kubelet.Config(ctx)
		if err != nil && ctx.Err() == nil && !failed {
			c.log.Error(err, "failed to read the kubelet's configuration, going by the last known one, and without one writing nothing")
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

// answered stores the kubelet's configuration; nil: it did not answer.
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

// guessed reports whether the kubelet's defaults are assumed because it did not answer.
func (c *Cluster) guessed() bool { return c.kubelet != nil && c.config == nil }
