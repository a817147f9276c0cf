package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/agents"
	"github.com/podgrace/podgrace/fencing/storage"
)

// lookEvery is how often a replica looks which addresses nodes have: as often as they renew their Leases, and oftener than Silence.Tick wants it.
const lookEvery = 10 * time.Second

// volumesANode is how many PersistentVolumes of one node are read for a decision: twice what a receipt has room for.
const volumesANode = 512

// AddressBook is each replica's own record of the addresses that nodes have while they are healthy, whether or not it leads: the node that falls silent may be that of the leader. It looks only
// while there is a FenceAgent that goes by addresses.
type AddressBook struct {
	Cache client.Reader
	Live  client.Reader
	Clock clock.WithTicker

	mu        sync.Mutex
	addresses storage.Addresses
	silence   fencing.Silence
}

// NeedLeaderElection is false: a replica that begins to lead knows them already.
func (b *AddressBook) NeedLeaderElection() bool { return false }

// Start looks until the context ends.
func (b *AddressBook) Start(ctx context.Context) error {
	log := log.FromContext(ctx).WithName("addresses")
	began := b.Clock.Now()
	for {
		if err := b.look(ctx, b.Clock.Now().Sub(began)); err != nil && ctx.Err() == nil {
			log.Error(err, "look which addresses nodes have")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-b.Clock.After(lookEvery):
		}
	}
}

// look notes the addresses of the nodes that were heard of since the last time.
func (b *AddressBook) look(ctx context.Context, now time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var all v1alpha1.FenceAgentList
	if err := b.Live.List(ctx, &all); err != nil {
		return fmt.Errorf("list FenceAgents: %w", err)
	}
	if !byAddress(all.Items) {
		return nil
	}
	nodes, err := listNodes(ctx, b.Cache)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silence.Tick(now)
	there := make(map[types.UID]bool, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		there[n.UID] = true
		b.silence.Hear(n.UID, n.Sign, now)
		n.Silent, n.Heard = b.silence.Of(n.UID, now)
		if s, healthy := n.Sighting(); healthy {
			b.addresses.Note(s)
		}
	}
	b.silence.Keep(nodes)
	b.addresses.Keep(there)
	return nil
}

// fill fills in which InternalIPs a node had while it was healthy, as far as that is known.
func (b *AddressBook) fill(n *fencing.Node) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n.Recorded, n.Told = b.addresses.Of(n.UID, n.BootID)
}

func byAddress(all []v1alpha1.FenceAgent) bool {
	return slices.ContainsFunc(all, func(a v1alpha1.FenceAgent) bool { return a.Spec.Type == v1alpha1.AgentNetworkFence })
}

// listNodes are all nodes as the informers have them.
func listNodes(ctx context.Context, cache client.Reader) ([]fencing.Node, error) {
	var nodes corev1.NodeList
	var leases coordinationv1.LeaseList
	if err := errors.Join(cache.List(ctx, &nodes), cache.List(ctx, &leases, client.InNamespace(corev1.NamespaceNodeLease))); err != nil {
		return nil, fmt.Errorf("list nodes and their Leases: %w", err)
	}
	byName := make(map[string]*coordinationv1.Lease, len(leases.Items))
	for i := range leases.Items {
		byName[leases.Items[i].Name] = &leases.Items[i]
	}
	all := make([]fencing.Node, len(nodes.Items))
	for i := range nodes.Items {
		all[i] = fencing.NodeOf(&nodes.Items[i], byName[nodes.Items[i].Name])
	}
	return all, nil
}

// taken reports whether storage was taken away, or may have been: also by an agent that is there no more, whose NetworkFences are.
func taken(facts *fencing.Facts) bool {
	return slices.ContainsFunc(facts.Receipts, func(r v1alpha1.FenceReceipt) bool { return r.Spec.Class == v1alpha1.EvidenceStorageRevoked }) ||
		slices.ContainsFunc(facts.Fences, func(x v1alpha1.Fence) bool { return fencing.TakesStorage(x.Status.Target) })
}

// storage reads the NetworkFences and their classes, where an agent is of that type, or was when storage was taken away. What can't be read is unknown.
func (f *Fencer) storage(ctx context.Context, facts *fencing.Facts) error {
	if !byAddress(facts.Agents) && !taken(facts) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var err error
	facts.Classes, facts.StorageFences, err = agents.ListStorage(ctx, f.Live)
	facts.Known.Storage = err == nil
	return err
}

// mayHaveBootedAnew adds the names of the nodes by which it may be known that what a NetworkFence is for has ended.
func mayHaveBootedAnew(facts *fencing.Facts, names map[string]bool) {
	for i := range facts.StorageFences {
		x := &facts.StorageFences[i]
		for j := range facts.Nodes {
			if n := &facts.Nodes[j]; x.Boot != nil && n.Name == x.Boot.Name && n.BootID != x.Boot.BootID {
				names[n.Name] = true
			}
		}
	}
}

// decidingStorage are the names of the nodes of which it matters which volumes they have: Fences are for them that nobody has begun.
func decidingStorage(facts *fencing.Facts) map[string]bool {
	names := map[string]bool{}
	for i := range facts.Fences {
		if x := &facts.Fences[i]; x.Status.Phase != v1alpha1.FenceOver && x.Status.Target == nil && len(facts.Classes) > 0 {
			names[x.Spec.Node.Name] = true
		}
	}
	return names
}

// volumes are the PersistentVolumes of these names, the first of them where there are too many: those that are attached come before those of claims, which whoever may create pods and
// claims can name as many of as they like. With an error they are not all that could be revoked.
func (f *Fencer) volumes(ctx context.Context, names []string) (volumes []storage.Volume, err error) {
	looked := make(map[string]bool, len(names))
	for _, name := range names {
		if looked[name] || len(looked) >= volumesANode {
			continue
		}
		looked[name] = true
		var pv corev1.PersistentVolume
		switch err := f.Live.Get(ctx, types.NamespacedName{Name: name}, &pv); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return volumes, fmt.Errorf("read PersistentVolume %s: %w", name, err)
		}
		v := storage.Volume{Name: name}
		if csi := pv.Spec.CSI; csi != nil {
			v.Driver, v.Attributes = csi.Driver, csi.VolumeAttributes
		}
		volumes = append(volumes, v)
	}
	return volumes, nil
}
