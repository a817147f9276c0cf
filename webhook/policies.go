package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// PolicyStore holds the policies in force, compiled once each. Reading it takes no lock.
type PolicyStore struct {
	inForce atomic.Pointer[policy.Policies]

	mu       sync.Mutex
	compiled map[string]*policy.Policy
	broken   map[string]bool
	log      logr.Logger
}

// NewPolicyStore returns a store with the given policies, all of which must be valid.
func NewPolicyStore(log logr.Logger, policies ...*v1alpha1.PodPolicy) (*PolicyStore, error) {
	return newPolicyStore(log, policies, func(_ *policy.Policy, err error) error { return err })
}

// NewStoredPolicies returns a store with policies as they are in a cluster, which has them in force as Watch would: parts that can't be read are not. unread says
// which these are.
func NewStoredPolicies(policies ...*v1alpha1.PodPolicy) (s *PolicyStore, unread, err error) {
	s, err = newPolicyStore(logr.Discard(), policies, func(c *policy.Policy, err error) error {
		unread = errors.Join(unread, fmt.Errorf("%w; it is %s", err, c.InForce()))
		return nil
	})
	return s, unread, err
}

// newPolicyStore asks what becomes of a policy of which a part can't be read.
func newPolicyStore(log logr.Logger, policies []*v1alpha1.PodPolicy, halfRead func(*policy.Policy, error) error) (*PolicyStore, error) {
	s := &PolicyStore{compiled: map[string]*policy.Policy{}, broken: map[string]bool{}, log: log}
	for _, p := range policies {
		if _, twice := s.compiled[p.Name]; twice {
			return nil, fmt.Errorf("PodPolicy %s is there twice", p.Name)
		}
		c, err := policy.Compile(p)
		if err != nil {
			s.broken[p.Name] = true
			err = halfRead(c, err)
		}
		if err != nil {
			return nil, err
		}
		s.compiled[p.Name] = c
	}
	s.publish()
	return s, nil
}

// Policies returns the policies in force, the heaviest first.
func (s *PolicyStore) Policies() policy.Policies { return *s.inForce.Load() }

// OutOfForce returns the names of the policies of which a part can't be read, sorted.
func (s *PolicyStore) OutOfForce() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.broken))
}

// Watch watches the PodPolicies of the cluster. Parts of a policy that can't be read are not in force; its status says why. The
// function that it returns reports whether the store has synced.
func (s *PolicyStore) Watch(ctx context.Context, informers cache.Informers) (hasSynced func() bool, err error) {
	informer, err := informers.GetInformer(ctx, &v1alpha1.PodPolicy{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch PodPolicies (is the CustomResourceDefinition podpolicies.podgrace.dev installed? kubectl apply -f deploy/crds): %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    s.set,
		UpdateFunc: func(_, now any) { s.set(now) },
		DeleteFunc: s.remove,
	})
	if err != nil {
		return nil, fmt.Errorf("watch PodPolicies: %w", err)
	}
	return registration.HasSynced, nil
}

func (s *PolicyStore) set(object any) {
	p, ok := object.(*v1alpha1.PodPolicy)
	if !ok {
		return
	}
	c, err := policy.Compile(p.DeepCopy())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compiled[p.Name] = c
	delete(s.broken, p.Name)
	if err != nil {
		s.log.Error(err, "invalid PodPolicy: a part of it is not in force", "podPolicy", p.Name, "inForce", c.InForce())
		s.broken[p.Name] = true
	}
	s.publish()
}

func (s *PolicyStore) remove(object any) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	p, ok := object.(*v1alpha1.PodPolicy)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.compiled, p.Name)
	delete(s.broken, p.Name)
	s.publish()
}

func (s *PolicyStore) publish() {
	all := make([]*policy.Policy, 0, len(s.compiled))
	for _, c := range s.compiled {
		all = append(all, c)
	}
	sorted := policy.Sort(all)
	s.inForce.Store(&sorted)
}

// Read returns a function that reads the PodPolicies with a removal section live. Such a policy has no match conditions, so that it compiles fast.
func Read(live client.Reader) func(context.Context) (policy.Policies, error) {
	return func(ctx context.Context) (policy.Policies, error) {
		var list v1alpha1.PodPolicyList
		if err := live.List(ctx, &list); err != nil {
			return nil, fmt.Errorf("list PodPolicies: %w", err)
		}
		list.Items = slices.DeleteFunc(list.Items, func(p v1alpha1.PodPolicy) bool { return !policy.HasRemoval(&p) })
		return policy.InForce(list.Items), nil
	}
}
