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
	made  when
	run   func(*Snapshot) []Finding
	// looks says what it looks at, in Markdown: docs/doctor.md is made of it.
	looks string
}

// when a check is made.
type when int

const (
	// always: also before an installation.
	always when = iota
	// installed: it is about an installation, and not made before there is one.
	installed
	// deployed: it is about the webhook's Deployment, and can say nothing where that is gone, which webhook-pods tells.
	deployed
)

// checks in their order. Their ids are what others rely on.
func checks() []check {
	return []check{
		{"kubernetes-version", []Source{Version}, always, kubernetesVersion, "the API server is of Kubernetes 1.33 to 1.36; a newer one is a note"},
		{"kubelet-skew", []Source{Version, Nodes}, always, kubeletSkew, "no kubelet is newer than the API server, too old for it, or older than 1.33"},
		{"openshift", []Source{APIs, Nodes, DaemonSets}, always, openshift, "on OpenShift, the node enforcer has SecurityContextConstraints and an SELinux type"},
		{"autopilot", []Source{APIs, Nodes, DaemonSets}, always, autopilot, "on GKE Autopilot, no node enforcer is installed"},
		{"nodes-without-enforcer", []Source{Nodes}, always, nodesWithoutEnforcer, "which nodes are no Linux machine (Windows, EKS Fargate, virtual-kubelet), so that no node enforcer is there"},
		{"architectures", []Source{Nodes}, always, architectures, "the nodes that are to run Podgrace are all amd64, for which images are built as they come"},
		{"node-folders", []Source{Nodes, DaemonSets}, always, nodeFolders, "the node enforcer has the folders that the nodes have (k0s and MicroK8s have the kubelet's elsewhere; CRI-O, k3s, RKE2, k0s, MicroK8s the runtime's)"},
		{"node-system", []Source{Nodes, DaemonSets}, always, nodeSystem, "what operating systems want otherwise: Talos without D-Bus, Bottlerocket, Flatcar and Fedora CoreOS with SELinux"},
		{"kubelet-configuration", []Source{Kubelets, Nodes, PodPolicies, DaemonSets}, always, kubeletConfiguration, "with `--kubelet-config`: the cgroup driver, cgroups of pods, cgroup v1, MemoryQoS"},
		{"grace-periods", []Source{Nodes, NodePools, Deployments, PodPolicies}, always, gracePeriods, "who stops a node leaves pods the longest grace period that a policy gives: spot capacity by the nodes' labels, Karpenter's NodePools, the cluster-autoscaler, and with `--kubelet-config` the kubelet"},
		{"network-reach", []Source{Version, Nodes, Deployments, DaemonSets}, always, networkReach, "private clusters of GKE, whose firewall opens few ports, and EKS with an overlay network"},
		{"removing-controllers", []Source{Deployments, DaemonSets, PodPolicies}, always, removingControllers, "who removes Nodes by himself and is refused without an allowance (Karpenter, cloud controllers, OpenShift's machine API), by the account that he has here, and whether every policy that denies or warns names him in `allowedActors`. It looks at Deployments and DaemonSets: not at StatefulSets, static pods and what runs outside of the cluster"},
		{"cloud-actors", []Source{Version, Nodes, PodPolicies}, always, cloudActors, "on EKS, GKE and AKS, the same of the provider's own, whose name no object tells, so that of GKE and AKS there is always something to be said"},
		{"controller-manager", []Source{ControllerManagers}, always, controllerManager, "whether kube-controller-manager takes volumes of silent nodes away by force, where its pod can be seen"},
		{"out-of-service", []Source{Nodes}, always, outOfService, "no node is ready and has the out-of-service taint"},
		{"pod-security", []Source{Namespace, DaemonSets, Deployments}, installed, podSecurity, "the Pod Security levels of Podgrace's namespaces admit what is installed there"},
		{"leftovers", []Source{Namespace, Deployments, Mutating, Validating, AdmissionPolicies}, always, leftovers, "no webhook configuration and no ValidatingAdmissionPolicy is left that nobody serves, as after `kubectl delete namespace`"},
		{"node-leftovers", []Source{Nodes, DaemonSets}, always, nodeLeftovers, "no Node has the taint or the conditions of a node enforcer that is gone"},
		{"two-installations", []Source{Deployments, Mutating, Validating}, always, twoInstallations, "there is one Podgrace"},
		{otherNamespace, []Source{Mutating, Validating}, installed, elsewhere, "the webhook configurations call the namespace that was named by `-n`; else nothing more is looked at"},
		{"definitions", []Source{CRDs, Deployments}, installed, definitions, "the CustomResourceDefinitions are there, are served, and have the fields that this `podgrace` knows; those of the fencer and the volume lock only where these are installed"},
		{"webhook-pods", []Source{Deployments, Pods, Nodes}, installed, webhookPods, "replicas are available, more than one, on more than one node"},
		{"fencer", []Source{Deployments}, installed, fencer, "the fencer runs, if it is installed"},
		{"volume-lock", []Source{Deployments, VolumeLocks}, always, volumeLock, "the volume lock runs, if it is installed, or if nodes hold volumes, and gates the drivers of these"},
		{"volume-lock-drivers", []Source{Deployments, CSIDrivers, VolumeAttachments, VolumeLocks}, installed, volumeLockDrivers, "each driver that the volume lock gates has a CSIDriver that says `attachRequired` and was adopted (annotation `podgrace.dev/gated: Adopted/UID`, with its own UID), no adoption of one was interrupted, and it has no attacher of its own, by the finalizers of its VolumeAttachments and by Deployments that run external-attacher for it (not StatefulSets, and what runs outside of the cluster)"},
		{"disruption-budget", []Source{Deployments, Budgets}, deployed, disruptionBudget, "the webhook's PodDisruptionBudget is there"},
		{"versions", []Source{Deployments, DaemonSets}, deployed, versions, "webhook, node enforcer and this `podgrace` are of one version, by their tags"},
		{"node-enforcer", []Source{DaemonSets, Nodes}, installed, nodeEnforcer, "it is ready on the nodes that it selects, selects some, and is in one namespace alone (an earlier version had it in Podgrace's own)"},
		{"enforced", []Source{Nodes}, installed, enforced, "no node has the condition `PodgraceEnforced` with False for another reason than `ObserveOnly`: drift, or policies that a read-only node enforcer (`nodeEnforcer.mode=Observe`) does not carry out; and its message names no parameter of the kernel that is not as the kubelet sets it"},
		{"critical-quota", []Source{Version, Nodes, Quotas}, installed, criticalQuota, "no ResourceQuota of Podgrace's namespaces is used up, and on GKE each has one that names its critical class"},
		{"limit-range", []Source{LimitRanges, Deployments, DaemonSets}, installed, limitRange, "no LimitRange of Podgrace's namespaces refuses its containers or pods, or limits their CPU"},
		{"webhook-configurations", []Source{Mutating, Validating}, installed, webhookConfigurations, "every webhook is there, and calls the same service for the same rules, objects, namespaces and match conditions, with the failurePolicy, as this version ships them; what values of the chart change (excludedNamespaces, limits.failurePolicy, timeouts) is known"},
		{"timeouts", []Source{Mutating, Validating}, installed, timeouts, "the API server waits for the webhooks of a configuration equally long, as the chart has it (`webhook.timeoutSeconds`), and for more than 2 s and at most 10"},
		{"ca-bundle", []Source{Mutating, Validating}, installed, caBundle, "each has a CA, which goes on for a week"},
		{"admissions-enforcer", []Source{Nodes, Mutating, Validating}, installed, admissionsEnforcer, "on AKS, the annotation is there that keeps AKS out of them"},
		{"admission-policies", []Source{Deployments, AdmissionPolicies, AdmissionBindings}, installed, admissionPolicies, "the ValidatingAdmissionPolicies are there (those about fences too, and where the volume lock is installed its own), bound with Deny and for all, and for what and with what they judge is as this version ships it"},
		{"foreign-webhooks", []Source{Mutating, Validating, Namespace}, installed, foreignWebhooks, "no other webhook that fails closed is asked about pods of Podgrace's namespace; one with match conditions is a note, since they are not evaluated"},
		{"mutation-order", []Source{Mutating}, installed, mutationOrder, "no other webhook changes pods after Podgrace was asked about them for the last time, by the names of the configurations and their `reinvocationPolicy`; whether its selectors and match conditions leave pods out is not looked at"},
		{"leader", []Source{Leases, Deployments}, deployed, leader, "a replica leads, and has renewed its lease within a minute"},
		{"policies", []Source{PodPolicies}, installed, policies, "each PodPolicy is in force, by its status, and its limits do not wait for more than 5 minutes to be compiled for the API server"},
		{"node-policies", []Source{NodePolicies}, installed, nodePolicies, "each NodePolicy can be read whole; it has no status that would say so"},
		{"priority-classes", []Source{PodPolicies, PriorityClasses}, always, priorityClasses, "the PriorityClasses that policies name exist"},
		{"records", []Source{PodPolicies, Records}, installed, records, "what pods ask of their nodes (annotation `podgrace.dev/enforcement`) is what a PodPolicy gives, whichever; what a policy gave before it changed is a note"},
		{"guard", []Source{PodPolicies, Roles, RoleBindings}, installed, guardState, "policies are in force, which they are once the API server got an answer from the webhook; nobody has switched off what fails closed"},
		{"closed-limits", []Source{Validating, PodPolicies, Roles}, installed, closedLimits, "limits that are to fail closed (`limits.failurePolicy=Fail`) are armed if there is a policy"},
		{"webhook-calls", []Source{Metrics}, installed, webhookCalls, "no call of the webhook failed since the API server that answers started"},
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
	if found := elsewhere(s); len(found) > 0 {
		// In the wrong namespace all else looks as if it were gone.
		r.Cluster.Installed = false
		r.found(otherNamespace, found)
	} else {
		for _, c := range checks() {
			r.make(c, s)
		}
	}
	r.Findings = sorted(r.Findings)
	r.Summary = Summary{
		Errors: r.count(Error), Warnings: r.count(Warning), Notes: r.count(Note), NotLooked: len(r.NotLooked), Fine: len(r.Fine),
	}
	return r
}

// make makes a check, if it can be made.
func (r *Report) make(c check, s *Snapshot) {
	if c.made != always && !r.Cluster.Installed {
		// Whether it is installed may be what could not be read.
		if source := s.firstUnread(Deployments, Validating, Mutating); source != "" {
			r.NotLooked = append(r.NotLooked, NotLooked{c.id, source, s.Unread[source]})
		}
		return
	}
	switch source := s.firstUnread(c.needs...); {
	case source == "" && c.made == deployed && s.webhook() == nil:
		r.NotLooked = append(r.NotLooked, NotLooked{c.id, Deployments, "the Deployment " + webhookName + " is not there"})
	case source == "":
		r.found(c.id, c.run(s))
	case s.Unread[source] == NotAsked:
		r.NotAsked = append(r.NotAsked, c.id)
	default:
		r.NotLooked = append(r.NotLooked, NotLooked{c.id, source, s.Unread[source]})
	}
}

// found keeps what a check has found.
func (r *Report) found(id string, all []Finding) {
	if len(all) == 0 {
		r.Fine = append(r.Fine, id)
	}
	for _, f := range all {
		f.Check = id
		r.Findings = append(r.Findings, f)
	}
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

// Fails reports whether there is a finding as severe as this, or more, or something that could not be looked at.
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
