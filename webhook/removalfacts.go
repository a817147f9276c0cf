package webhook

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// RemovalFacts looks up what the judgement of a removal depends on. Removals that need a judgement are rare, so all of it is read live:
// an informer may be behind, and a node that is gone in truth must not be taken for one that never was. What can't be read stays unknown. Only which volumes its node holds is from an informer: it
// decides nothing.
func (e *Engine) RemovalFacts(ctx context.Context, r *guard.Request) guard.Facts {
	ctx, cancel := context.WithTimeout(ctx, lookup.Timeout)
	defer cancel()
	facts := guard.Facts{Now: e.Now()}
	if r.Road == guard.RoadVolumeAttachment && guard.IsAttachDetachController(r.User) {
		facts.Volume = e.Lookup.Volume(ctx, r.VolumeAttachment)
	}
	policies := e.currentPolicies(ctx, &facts, r)
	switch r.Road {
	case guard.RoadNode, guard.RoadOutOfService:
		facts.Node = e.Lookup.Node(ctx, r.Node.Name, facts.Now)
		if r.Road == guard.RoadNode && !facts.Policy.Unknown {
			facts.Bound, facts.BoundKnown = e.protectedOn(ctx, r.Node.Name, policies)
		}
	case guard.RoadVolumeAttachment:
		facts.Node = e.Lookup.Node(ctx, r.VolumeAttachment.Spec.NodeName, facts.Now)
	default:
		if r.Pod.Spec.NodeName != "" {
			facts.Node = e.Lookup.Node(ctx, r.Pod.Spec.NodeName, facts.Now)
		}
		facts.Claims = e.Lookup.Current().Claims(ctx, r.Pod.Namespace, r.Pod)
		facts.Held = e.Lookup.Locks.HeldBy(r.Pod.Spec.NodeName, facts.Claims)
	}
	facts.Fences = e.Lookup.Current().Fences(ctx)
	return facts
}

// currentPolicies reads the policies live and sets what they say about this removal: a removal that a replica allowed because its informer was stale would be
// stored, and no other replica could refuse it any more. If they can't be read, the informer's policies count if they deny; otherwise
// the policies are unknown. Where no policy can be for it none is asked, so that it goes on also when they can't be read.
func (e *Engine) currentPolicies(ctx context.Context, facts *guard.Facts, r *guard.Request) policy.Policies {
	policies := e.Policies.Policies()
	if e.ofExempt(ctx, facts, r) {
		return policies
	}
	if e.LivePolicies != nil {
		live, err := e.LivePolicies(ctx)
		if err != nil {
			if facts.Policy = e.guarding(ctx, facts, r, policies); facts.Policy.ForceDelete != v1alpha1.RemovalDeny {
				facts.Policy = policy.Removal{Unknown: true}
			}
			return policies
		}
		policies = live
	}
	facts.Policy = e.guarding(ctx, facts, r, policies)
	return policies
}

// ofExempt reports whether what is removed is of a namespace that no policy is for. Nodes are of none. A detach by anybody but the attach-detach controller is so only where the
// namespace was excluded: kube-system's and Podgrace's own volumes are judged then.
func (e *Engine) ofExempt(ctx context.Context, facts *guard.Facts, r *guard.Request) bool {
	if namespace, _, found := strings.Cut(facts.Volume.Claim, "/"); found {
		return e.Exempt.Has(namespace)
	}
	switch r.Road {
	case guard.RoadVolumeAttachment:
		return e.ofExcluded(ctx, r.VolumeAttachment)
	case guard.RoadNode, guard.RoadOutOfService:
		return false
	}
	return e.Exempt.Has(r.Pod.Namespace)
}

// guarding returns what the policies say about the removal: for Nodes and VolumeAttachments, which have no namespace, those of all namespaces. A detach by the
// attach-detach controller is judged by the policies of the namespace of the volume's claim, and not at all where no policy guards that.
func (e *Engine) guarding(ctx context.Context, facts *guard.Facts, r *guard.Request, policies policy.Policies) policy.Removal {
	if namespace, _, found := strings.Cut(facts.Volume.Claim, "/"); found {
		return policies.Removal(e.Lookup.Current().Namespace(ctx, namespace), e.Exempt)
	}
	switch r.Road {
	case guard.RoadVolumeAttachment, guard.RoadNode, guard.RoadOutOfService:
		return policies.RemovalOfAll()
	}
	return policies.Removal(e.Lookup.Current().Namespace(ctx, r.Pod.Namespace), e.Exempt)
}

// ofExcluded reports whether an attachment's volume is of a claim in a namespace that was excluded. Who works in a namespace can't write that into a PersistentVolume.
func (e *Engine) ofExcluded(ctx context.Context, attachment *storagev1.VolumeAttachment) bool {
	if attachment == nil || len(e.Exempt.Excluded()) == 0 {
		return false
	}
	namespace, _, _ := strings.Cut(e.Lookup.Volume(ctx, attachment).Claim, "/")
	return e.Exempt.By(namespace) != ""
}

// protectedOn returns the pods of a node that may still run, by the action of the policies that protect them.
func (e *Engine) protectedOn(ctx context.Context, node string, policies policy.Policies) (protected map[v1alpha1.RemovalAction][]*corev1.Pod, known bool) {
	protected = map[v1alpha1.RemovalAction][]*corev1.Pod{}
	live, guarding := e.Lookup.Current(), map[string]policy.Removal{}
	seen := map[types.UID]bool{}
	for looked := 1; ; looked++ {
		pods, err := e.Lookup.PodsOn(ctx, node)
		pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return seen[p.UID] || graceperiod.Finished(&p) })
		switch {
		case err != nil || looked > looks && len(pods) > 0:
			return nil, false
		case looked > 1 && len(pods) == 0:
			return protected, true
		}
		for i := range pods {
			seen[pods[i].UID] = true
		}
		if !e.addProtected(ctx, protected, pods, policies, live, guarding) {
			return nil, false
		}
	}
}

// looks is how often the pods of a node are listed at most, until a list has no new ones: a pod can be bound to it while the claims of others are read.
const looks = 3

// addProtected adds the pods that are protected; false: the context ended before all were looked at.
func (e *Engine) addProtected(ctx context.Context, protected map[v1alpha1.RemovalAction][]*corev1.Pod, pods []corev1.Pod, policies policy.Policies, live *lookup.Lookup, guarding map[string]policy.Removal) bool {
	for i := range pods {
		p := &pods[i]
		pol, ok := guarding[p.Namespace]
		if !ok {
			pol = policies.Removal(live.Namespace(ctx, p.Namespace), e.Exempt)
			guarding[p.Namespace] = pol
		}
		if ctx.Err() != nil {
			return false
		}
		if len(pol.Names) == 0 {
			continue
		}
		for _, action := range pol.HoldsNode(p, live.Claims(ctx, p.Namespace, p)) {
			protected[action] = append(protected[action], p)
		}
	}
	return true
}
