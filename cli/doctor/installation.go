package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podgrace/podgrace/internal/console"
)

// webhookPods: replicas serve, and not from one node.
func webhookPods(s *Snapshot) []Finding {
	d := s.webhook()
	about, want := "Deployment "+webhookName, int32(1)
	if d == nil {
		return []Finding{{Severity: Error, About: about, Message: "it is gone: pods are created without defaults, and once the guard is armed what it would have to judge is refused", Remedy: "install again: helm upgrade, or kubectl apply -k"}}
	}
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	look := []string{fmt.Sprintf("kubectl -n %s get pods -l app.kubernetes.io/name=%s", s.OwnNamespace, webhookName), fmt.Sprintf("kubectl -n %s describe deployment %s", s.OwnNamespace, webhookName)}
	var found []Finding
	switch ready := d.Status.AvailableReplicas; {
	case ready == 0:
		found = append(found, Finding{Severity: Error, About: about, Message: fmt.Sprintf("none of %d replicas is available%s: pods are created without defaults, and once the guard is armed what it would have to judge is refused", want, whyWaiting(s.Pods)), Remedy: "find out why, or turn the guard off (docs/operations.md)", Commands: look})
	case ready < want:
		found = append(found, Finding{Severity: Warning, About: about, Message: fmt.Sprintf("%d of %d replicas are available%s", ready, want, whyWaiting(s.Pods)), Remedy: "find out why", Commands: look})
	}
	if want == 1 {
		found = append(found, Finding{Severity: Warning, About: about, Message: "it has one replica: an update, a drain or the node's end leaves none for a while", Remedy: "two or more", Values: []string{"webhook.replicas=2"}})
	}
	return append(found, spread(s, about)...)
}

// fencer: it runs, where it is installed.
func fencer(s *Snapshot) []Finding {
	return runs(s, fencerName, "silent nodes are not shown, and none is fenced")
}

// runs says what does not work while none of a Deployment's replicas is available.
func runs(s *Snapshot, name, undone string) []Finding {
	if d := s.deployment(name); d == nil || d.Status.AvailableReplicas > 0 {
		return nil
	}
	return []Finding{{
		Severity: Warning, About: "Deployment " + name, Message: "no replica is available: " + undone, Remedy: "find out why",
		Commands: []string{fmt.Sprintf("kubectl -n %s describe deployment %s", s.OwnNamespace, name)},
	}}
}

// whyWaiting is what keeps a container of the webhook from running; empty: nothing that its status tells.
func whyWaiting(pods []corev1.Pod) string {
	for _, p := range pods {
		if p.Labels["app.kubernetes.io/name"] != webhookName {
			continue
		}
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && w.Reason != "ContainerCreating" {
				return fmt.Sprintf(" (pod %s: %s, image %s)", p.Name, w.Reason, c.Image)
			}
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return fmt.Sprintf(" (pod %s: %s)", p.Name, console.OneLine(c.Message))
			}
		}
	}
	return ""
}

// spread: the replicas that run are on more than one node, if there are more.
func spread(s *Snapshot, about string) []Finding {
	on := map[string]bool{}
	replicas := 0
	for _, p := range s.Pods {
		if p.Labels["app.kubernetes.io/name"] == webhookName && p.Spec.NodeName != "" && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
			on[p.Spec.NodeName] = true
			replicas++
		}
	}
	if replicas < 2 || len(on) > 1 {
		return nil
	}
	f := Finding{Severity: Warning, About: about, Message: fmt.Sprintf("all %d replicas are on one node: with it goes the webhook", replicas), Remedy: "delete one of them, and the scheduler places it elsewhere"}
	if len(s.linux()) < 2 {
		f.Severity, f.Remedy = Note, "the cluster has no second node"
	}
	return []Finding{f}
}

// disruptionBudget: a drain does not take all replicas at once, and is not held up by one that is broken.
func disruptionBudget(s *Snapshot) []Finding {
	for _, b := range s.Budgets {
		if b.Name == webhookName {
			return nil
		}
	}
	return []Finding{{Severity: Warning, About: "PodDisruptionBudget " + webhookName, Message: "it is gone: a drain of several nodes may take all replicas at once", Remedy: "install again: helm upgrade, or kubectl apply -k"}}
}

// versions: webhook, node enforcer and this program are of one version, as far as tags tell.
func versions(s *Snapshot) []Finding {
	tag := func(spec *corev1.PodSpec) string {
		if len(spec.Containers) == 0 || strings.Contains(spec.Containers[0].Image, "@") {
			return ""
		}
		image := spec.Containers[0].Image
		if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
			return image[i+1:]
		}
		return ""
	}
	set, own := s.enforcer(), tag(&s.webhook().Spec.Template.Spec)
	var found []Finding
	if set != nil {
		if other := tag(&set.Spec.Template.Spec); own != "" && other != "" && other != own {
			found = append(found, Finding{Severity: Warning, About: "DaemonSet " + enforcerName, Message: fmt.Sprintf("it is of version %s, the webhook of %s: what one writes into pods the other may not know", other, own), Remedy: "install both of one version"})
		}
	}
	if own != "" && strings.HasPrefix(s.CLI, "v") && strings.HasPrefix(own, "v") && s.CLI != own {
		found = append(found, Finding{Severity: Note, About: "podgrace " + s.CLI, Message: fmt.Sprintf("the webhook is of version %s: what this program says of policies is what its own version makes of them", own), Remedy: "take the program of that version"})
	}
	return found
}

// nodeEnforcer: it runs where it should.
func nodeEnforcer(s *Snapshot) []Finding {
	set := s.enforcer()
	if set == nil {
		return nil // a cluster may do without
	}
	about := "DaemonSet " + enforcerName
	if old := s.enforcerIn(s.OwnNamespace); old != nil && old != set {
		return []Finding{{
			Severity: Warning, About: about, Message: fmt.Sprintf("it is in the namespaces %s and %s: an earlier version had it in the first. Of two on a node one does not start", s.OwnNamespace, set.Namespace),
			Remedy: "delete the earlier one", Commands: []string{fmt.Sprintf("kubectl -n %s delete daemonset,serviceaccount %s", s.OwnNamespace, enforcerName)},
		}}
	}
	st := set.Status
	commands := []string{fmt.Sprintf("kubectl -n %s get pods -l app.kubernetes.io/name=%s -o wide", set.Namespace, enforcerName), fmt.Sprintf("kubectl -n %s describe daemonset %s", set.Namespace, enforcerName)}
	switch linux := len(s.linux()); {
	case st.DesiredNumberScheduled == 0 && linux > 0:
		return []Finding{{Severity: Warning, About: about, Message: fmt.Sprintf("it selects none of %s", console.Plural(linux, "Linux node", "Linux nodes")), Remedy: "look at nodeEnforcer.nodeSelector, affinity and tolerations", Commands: commands}}
	case st.NumberReady == 0 && st.DesiredNumberScheduled > 0:
		return []Finding{{Severity: Error, About: about, Message: fmt.Sprintf("none of %d pods is ready: nothing that policies ask of nodes is done. Pods that are not even created were refused, by Pod Security for instance", st.DesiredNumberScheduled), Remedy: "find out why", Commands: commands}}
	case st.NumberReady < st.DesiredNumberScheduled:
		return []Finding{{Severity: Warning, About: about, Message: fmt.Sprintf("%d of %d pods are ready", st.NumberReady, st.DesiredNumberScheduled), Remedy: "find out why", Commands: commands}}
	}
	return nil
}

const enforceLevel = "pod-security.kubernetes.io/enforce"

// podSecurity: the namespaces admit what is installed there. Only pods on the host need more than the level restricted.
func podSecurity(s *Snapshot) (found []Finding) {
	if d := s.webhook(); d != nil && d.Spec.Template.Spec.HostNetwork {
		found = append(found, admits(s.OwnNamespace, s.Namespace, "the webhook's pods, which have hostNetwork,", false)...)
	}
	if set := s.enforcer(); set != nil {
		namespace := s.NodeNamespace
		if set.Namespace == s.OwnNamespace {
			namespace = s.Namespace
		}
		found = append(found, admits(set.Namespace, namespace, "the node enforcer's pods", set.Status.DesiredNumberScheduled > 0 && set.Status.NumberReady == 0)...)
	}
	return found
}

// admits reports a namespace that refuses new pods on the host, or may do so: without a label the API server has a default.
func admits(name string, namespace *corev1.Namespace, pods string, noneRuns bool) []Finding {
	f := Finding{
		About: "Namespace " + name, Remedy: "label the namespace",
		Commands: []string{fmt.Sprintf("kubectl label namespace %s %s=privileged --overwrite", name, enforceLevel)},
	}
	switch level := levelOf(namespace); {
	case level != "" && level != "privileged":
		f.Severity, f.Message = Error, "it enforces the Pod Security level "+level+", which refuses "+pods+" when they are created"
	case level == "" && noneRuns:
		f.Severity, f.Message = Warning, "it has no label of a Pod Security level, and none of "+pods+" runs: the API server's own default may refuse them"
	default:
		return nil
	}
	return []Finding{f}
}

func isTalos(n corev1.Node) bool { return strings.HasPrefix(n.Status.NodeInfo.OSImage, "Talos") }

func levelOf(ns *corev1.Namespace) string {
	if ns == nil {
		return ""
	}
	return ns.Labels[enforceLevel]
}

// criticalQuota: where critical classes are admitted by quotas, there is one in each namespace, and it is not used up.
func criticalQuota(s *Snapshot) (found []Finding) {
	named := map[string]bool{} // class and namespace
	for _, q := range s.Quotas {
		for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
			hard := q.Status.Hard[name]
			if used := q.Status.Used[name]; used.Cmp(hard) >= 0 && !hard.IsZero() {
				return []Finding{{Severity: Warning, About: "ResourceQuota " + q.Name, Message: fmt.Sprintf("%s of %s is used up (%s of %s): an update of Podgrace, or a replica that is to be replaced, may be refused", name, q.Namespace, used.String(), hard.String()), Remedy: "raise it"}}
			}
		}
		if q.Spec.ScopeSelector == nil {
			continue
		}
		for _, r := range q.Spec.ScopeSelector.MatchExpressions {
			if r.ScopeName != corev1.ResourceQuotaScopePriorityClass {
				continue
			}
			for _, class := range r.Values {
				named[class+" "+q.Namespace] = true
			}
		}
	}
	if !isDistribution(s, GKE, GKEAutopilot) {
		return nil
	}
	missing := func(quota, namespace, class string) {
		if !named[class+" "+namespace] {
			found = append(found, Finding{Severity: Error, About: "ResourceQuota " + quota, Message: fmt.Sprintf("it is gone from the namespace %s: GKE admits pods of %s only where a quota names this class", namespace, class), Remedy: "install again: helm upgrade, or kubectl apply -k"})
		}
	}
	missing("podgrace-critical-pods", s.OwnNamespace, "system-cluster-critical")
	if set := s.enforcer(); set != nil && set.Namespace != s.OwnNamespace {
		missing("podgrace-node-critical-pods", set.Namespace, "system-node-critical")
	}
	return found
}

// staleAfter is how long a lease may be unrenewed: the webhook renews it every 2 s and takes it over after 15 s (controller-runtime's defaults).
const staleAfter = time.Minute

// leader: one replica leads.
func leader(s *Snapshot) []Finding {
	f := Finding{
		Severity: Error, About: "Lease " + LeaseName, Remedy: "docs/operations.md, PodgraceNoLeader",
		Commands: []string{fmt.Sprintf("kubectl -n %s logs -l app.kubernetes.io/name=%s --tail=50", s.OwnNamespace, webhookName)},
	}
	const undone = "caBundle, allowed actors, limits and whether the guard is armed are not written"
	for _, l := range s.Leases {
		if l.Name != LeaseName || l.Spec.RenewTime == nil {
			continue
		}
		if since := s.Now.Sub(l.Spec.RenewTime.Time); since > staleAfter {
			f.Message = fmt.Sprintf("no replica leads: it was last renewed %s ago. %s", duration.HumanDuration(since), undone)
			return []Finding{f}
		}
		return nil
	}
	f.Message = "no replica has ever led: " + undone
	return []Finding{f}
}

// guardState: if there is a policy, the API server asks the webhook. That it does is also proof that the API server reached the webhook once.
func guardState(s *Snapshot) []Finding {
	role, bound := s.inForce()
	about := "Role " + InForce
	switch {
	case role == nil:
		return []Finding{{Severity: Error, About: about, Message: "it is gone, so the API server asks the webhook nothing: no policy is in force", Remedy: again}}
	case !bound:
		return []Finding{{Severity: Error, About: "RoleBinding " + InForce, Message: "it is gone or names another account, so the API server asks the webhook nothing: no policy is in force", Remedy: again}}
	case role.Annotations[AnnotationGuard] == GuardOff:
		on := []string{fmt.Sprintf("kubectl -n %s annotate role %s %s-", s.OwnNamespace, InForce, AnnotationGuard)}
		return []Finding{{Severity: Warning, About: about, Message: "a person has switched the removal guard off: removals are allowed as if no policy guarded them, and limits that are to fail closed don't", Remedy: "if that was long ago, switch it on again", Commands: on}}
	case len(s.PodPolicies) > 0 && len(role.Rules) == 0:
		return []Finding{{
			Severity: Error, About: about, Message: "there is a policy, and it is not in force: no replica has answered the API server yet, so nothing is judged",
			Remedy: "if it stays so, the API server can't reach the webhook's pods: docs/install.md, Network", Commands: []string{fmt.Sprintf("kubectl -n %s logs -l app.kubernetes.io/name=%s --tail=50", s.OwnNamespace, webhookName)},
		}}
	}
	return nil
}

// inForce returns the Role by which the API server asks the webhook, nil if it is missing, and reports whether its RoleBinding names the right account.
func (s *Snapshot) inForce() (role *rbacv1.Role, bound bool) {
	if i := slices.IndexFunc(s.Roles, func(r rbacv1.Role) bool { return r.Name == InForce }); i >= 0 {
		role = &s.Roles[i]
	}
	us := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.OwnNamespace, Name: InForce}
	return role, slices.ContainsFunc(s.RoleBindings, func(b rbacv1.RoleBinding) bool { return b.Name == InForce && slices.Contains(b.Subjects, us) })
}

// closedLimits: limits that are to fail closed are armed. Until they are the API server does not ask the webhook for them, whether a replica runs or not.
func closedLimits(s *Snapshot) []Finding {
	role, _ := s.inForce()
	// An older version's manifests have other conditions, and arm by themselves.
	closed := slices.ContainsFunc(s.ownHooks(), func(h hook) bool {
		return isClosed(h, s.OwnNamespace) && slices.ContainsFunc(h.Conditions, func(c admissionregistrationv1.MatchCondition) bool { return c.Name == "armed" })
	})
	armed := role != nil && slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "closedlimits") })
	// What guardState reports is not repeated.
	if !closed || armed || len(s.PodPolicies) == 0 || role == nil || len(role.Rules) == 0 || role.Annotations[AnnotationGuard] == GuardOff {
		return nil
	}
	return []Finding{{Severity: Error, About: "Role " + InForce, Message: "limits are to fail closed, there is a policy, and they are not armed: only the limits hold that the API server judges itself", Remedy: again}}
}
