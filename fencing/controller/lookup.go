package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

const (
	// suspect is the silence from which on a node is read live, however long its own Lease lasts.
	suspect = guard.DefaultLease
	// liveNodes is how many silent nodes are read live in a round, beside those that Fences and receipts are for. Where there are more they take turns.
	liveNodes = 20
	// rememberedNodes is of how many silent nodes it is kept from turn to turn which pods they have. Where there are more, those whose turn it is not are unknown.
	rememberedNodes = 500
	// podsAPage is how many pods of a node are read at once.
	podsAPage = 500
	// claimsARound is how many claims of one namespace are read in a round: whoever may create pods there can bind some to a silent node that name any number of claims. A round
	// that takes longer than Silence allows is one in which no silence is counted, of no node.
	claimsARound = 200
)

// facts looks up what a round decides by. An error says what could not be read: what depends on it is unknown.
func (f *Fencer) facts(ctx context.Context) (fencing.Facts, error) {
	facts := fencing.Facts{Self: f.self, Gone: map[types.UID]time.Duration{}}
	var errs []error
	live := func(list client.ObjectList, known *bool) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		err := f.Live.List(ctx, list)
		*known = err == nil
		errs = append(errs, err)
	}
	var fences v1alpha1.FenceList
	var receipts v1alpha1.FenceReceiptList
	var agents v1alpha1.FenceAgentList
	live(&fences, &facts.Known.Fences)
	live(&receipts, &facts.Known.Receipts)
	live(&agents, &facts.Known.Agents)
	facts.Fences, facts.Receipts, facts.Agents = fences.Items, receipts.Items, agents.Items
	errs = append(errs, f.storage(ctx, &facts))

	if err := f.cachedNodes(ctx, &facts); err != nil {
		facts.Now = f.now()
		return facts, errors.Join(append(errs, err)...)
	}
	errs = append(errs, f.liveNodes(ctx, &facts))
	facts.Now = f.now()
	return facts, errors.Join(errs...)
}

// cachedNodes fills in all nodes as the informers have them.
func (f *Fencer) cachedNodes(ctx context.Context, facts *fencing.Facts) error {
	asked := f.now().Led
	nodes, err := listNodes(ctx, f.Cache)
	if err != nil {
		return err
	}
	for i := range nodes {
		f.hear(&nodes[i], asked)
		f.Addresses.fill(&nodes[i])
	}
	facts.Nodes = nodes
	facts.Known.Nodes = true
	return nil
}

// hear notes a node's sign of life. It was silent until it was asked for: this process may have been paused since, and what came meanwhile is not in the answer.
func (f *Fencer) hear(n *fencing.Node, asked time.Duration) {
	f.silence.Hear(n.UID, n.Sign, f.now().Led)
	n.Silent, n.Heard = f.silence.Of(n.UID, asked)
	n.Before = f.silence.Before(n.UID)
}

// liveNodes reads from the API server itself the nodes that Fences are for, and those that are silent, with all that is decided by.
func (f *Fencer) liveNodes(ctx context.Context, facts *fencing.Facts) error {
	names, fenced := map[string]bool{}, map[string][]types.UID{}
	for i := range facts.Fences {
		if f := &facts.Fences[i]; f.Status.Phase != v1alpha1.FenceOver {
			names[f.Spec.Node.Name] = true
			fenced[f.Spec.Node.Name] = append(fenced[f.Spec.Node.Name], f.Spec.Node.UID)
		}
	}
	mayHaveBootedAnew(facts, names)
	proved := map[string]bool{}
	for i := range facts.Receipts {
		if n := facts.Receipts[i].Spec.Node; n != nil {
			proved[n.BootID] = true
		}
	}
	for i := range facts.Nodes { // a boot that a receipt says is off, and that may be heard of
		if n := &facts.Nodes[i]; proved[n.BootID] {
			names[n.Name] = true
		}
	}
	silent := make([]*fencing.Node, 0, liveNodes)
	read := map[types.UID]lastRead{}
	for i := range facts.Nodes {
		n := &facts.Nodes[i]
		if !names[n.Name] && (n.Silent >= suspect || n.Partitioned != nil && n.Partitioned.Status != corev1.ConditionFalse) {
			silent = append(silent, n)
			if last, ok := f.read[n.UID]; ok {
				read[n.UID] = last
			}
		}
	}
	f.read = read
	f.takeTurns(silent, names)
	if len(names) == 0 {
		return nil
	}
	about, errs := f.newSurroundings(ctx)
	deciding := decidingStorage(facts)
	for name := range names {
		errs = errors.Join(errs, f.readLive(ctx, facts, name, fenced[name], deciding[name], about))
	}
	return errs
}

// lastRead is what was read of a silent node the last time, and when.
type lastRead struct {
	at    time.Duration
	pods  []fencing.Pod
	known bool
}

// takeTurns chooses which of the silent nodes are read live in this round: those that were not for longest, then those that are silent for longest. Many may be silent for weeks
// with nothing to be done about them, and one falls silent on which somebody's pod waits. Of the others it is known what was read of them last, and nothing more: a Fence
// that is made by that is judged again by what is read then.
func (f *Fencer) takeTurns(silent []*fencing.Node, names map[string]bool) {
	slices.SortStableFunc(silent, func(a, b *fencing.Node) int {
		return cmp.Or(cmp.Compare(f.read[a.UID].at, f.read[b.UID].at), cmp.Compare(b.Silent, a.Silent))
	})
	now := f.now().Led
	for i, n := range silent {
		last := f.read[n.UID]
		if i < liveNodes {
			names[n.Name] = true
			last.at = now
			f.read[n.UID] = last
			continue
		}
		n.Pods, n.PodsKnown = last.pods, last.known
	}
}

// readLive reads one node. Fenced are the UIDs of Nodes of its name that Fences are for; deciding: its volumes are read as well. The Node is read before its Lease: what it says of its
// watchdog may rest on a renewal of which the other order would not know.
func (f *Fencer) readLive(ctx context.Context, facts *fencing.Facts, name string, fenced []types.UID, deciding bool, about *surroundings) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	i := slices.IndexFunc(facts.Nodes, func(n fencing.Node) bool { return n.Name == name })
	asked := f.now().Led
	var node corev1.Node
	switch err := f.Live.Get(ctx, types.NamespacedName{Name: name}, &node); {
	case apierrors.IsNotFound(err):
		f.gone(facts, fenced, "")
		if i >= 0 {
			facts.Nodes = slices.Delete(facts.Nodes, i, i+1)
		}
		return nil
	case err != nil:
		return fmt.Errorf("read Node %s: %w", name, err)
	}
	f.gone(facts, fenced, node.UID)
	lease := &coordinationv1.Lease{}
	switch err := f.Live.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: name}, lease); {
	case apierrors.IsNotFound(err):
		lease = nil
	case err != nil:
		return fmt.Errorf("read the Lease of node %s: %w", name, err)
	}
	n := fencing.NodeOf(&node, lease)
	f.hear(&n, asked)
	pods, err := f.podsOn(ctx, name, about)
	n.Pods, n.PodsKnown = pods, err == nil && about.policiesKnown
	n.Attached, n.AttachedKnown = about.attached[name], about.attachedKnown
	f.Addresses.fill(&n)
	if deciding {
		volumes, unread := f.volumes(ctx, about.volumes[name])
		n.Volumes, n.VolumesKnown = volumes, unread == nil && about.attachedKnown && n.PodsKnown && !about.claimsUnread
		err = errors.Join(err, unread)
	}
	n.Live = true
	if last, ok := f.read[n.UID]; ok && len(f.read) <= rememberedNodes {
		last.pods, last.known = n.Pods, n.PodsKnown
		f.read[n.UID] = last
	}
	if i < 0 {
		facts.Nodes = append(facts.Nodes, n)
	} else {
		facts.Nodes[i] = n
	}
	return err
}

// gone notes that of the Nodes that Fences are for only the one with this UID is there.
func (f *Fencer) gone(facts *fencing.Facts, fenced []types.UID, there types.UID) {
	for _, uid := range fenced {
		if uid != there {
			facts.Gone[uid] = f.silence.Gone(uid, f.now().Led)
		}
	}
}

// podsOn lists the pods of a node, with what the fencer has to know of them.
func (f *Fencer) podsOn(ctx context.Context, node string, about *surroundings) ([]fencing.Pod, error) {
	var all []fencing.Pod
	var token string
	for {
		var page corev1.PodList
		err := f.Live.List(ctx, &page, client.MatchingFields{"spec.nodeName": node}, client.Limit(podsAPage), client.Continue(token))
		if err != nil {
			return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
		}
		for i := range page.Items {
			p := &page.Items[i]
			all = append(all, f.pod(ctx, p, about))
		}
		if token = page.Continue; token == "" {
			return all, nil
		}
	}
}

// pod is what is known of a pod: whether a policy that denies or warns protects it in such a way that it holds its node, and whether that is for its volumes alone. A claim that can't
// be read, or is one too many, counts as exclusive.
func (f *Fencer) pod(ctx context.Context, p *corev1.Pod, about *surroundings) fencing.Pod {
	removal := about.removal(ctx, p.Namespace)
	if len(removal.Names) == 0 {
		return fencing.PodOf(p, false, about.brokenBudget(p))
	}
	claims := policy.Claims{}
	for _, name := range policy.ClaimNames(p) {
		if claim := f.claim(ctx, p.Namespace, name, about); claim != nil {
			claims[name] = policy.ClaimOf(claim, p)
			if volume := claims[name].Volume; volume != "" {
				about.volumes[p.Spec.NodeName] = append(about.volumes[p.Spec.NodeName], volume)
			}
		}
	}
	protected := slices.ContainsFunc(removal.HoldsNode(p, claims), func(a v1alpha1.RemovalAction) bool { return a != v1alpha1.RemovalAllow })
	pod := fencing.PodOf(p, protected, about.brokenBudget(p))
	pod.Volumes, pod.But = removal.Storage(p, claims)
	return pod
}

// claim reads a claim, once a round; nil: it is not known.
func (f *Fencer) claim(ctx context.Context, namespace, name string, about *surroundings) *corev1.PersistentVolumeClaim {
	known := about.claims[namespace]
	if claim, ok := known[name]; ok || len(known) >= claimsARound {
		return claim
	}
	if known == nil {
		known = map[string]*corev1.PersistentVolumeClaim{}
		about.claims[namespace] = known
	}
	known[name] = nil
	var claim corev1.PersistentVolumeClaim
	switch err := f.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &claim); {
	case err == nil:
		known[name] = &claim
	case !apierrors.IsNotFound(err):
		about.claimsUnread = true
	}
	return known[name]
}

// surroundings are what pods of all nodes are judged by in one round.
type surroundings struct {
	policies      policy.Policies
	policiesKnown bool
	exempt        policy.Exempt
	namespaces    client.Reader
	removals      map[string]policy.Removal
	claims        map[string]map[string]*corev1.PersistentVolumeClaim // by namespace and name; nil: it can't be read
	claimsUnread  bool                                                // one of them could not be, though it may be there
	budgets       map[string][]budget
	attached      map[string][]string // names of VolumeAttachments, by node
	volumes       map[string][]string // and of their PersistentVolumes, and of those of its pods' claims once these were listed
	attachedKnown bool
}

// budget is a PodDisruptionBudget that has less healthy pods than it wants.
type budget struct{ selector labels.Selector }

func (f *Fencer) newSurroundings(ctx context.Context) (*surroundings, error) {
	about := &surroundings{exempt: f.Exempt, namespaces: f.Cache, removals: map[string]policy.Removal{}, claims: map[string]map[string]*corev1.PersistentVolumeClaim{}, budgets: map[string][]budget{}, attached: map[string][]string{}, volumes: map[string][]string{}}
	var policies v1alpha1.PodPolicyList
	var budgets policyv1.PodDisruptionBudgetList
	var attachments storagev1.VolumeAttachmentList
	errs := []error{f.Cache.List(ctx, &policies), f.Cache.List(ctx, &budgets), f.Cache.List(ctx, &attachments)}
	about.policies, about.policiesKnown = policy.InForce(policies.Items), errs[0] == nil
	for i := range budgets.Items {
		b := &budgets.Items[i]
		if b.Status.CurrentHealthy >= b.Status.DesiredHealthy {
			continue
		}
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil {
			about.budgets[b.Namespace] = append(about.budgets[b.Namespace], budget{selector})
		}
	}
	for i := range attachments.Items {
		node := attachments.Items[i].Spec.NodeName
		about.attached[node] = append(about.attached[node], attachments.Items[i].Name)
		if volume := attachments.Items[i].Spec.Source.PersistentVolumeName; volume != nil {
			about.volumes[node] = append(about.volumes[node], *volume)
		}
	}
	about.attachedKnown = errs[2] == nil
	return about, errors.Join(errs...)
}

// removal is what the policies say about removals in a namespace. One that can't be read is unknown, and policies hold there.
func (s *surroundings) removal(ctx context.Context, namespace string) policy.Removal {
	if known, ok := s.removals[namespace]; ok {
		return known
	}
	var ns corev1.Namespace
	err := s.namespaces.Get(ctx, types.NamespacedName{Name: namespace}, &ns)
	s.removals[namespace] = s.policies.Removal(policy.Namespace{Name: namespace, Labels: ns.Labels, Unknown: err != nil}, s.exempt)
	return s.removals[namespace]
}

func (s *surroundings) brokenBudget(p *corev1.Pod) bool {
	return slices.ContainsFunc(s.budgets[p.Namespace], func(b budget) bool { return b.selector.Matches(labels.Set(p.Labels)) })
}
