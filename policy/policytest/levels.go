package policytest

import (
	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// Level is what policies with one action on an unsafe removal give together.
func Level(name string, action v1alpha1.RemovalAction, change ...func(*policy.Removal)) policy.Removal {
	p := policy.Removal{Names: []string{name}, ForceDelete: action}
	for _, c := range change {
		c(&p)
	}
	return p
}

// AllPods are protected by the level.
func AllPods(p *policy.Removal) { p.Protect.All = true }

// Allowing these users whatever the level would refuse.
func Allowing(actors ...string) func(*policy.Removal) {
	return func(p *policy.Removal) { p.AllowedActors = actors }
}
