package controllers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// The resources of the group podgrace.dev on which the match conditions of the webhooks, and the half-done policy, check the verb ArmingVerb for
// the account InForceAccount in Podgrace's namespace (deploy/webhook/configurations.yaml, policies.yaml). No such objects exist.
const (
	// ResourceAdmissions: pods, workloads and PodGroups are judged.
	ResourceAdmissions = "admissions"
	// ResourceJudgedRemovals: removals are judged, by entries that fail open.
	ResourceJudgedRemovals = "judgedremovals"
	// ResourceGuardedNamespaces, with the name of a namespace: removals of its pods fail closed.
	ResourceGuardedNamespaces = "guardednamespaces"
	// ResourceGuardedNodes: removals of Nodes and VolumeAttachments and out-of-service taints fail closed.
	ResourceGuardedNodes = "guardednodes"
	// ResourceClosedLimits: limits that fail closed are armed.
	ResourceClosedLimits = "closedlimits"

	// resourceVersions, with the name of a version of the other rules: the API server acts by these.
	resourceVersions = "inforceversions"
)

// maxNamespaces is how many names of namespaces the Role may have, each up to 63 bytes: an object in etcd has at most 1.5 MiB. With more guarded
// namespaces, all namespaces are guarded.
const maxNamespaces = 10_000

// Asked is what the API server asks the webhook about, and what it refuses if it gets no answer. The zero value is nothing.
type Asked struct {
	// Admissions: pods, workloads and PodGroups are judged. All of it fails open, unless Limits.
	Admissions bool
	// Removals are judged, and fail open.
	Removals bool
	// Guarded are the namespaces in which removals of pods fail closed.
	Guarded Closed
	// Nodes: removals of Nodes and VolumeAttachments and out-of-service taints fail closed.
	Nodes bool
	// Limits that fail closed are armed.
	Limits bool
}

// Closed is a set of namespaces.
type Closed struct {
	// All namespaces.
	All bool
	// Names of namespaces, sorted. Empty if All.
	Names []string
}

// AskedOf returns what the policies need in a cluster with these namespaces. A policy that denies guards the namespaces that it selects. A policy that warns
// guards none: it refuses nothing while the webhook is down.
func AskedOf(all policy.Policies, namespaces []policy.Namespace, exempt policy.Exempt) Asked {
	ofAll := all.RemovalOfAll()
	a := Asked{Admissions: len(all) > 0, Removals: ofAll.Guards(), Nodes: ofAll.Denies(), Limits: len(all) > 0}
	if !a.Nodes {
		return a
	}
	for _, ns := range namespaces {
		if all.Removal(ns, exempt).Denies() {
			a.Guarded.Names = append(a.Guarded.Names, ns.Name)
		}
	}
	slices.Sort(a.Guarded.Names)
	if len(a.Guarded.Names) > maxNamespaces {
		a.Guarded = Closed{All: true}
	}
	return a
}

// open returns what is left if nothing may fail closed: the guard is switched off.
func (a Asked) open() Asked { return Asked{Admissions: a.Admissions} }

// or returns what either asks for.
func (a Asked) or(b Asked) Asked {
	return Asked{
		Admissions: a.Admissions || b.Admissions, Removals: a.Removals || b.Removals, Guarded: a.Guarded.or(b.Guarded),
		Nodes: a.Nodes || b.Nodes, Limits: a.Limits || b.Limits,
	}
}

func (c Closed) or(other Closed) Closed {
	if c.All || other.All {
		return Closed{All: true}
	}
	names := slices.Concat(c.Names, other.Names)
	slices.Sort(names)
	return Closed{Names: slices.Compact(names)}
}

// covers reports whether b asks for nothing that a does not.
func (a Asked) covers(b Asked) bool { return a.equal(a.or(b)) }

func (a Asked) equal(b Asked) bool {
	return a.Admissions == b.Admissions && a.Removals == b.Removals && a.Nodes == b.Nodes && a.Limits == b.Limits &&
		a.Guarded.All == b.Guarded.All && slices.Equal(a.Guarded.Names, b.Guarded.Names)
}

// Rules returns the rules of the Role that say so, the last of which is their version. Nothing needs no rules.
func (a Asked) Rules() []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	add := func(asked bool, resource string, names ...string) {
		if asked {
			rules = append(rules, ruleOn(resource, names...))
		}
	}
	add(a.Admissions, ResourceAdmissions)
	add(a.Removals, ResourceJudgedRemovals)
	add(a.Guarded.All || len(a.Guarded.Names) > 0, ResourceGuardedNamespaces, a.Guarded.Names...)
	add(a.Nodes, ResourceGuardedNodes)
	add(a.Limits, ResourceClosedLimits)
	if len(rules) > 0 {
		rules = append(rules, ruleOn(resourceVersions, a.version()))
	}
	return rules
}

// version names what is asked.
func (a Asked) version() string {
	sum := sha256.Sum256(fmt.Append(nil, a))
	return hex.EncodeToString(sum[:16])
}

func ruleOn(resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{resource}, Verbs: []string{ArmingVerb}, ResourceNames: names}
}

// AskedBy reads the rules of a Role. Rules of another shape than Rules writes ask for nothing.
func AskedBy(rules []rbacv1.PolicyRule) (a Asked) {
	for _, r := range rules {
		if !slices.Equal(r.APIGroups, []string{v1alpha1.GroupVersion.Group}) || !slices.Equal(r.Verbs, []string{ArmingVerb}) || len(r.Resources) != 1 {
			continue
		}
		switch r.Resources[0] {
		case ResourceAdmissions:
			a.Admissions = true
		case ResourceJudgedRemovals:
			a.Removals = true
		case ResourceGuardedNamespaces:
			a.Guarded = a.Guarded.or(Closed{All: len(r.ResourceNames) == 0, Names: r.ResourceNames})
		case ResourceGuardedNodes:
			a.Nodes = true
		case ResourceClosedLimits:
			a.Limits = true
		}
	}
	return a
}

// Allows reports whether the API server asks if a match condition checks the resource, with the name.
func (a Asked) Allows(resource, name string) bool {
	switch resource {
	case ResourceAdmissions:
		return a.Admissions
	case ResourceJudgedRemovals:
		return a.Removals
	case ResourceGuardedNamespaces:
		return a.Guarded.All || slices.Contains(a.Guarded.Names, name)
	case ResourceGuardedNodes:
		return a.Nodes
	case ResourceClosedLimits:
		return a.Limits
	}
	return false
}

// Closes reports whether anything fails closed for removals.
func (a Asked) Closes() bool { return a.Nodes || a.Guarded.All || len(a.Guarded.Names) > 0 }
