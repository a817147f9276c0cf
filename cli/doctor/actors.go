package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy"
)

// Actor is a controller that removes Nodes or pods by itself.
type Actor struct {
	// Name of the program, Does what it removes.
	Name, Does string
	// Images are the last parts of its image's repository, by which a workload is known as it, whatever its own name. After a star, what the last part ends with.
	Images []string
	// Deployments are what NAMESPACE/NAME of a Deployment of it begins with, where images have no name: those of OpenShift's own are digests of one repository.
	Deployments []string
	// Also are accounts of kube-system by which it speaks with --use-service-account-credentials.
	Also []string
}

// Actors are the controllers that docs/actors.md says are refused unless they are named, known by what they run. Under which account one speaks is read from the workload, because it is the installer's
// choice. Nobody has tried them; 2026-11.
func Actors() []Actor {
	const nodes = "deletes the Nodes of machines that it ends or that are gone"
	return []Actor{
		{Name: "Karpenter", Does: "takes its finalizer from Nodes whose machine has ended, which removes them", Images: []string{"karpenter", "karpenter/controller", "karpenter-controller"}},
		{
			Name: "cloud controller manager", Does: nodes, Also: []string{"node-controller"}, // ClientName of its node lifecycle controller (k8s.io/cloud-provider app/controllermanager.go, 0.36.3)
			Deployments: []string{"openshift-cloud-controller-manager/"},
			Images: []string{
				"*cloud-controller-manager", "cloud-provider-equinix-metal", "cloud-provider-vsphere/cpi/release/manager", "cloud-pv-vsphere",
			},
		},
		{Name: "machine API of OpenShift", Does: nodes, Deployments: []string{"openshift-machine-api/machine-api-controllers"}},
		{Name: "self node remediation", Does: "sets the out-of-service taint, or deletes Nodes", Images: []string{"self-node-remediation-operator"}},
		{Name: "fence agents remediation", Does: "sets the out-of-service taint, or deletes pods by force", Images: []string{"fence-agents-remediation-operator"}},
	}
}

// removers are the actors that run in the cluster, by the user that each speaks as.
func removers(s *Snapshot) (users []string, who map[string]string) {
	who = map[string]string{}
	look := func(namespace, name string, pod *corev1.PodSpec, deployment bool) {
		for _, actor := range Actors() {
			named := deployment && slices.ContainsFunc(actor.Deployments, func(beginning string) bool { return strings.HasPrefix(namespace+"/"+name, beginning) })
			for _, c := range pod.Containers {
				if !named && !slices.ContainsFunc(actor.Images, func(image string) bool { return isImage(c.Image, image) }) {
					continue
				}
				account := func(namespace, name string) {
					who["system:serviceaccount:"+namespace+":"+name] = fmt.Sprintf("%s (%s/%s) %s", actor.Name, namespace, name, actor.Does)
				}
				account(namespace, cmp.Or(pod.ServiceAccountName, "default"))
				if isSet(c, "--use-service-account-credentials") {
					for _, other := range actor.Also {
						account("kube-system", other)
					}
				}
			}
		}
	}
	for i := range s.Deployments {
		d := &s.Deployments[i]
		look(d.Namespace, d.Name, &d.Spec.Template.Spec, true)
	}
	for i := range s.DaemonSets {
		d := &s.DaemonSets[i]
		look(d.Namespace, d.Name, &d.Spec.Template.Spec, false)
	}
	for user := range who {
		users = append(users, user)
	}
	slices.Sort(users)
	return users, who
}

// isImage reports whether a reference is of a repository that ends so, whatever registry, tag and digest it has.
func isImage(reference, ending string) bool {
	reference, _, _ = strings.Cut(reference, "@")
	if i := strings.LastIndex(reference, ":"); i > strings.LastIndex(reference, "/") {
		reference = reference[:i]
	}
	if end, star := strings.CutPrefix(ending, "*"); star {
		return strings.HasSuffix(reference, end)
	}
	return reference == ending || strings.HasSuffix(reference, "/"+ending)
}

// isSet reports whether a container is started with this flag: as an argument of its own, or in the command of a shell. The last one counts.
func isSet(c corev1.Container, flag string) (is bool) {
	for _, part := range strings.Split(strings.Join(slices.Concat(c.Command, c.Args), "\n"), flag)[1:] {
		switch end := strings.IndexAny(part+" ", " \t\n\"';&|\\"); {
		case end == 0:
			is = true
		case part[0] == '=':
			is, _ = strconv.ParseBool(part[1:end])
		}
	}
	return is
}

// allowedActors are the users that pass while the webhook is down: those that all policies which deny name. If no policy denies, those that would pass if the
// policies that there are did.
func allowedActors(removal policy.Removal) []string {
	if removal.Denies() {
		return removal.ActorsOfDenying()
	}
	return removal.ActorsOfAll()
}

// removingControllers: what removes nodes by itself is named in the policies, or will be stopped by them.
func removingControllers(s *Snapshot) []Finding {
	users, who := removers(s)
	removal := policy.InForce(s.PodPolicies).RemovalOfAll()
	allowed := allowedActors(removal)
	missing := slices.DeleteFunc(slices.Clone(users), func(user string) bool { return slices.Contains(allowed, user) })
	if len(missing) == 0 {
		return nil
	}
	var each []string
	for _, user := range missing {
		each = append(each, who[user])
	}
	f := Finding{
		Severity: Note, About: "controllers that remove nodes",
		Message: strings.Join(each, "; ") + ". A policy that denies judges that, and while the webhook is away it is refused, unless every such policy names the user",
		Remedy:  "name it in the removal section of every policy that denies, where you trust its word that the machine is gone (docs/actors.md)",
		Actors:  missing,
	}
	switch {
	case !removal.Guards():
	case removal.ForceDelete == v1alpha1.RemovalDeny:
		f.Severity = Warning
		f.Message = strings.Join(each, "; ") + ". That is refused where protected pods are still bound to the node, and always while the webhook is away: not every policy that denies names the user"
	}
	return []Finding{f}
}

// providers are the distributions whose control plane removes Nodes itself, with the users by which it does, as far as docs/actors.md knows.
var providers = map[Distribution][]string{EKS: {"eks:cloud-controller-manager"}, GKE: nil, GKEAutopilot: nil, AKS: nil}

// cloudActors: who removes Nodes from outside, where the control plane is somebody else's.
func cloudActors(s *Snapshot) []Finding {
	is, _ := distributionOf(s)
	users, provider := providers[is]
	removal := policy.InForce(s.PodPolicies).RemovalOfAll()
	allowed := allowedActors(removal)
	if !provider || len(users) > 0 && !slices.ContainsFunc(users, func(user string) bool { return !slices.Contains(allowed, user) }) {
		return nil
	}
	f := Finding{
		Severity: Note, About: "controllers of " + string(is), Message: fmt.Sprintf("%s deletes the Nodes of machines that are gone from its own control plane, where no object tells under which name", is),
		Remedy: "find it in the API server's audit log (verb delete, resource nodes), and name it in allowedActors before a policy denies",
	}
	if len(users) > 0 {
		f.Message = fmt.Sprintf("%s deletes the Nodes of machines that are gone from its own control plane, under this name as far as is known", is)
		f.Remedy, f.Actors = "see in the API server's audit log that it is so (verb delete, resource nodes), and name it before a policy denies", users
	}
	outside := slices.DeleteFunc(slices.Clone(allowed), func(user string) bool { return strings.HasPrefix(user, "system:serviceaccount:") })
	switch {
	case removal.ForceDelete != v1alpha1.RemovalDeny:
	case len(users) == 0 && len(outside) > 0: // somebody has looked, it seems
		f.Remedy = fmt.Sprintf("see in the API server's audit log (verb delete, resource nodes) that it is %s, whom every policy names", console.Some(outside, 3, " or "))
	default:
		f.Severity = Warning
	}
	return []Finding{f}
}

// controllerManager: what is set at kube-controller-manager, where it can be seen.
func controllerManager(s *Snapshot) []Finding {
	if len(s.ControllerManagers) == 0 {
		return []Finding{{
			Severity: Note, About: "kube-controller-manager", Message: "no pod of it can be seen, so that nothing is known of its flags: whether it takes volumes away by force from nodes that are silent, for instance",
		}}
	}
	var without []string
	for _, p := range s.ControllerManagers {
		for _, c := range p.Spec.Containers {
			if !isSet(c, "--disable-force-detach-on-timeout") {
				without = append(without, p.Name)
			}
		}
	}
	if len(without) == 0 {
		return nil
	}
	slices.Sort(without)
	return []Finding{{
		Severity: Note, About: "kube-controller-manager " + console.Some(without, 3, ", "),
		Message: "six minutes after a node falls silent it takes the volumes of pods that are being deleted away by force. The guard holds that up while it is armed and answers, and nothing does while the webhook is away",
		Remedy:  "--disable-force-detach-on-timeout=true does so without the webhook",
	}}
}
