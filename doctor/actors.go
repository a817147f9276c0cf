package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/console"
	"github.com/podgrace/podgrace/policy"
)

// Actor is a controller that removes Nodes or pods by itself.
type Actor struct {
	// Name of the program, Does what it removes.
	Name, Does string
	// Images are the last parts of its image's repository, by which a workload is known as it, whatever its own name.
	Images []string
	// Also are accounts of kube-system by which it speaks with --use-service-account-credentials.
	Also []string
}

// Actors are the controllers that are known by their image. Under which account one speaks is read from the workload, because it is the installer's
// choice. Read in their sources and charts, 2026-11.
func Actors() []Actor {
	const nodes = "deletes the Nodes of machines that it ends or that are gone"
	return []Actor{
		{Name: "Karpenter", Does: "deletes Nodes, which begins their drain, and takes their finalizer when the machine has ended", Images: []string{"karpenter", "karpenter/controller", "karpenter-controller"}},
		{Name: "cluster autoscaler", Does: nodes, Images: []string{"cluster-autoscaler", "cluster-autoscaler-amd64", "ose-cluster-autoscaler"}},
		{
			Name: "cloud controller manager", Does: nodes, Also: []string{"node-controller"}, // ClientName of its node lifecycle controller (k8s.io/cloud-provider app/core.go)
			Images: []string{
				"cloud-controller-manager", "aws-cloud-controller-manager", "azure-cloud-controller-manager", "openstack-cloud-controller-manager", "hcloud-cloud-controller-manager",
				"digitalocean-cloud-controller-manager", "cloud-provider-equinix-metal", "linode-cloud-controller-manager", "cloud-provider-vsphere/cpi/release/manager", "cloud-pv-vsphere",
			},
		},
		{Name: "machine API of OpenShift", Does: nodes, Images: []string{"machine-api-controllers", "machine-api-operator"}},
		{Name: "Cluster API", Does: nodes, Images: []string{"cluster-api-controller"}},
		{Name: "self node remediation", Does: "sets the out-of-service taint, or deletes Nodes", Images: []string{"self-node-remediation-operator"}},
		{Name: "fence agents remediation", Does: "sets the out-of-service taint, or deletes pods by force", Images: []string{"fence-agents-remediation-operator"}},
	}
}

// removers are the actors that run in the cluster, by the user that each speaks as.
func removers(s *Snapshot) (users []string, who map[string]string) {
	who = map[string]string{}
	look := func(namespace, name string, pod *corev1.PodSpec) {
		for _, actor := range Actors() {
			for _, c := range pod.Containers {
				if !slices.ContainsFunc(actor.Images, func(image string) bool { return isImage(c.Image, image) }) {
					continue
				}
				account := func(namespace, name string) {
					who["system:serviceaccount:"+namespace+":"+name] = fmt.Sprintf("%s (%s/%s) %s", actor.Name, namespace, name, actor.Does)
				}
				account(namespace, cmp.Or(pod.ServiceAccountName, "default"))
				if slices.Contains(append(c.Command, c.Args...), "--use-service-account-credentials=true") {
					for _, other := range actor.Also {
						account("kube-system", other)
					}
				}
			}
		}
	}
	for i := range s.Deployments {
		d := &s.Deployments[i]
		look(d.Namespace, d.Name, &d.Spec.Template.Spec)
	}
	for i := range s.DaemonSets {
		d := &s.DaemonSets[i]
		look(d.Namespace, d.Name, &d.Spec.Template.Spec)
	}
	for user := range who {
		users = append(users, user)
	}
	slices.Sort(users)
	return users, who
}

// isImage says whether a reference is of a repository that ends so, whatever registry, tag and digest it has.
func isImage(reference, ending string) bool {
	reference, _, _ = strings.Cut(reference, "@")
	if i := strings.LastIndex(reference, ":"); i > strings.LastIndex(reference, "/") {
		reference = reference[:i]
	}
	return reference == ending || strings.HasSuffix(reference, "/"+ending)
}

// removingControllers: what removes nodes by itself is named in the policies, or will be stopped by them.
func removingControllers(s *Snapshot) []Finding {
	users, who := removers(s)
	removal := policy.InForce(s.PodPolicies).RemovalOfAll()
	allowed := removal.ActorsOfAll()
	missing := slices.DeleteFunc(slices.Clone(users), func(user string) bool { return slices.Contains(allowed, user) })
	if len(missing) == 0 {
		return nil
	}
	var each []string
	for _, user := range missing {
		each = append(each, who[user])
	}
	f := Finding{
		Severity: Note, About: strings.Join(missing, ", "),
		Message: strings.Join(each, "; ") + ". A policy with a removal section judges that, and while the webhook is away it is refused, unless every such policy names the user",
		Remedy:  "name it in the removal section of every policy that denies or warns, where you trust its word that the machine is gone",
		Actors:  missing,
	}
	switch {
	case !removal.Guards():
	case removal.ForceDelete == v1alpha1.RemovalDeny:
		f.Severity = Warning
		f.Message = strings.Join(each, "; ") + ". That is refused where protected pods are still bound to the node, and always while the webhook is away: not every policy names the user"
	}
	return []Finding{f}
}

// cloudActors: who removes Nodes from outside, where the control plane is somebody else's.
func cloudActors(s *Snapshot) []Finding {
	removal := policy.InForce(s.PodPolicies).RemovalOfAll()
	if !isDistribution(s, EKS, GKE, GKEAutopilot, AKS) || removal.Guards() && len(removal.ActorsOfAll()) > 0 {
		return nil
	}
	is, _ := distributionOf(s)
	f := Finding{
		Severity: Note, About: "controllers of " + string(is), Message: fmt.Sprintf("%s deletes the Nodes of machines that are gone from its own control plane, where no object tells under which name", is),
		Remedy: "find it in the API server's audit log (verb delete, resource nodes), and name it in allowedActors before a policy denies",
	}
	if removal.ForceDelete == v1alpha1.RemovalDeny {
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
			if !slices.Contains(append(c.Command, c.Args...), "--disable-force-detach-on-timeout=true") && !slices.Contains(append(c.Command, c.Args...), "--disable-force-detach-on-timeout") {
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
