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
}

// checks in their order. Their ids are what others rely on.
func checks() []check {
	return []check{
		{"kubernetes-version", []Source{Version}, false, kubernetesVersion},
		{"kubelet-skew", []Source{Version, Nodes}, false, kubeletSkew},
		{"openshift", []Source{APIs, Nodes, DaemonSets}, false, openshift},
		{"autopilot", []Source{APIs, Nodes, DaemonSets}, false, autopilot},
		{"nodes-without-enforcer", []Source{Nodes}, false, nodesWithoutEnforcer},
		{"image-root", []Source{Nodes, DaemonSets}, false, imageRoot},
		{"node-system", []Source{Nodes, DaemonSets}, false, nodeSystem},
		{"kubelet-configuration", []Source{Kubelets, Nodes, PodPolicies, DaemonSets}, false, kubeletConfiguration},
		{"network-reach", []Source{Version, Nodes, Deployments, DaemonSets}, false, networkReach},
		{"removing-controllers", []Source{Deployments, DaemonSets, PodPolicies}, false, removingControllers},
		{"cloud-actors", []Source{Version, Nodes, PodPolicies}, false, cloudActors},
		{"controller-manager", []Source{ControllerManagers}, false, controllerManager},
		{"out-of-service", []Source{Nodes}, false, outOfService},
		{"pod-security", []Source{Namespace, DaemonSets, Deployments}, false, podSecurity},
		{"leftovers", []Source{Namespace, Deployments, Mutating, Validating, AdmissionPolicies}, false, leftovers},
		{"two-installations", []Source{Deployments, Mutating, Validating}, false, twoInstallations},
		{"definitions", []Source{CRDs}, true, definitions},
		{"webhook-pods", []Source{Deployments, Pods, Nodes}, true, webhookPods},
		{"disruption-budget", []Source{Deployments, Budgets}, true, disruptionBudget},
		{"versions", []Source{Deployments, DaemonSets}, true, versions},
		{"node-enforcer", []Source{DaemonSets, Nodes}, true, nodeEnforcer},
		{"enforced", []Source{Nodes}, true, enforced},
		{"critical-quota", []Source{Quotas}, true, criticalQuota},
		{"limit-range", []Source{LimitRanges, Deployments, DaemonSets}, true, limitRange},
		{"webhook-configurations", []Source{Mutating, Validating}, true, webhookConfigurations},
		{"ca-bundle", []Source{Mutating, Validating}, true, caBundle},
		{"admissions-enforcer", []Source{Nodes, Mutating, Validating}, true, admissionsEnforcer},
		{"admission-policies", []Source{AdmissionPolicies, AdmissionBindings}, true, admissionPolicies},
		{"foreign-webhooks", []Source{Mutating, Validating, Namespace}, true, foreignWebhooks},
		{"leader", []Source{Leases, Deployments}, true, leader},
		{"policies", []Source{PodPolicies}, true, policies},
		{"priority-classes", []Source{PodPolicies, PriorityClasses}, false, priorityClasses},
		{"guard", []Source{PodPolicies, RoleBindings}, true, guardState},
		{"webhook-calls", []Source{Metrics}, true, webhookCalls},
	}
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
