package doctor

import (
	"slices"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Report is what was found. As JSON it is the DoctorReport.
type Report struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Cluster    Cluster `json:"cluster"`
	Summary    Summary `json:"summary"`
	// Findings, the most severe first.
	Findings []Finding `json:"findings"`
	// NotLooked are checks of which nothing is known, because something could not be read. They are not fine.
	NotLooked []NotLooked `json:"notLooked"`
	// Fine are the checks that found nothing.
	Fine []string `json:"fine"`
	// NotAsked are checks that look only if they are told to.
	NotAsked []string `json:"notAsked,omitempty"`
}

// Cluster is what it was found in.
type Cluster struct {
	// Version of the API server; empty: it could not be read.
	Version string `json:"version,omitempty"`
	// Distribution is a guess; empty: none.
	Distribution Distribution `json:"distribution,omitempty"`
	// Because is what it was guessed by.
	Because string `json:"because,omitempty"`
	// Nodes says how many have which operating system and container runtime, those of most nodes first.
	Nodes []NodeKind `json:"nodes"`
	// Namespace of Podgrace, and Installed: its Deployment, or its webhook configurations, are there.
	Namespace string `json:"namespace"`
	Installed bool   `json:"installed"`
	// Image of the webhook.
	Image string `json:"image,omitempty"`
}

// Summary counts.
type Summary struct {
	Errors    int `json:"errors"`
	Warnings  int `json:"warnings"`
	Notes     int `json:"notes"`
	NotLooked int `json:"notLooked"`
	Fine      int `json:"fine"`
}

// check is one look at a snapshot.
type check struct {
	id string
	// needs are the sources without which it can say nothing.
	needs []Source
	// installed: it is about an installation, and not made before there is one.
	installed bool
	run       func(*Snapshot) []Finding
	// looks says what it looks at, in Markdown: docs/doctor.md is made of it.
	looks string
}

// checks in their order. Their ids are what others rely on.
func checks() []check {
	return []check{
		{"kubernetes-version", []Source{Version}, false, kubernetesVersion, "the API server is of Kubernetes 1.33 to 1.36; a newer one is a note"},
		{"kubelet-skew", []Source{Version, Nodes}, false, kubeletSkew, "no kubelet is newer than the API server, too old for it, or older than 1.33"},
		{"openshift", []Source{APIs, Nodes, DaemonSets}, false, openshift, "on OpenShift, the node enforcer has SecurityContextConstraints and an SELinux type"},
		{"autopilot", []Source{APIs, Nodes, DaemonSets}, false, autopilot, "on GKE Autopilot, no node enforcer is asked for"},
		{"nodes-without-enforcer", []Source{Nodes}, false, nodesWithoutEnforcer, "which nodes are no Linux machine (Windows, EKS Fargate, virtual-kubelet), so that no node enforcer is there"},
		{"architectures", []Source{Nodes}, false, architectures, "the nodes that are to run Podgrace are all amd64, for which images are built as they come"},
		{"node-folders", []Source{Nodes, DaemonSets}, false, nodeFolders, "the node enforcer has the folders that the nodes have (k0s and MicroK8s have the kubelet's elsewhere; CRI-O, k3s, RKE2, k0s, MicroK8s the runtime's)"},
		{"node-system", []Source{Nodes, DaemonSets}, false, nodeSystem, "what operating systems want otherwise: Talos without D-Bus, Bottlerocket, Flatcar and Fedora CoreOS with SELinux"},
		{"kubelet-configuration", []Source{Kubelets, Nodes, PodPolicies, DaemonSets}, false, kubeletConfiguration, "with `--kubelet-config`: the cgroup driver, cgroups of pods, cgroup v1, the grace of a node's shutdown against the policies', MemoryQoS"},
		{"network-reach", []Source{Version, Nodes, Deployments, DaemonSets}, false, networkReach, "private clusters of GKE, whose firewall opens few ports, and EKS with an overlay network"},
		{"removing-controllers", []Source{Deployments, DaemonSets, PodPolicies}, false, removingControllers, "who removes Nodes by himself and is refused without an allowance (Karpenter, cloud controllers, OpenShift's machine API), by the account that he has here, and whether every policy that denies or warns names him in `allowedActors`"},
		{"cloud-actors", []Source{Version, Nodes, PodPolicies}, false, cloudActors, "on EKS, GKE and AKS, the same of the provider's own, whose name no object tells"},
		{"controller-manager", []Source{ControllerManagers}, false, controllerManager, "whether kube-controller-manager takes volumes of silent nodes away by force, where its pod can be seen"},
		{"out-of-service", []Source{Nodes}, false, outOfService, "no node is ready and has the out-of-service taint"},
		{"pod-security", []Source{Namespace, DaemonSets, Deployments}, false, podSecurity, "the Pod Security level of the namespace admits what is, or is to be, installed"},
		{"leftovers", []Source{Namespace, Deployments, Mutating, Validating, AdmissionPolicies}, false, leftovers, "no webhook configuration and no ValidatingAdmissionPolicy is left that nobody serves, as after `kubectl delete namespace`"},
		{"two-installations", []Source{Deployments, Mutating, Validating}, false, twoInstallations, "there is one Podgrace"},
		{"definitions", []Source{CRDs}, true, definitions, "the CustomResourceDefinitions are there, are served, and have the fields that this `podgrace` knows"},
		{"webhook-pods", []Source{Deployments, Pods, Nodes}, true, webhookPods, "replicas are available, more than one, on more than one node"},
		{"fencer", []Source{Deployments}, true, fencer, "the fencer runs, if it is installed"},
		{"disruption-budget", []Source{Deployments, Budgets}, true, disruptionBudget, "the webhook's PodDisruptionBudget is there"},
		{"versions", []Source{Deployments, DaemonSets}, true, versions, "webhook, node enforcer and this `podgrace` are of one version, by their tags"},
		{"node-enforcer", []Source{DaemonSets, Nodes}, true, nodeEnforcer, "it is ready on the nodes that it selects, and selects some"},
		{"enforced", []Source{Nodes}, true, enforced, "no node has the condition `PodgraceEnforced` with False"},
		{"critical-quota", []Source{Quotas}, true, criticalQuota, "no ResourceQuota of the namespace is used up, and on GKE one names the critical classes"},
		{"limit-range", []Source{LimitRanges, Deployments, DaemonSets}, true, limitRange, "no LimitRange of the namespace refuses Podgrace's containers, or limits their CPU"},
		{"webhook-configurations", []Source{Mutating, Validating}, true, webhookConfigurations, "every webhook is there, and calls the same service for the same rules, objects, namespaces and match conditions, with the failurePolicy, as this version ships them; what values of the chart change (excludedNamespaces, limits.failurePolicy, timeouts) is known"},
		{"ca-bundle", []Source{Mutating, Validating}, true, caBundle, "each has a CA, which goes on for a week"},
		{"admissions-enforcer", []Source{Nodes, Mutating, Validating}, true, admissionsEnforcer, "on AKS, the annotation is there that keeps AKS out of them"},
		{"admission-policies", []Source{AdmissionPolicies, AdmissionBindings}, true, admissionPolicies, "the ValidatingAdmissionPolicies are there, bound with Deny and for all, and for what and with what they judge is as this version ships it"},
		{"foreign-webhooks", []Source{Mutating, Validating, Namespace}, true, foreignWebhooks, "no other webhook that fails closed is asked about pods of Podgrace's namespace"},
		{"leader", []Source{Leases, Deployments}, true, leader, "a replica leads, and has renewed its lease within a minute"},
		{"policies", []Source{PodPolicies}, true, policies, "each PodPolicy is in force, by its status"},
		{"priority-classes", []Source{PodPolicies, PriorityClasses}, false, priorityClasses, "the PriorityClasses that policies name exist"},
		{"guard", []Source{PodPolicies, RoleBindings}, true, guardState, "the guard is armed if a policy needs it, which it is once the API server got an answer from the webhook; nobody has switched it off"},
		{"webhook-calls", []Source{Metrics}, true, webhookCalls, "no call of the webhook failed since the API server that answers started"},
	}
}

// Described is a check as the docs have it.
type Described struct {
	ID, Looks string
	Needs     []Source
}

// Describe returns all checks, in their order.
func Describe() (all []Described) {
	for _, c := range checks() {
		all = append(all, Described{c.id, c.looks, c.needs})
	}
	return all
}

// order is the place of a check.
func order(id string) int {
	return slices.IndexFunc(checks(), func(c check) bool { return c.id == id })
}

// Examine makes all checks. A check whose sources could not be read is not made, and counts as not looked.
func Examine(s *Snapshot) *Report {
	r := &Report{APIVersion: v1alpha1.GroupVersion.String(), Kind: "DoctorReport", Cluster: clusterOf(s), Findings: []Finding{}, NotLooked: []NotLooked{}, Fine: []string{}}
	for _, c := range checks() {
		if c.installed && !r.Cluster.Installed {
			// Whether it is installed may be what could not be read.
			if source := s.firstUnread(Deployments, Validating, Mutating); source != "" {
				r.NotLooked = append(r.NotLooked, NotLooked{c.id, source, s.Unread[source]})
			}
			continue
		}
		switch source := s.firstUnread(c.needs...); {
		case source == "":
		case s.Unread[source] == NotAsked:
			r.NotAsked = append(r.NotAsked, c.id)
			continue
		default:
			r.NotLooked = append(r.NotLooked, NotLooked{c.id, source, s.Unread[source]})
			continue
		}
		found := c.run(s)
		if len(found) == 0 {
			r.Fine = append(r.Fine, c.id)
		}
		for _, f := range found {
			f.Check = c.id
			r.Findings = append(r.Findings, f)
		}
	}
	r.Findings = sorted(r.Findings)
	r.Summary = Summary{
		Errors: r.count(Error), Warnings: r.count(Warning), Notes: r.count(Note), NotLooked: len(r.NotLooked), Fine: len(r.Fine),
	}
	return r
}

// NotAsked is why a source is unread that is read only if somebody asks for it.
const NotAsked = "not asked for"

func (r *Report) count(severity Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// Fails says whether there is a finding as severe as this, or more, or something that could not be looked at.
func (r *Report) Fails(from Severity) bool {
	bad := func(f Finding) bool {
		return slices.Index(Severities(), f.Severity) <= slices.Index(Severities(), from)
	}
	return slices.ContainsFunc(r.Findings, bad) || len(r.NotLooked) > 0
}

// clusterOf is what the checks were made in.
func clusterOf(s *Snapshot) Cluster {
	is, because := distributionOf(s)
	c := Cluster{
		Version: s.Server, Distribution: is, Because: because, Nodes: kindsOf(s.Nodes), Namespace: s.OwnNamespace,
		Installed: s.webhook() != nil || len(s.ownHooks()) > 0,
	}
	if d := s.webhook(); d != nil && len(d.Spec.Template.Spec.Containers) > 0 {
		c.Image = d.Spec.Template.Spec.Containers[0].Image
	}
	return c
}
