package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// set is a command of the Makefile that runs parts.
type set int

// The sets. Each part belongs to one.
const (
	setTest        set = iota // make test, and make check
	setCheck                  // make check: needs nothing but Go, boots nothing
	setIntegration            // make test-integration: servers on loopback
	setE2E                    // make test-e2e: nodes, machines and containers
	setAll                    // make test-all alone
)

func (s set) inCheck() bool { return s <= setCheck }

func (s set) String() string {
	return [...]string{"test", "check", "integration", "e2e", "all"}[s]
}

// part is a run of go test in one module, or a command.
type part struct {
	name, what string
	set        set
	dir        string // the module's folder in the repository
	packages   []string
	flags      []string // of go test
	command    []string // instead of go test; it counts as one test
	after      []string // parts that must pass before this one starts
	shares     string   // what the machine has only one of
	// cores is how many cores the part keeps busy on average, and minutes how long it takes in the gate, alone on two cores with warm
	// caches. The product of both is its share of the budget (TestBudget).
	cores, minutes float64
	// moved are tests that run only in the set all, each with what finds its faults in the gate.
	moved []moved
}

// moved is a test or subtest that left the gate, because the tests of foundBy in the gate find the same faults: "nodeenforcer/plan
// TestGolden". Other is for what is not a test.
type moved struct {
	test    string
	foundBy []string
	other   string
}

// live are the flags of parts that start servers. They are never cached, and packages run one after the other, so that their
// control planes don't compete for the cores.
var live = []string{"-count=1", "-p=1"}

// noVet leaves vet to the part of that name. go test runs some of its analyzers by default, which takes minutes if nothing is cached.
var noVet = []string{"-vet=off"}

const (
	controlPlane = "Kubernetes' programs"
	nodePrograms = "Kubernetes' node programs"
	// hostNode is the one kubelet that a machine can have (cluster.StartKubelet).
	hostNode = "the host's kubelet"
	// wholeNode is a node with its own kubelet and system, in QEMU or in Docker. Two of them beside each other starve on a slow machine:
	// the control plane of one did not answer for 75 s.
	wholeNode = "the cores of a whole node"
)

// flagsFor are the flags of go test.
func (p part) flagsFor(o options) []string {
	flags := append([]string{"-timeout=60m"}, p.flags...)
	if o.race {
		flags = append(flags, "-race")
	}
	if o.shuffle {
		flags = append(flags, "-shuffle=on")
	}
	if !o.everything && len(p.moved) > 0 {
		flags = append(flags, "-skip="+p.skip())
	}
	return flags
}

// skip is the pattern of the tests that left the gate.
func (p part) skip() string {
	patterns := make([]string, 0, len(p.moved))
	for _, m := range p.moved {
		patterns = append(patterns, exactly(m.test))
	}
	return strings.Join(patterns, "|")
}

// exactly is the pattern of go test for one test or subtest.
func exactly(test string) string {
	names := strings.Split(test, "/")
	for i, name := range names {
		names[i] = "^" + name + "$"
	}
	return strings.Join(names, "/")
}

// choose returns the parts of the named sets and parts, with the parts that they need.
func choose(all []part, names []string) ([]part, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		found := false
		for _, p := range all {
			if p.is(name) {
				found, wanted[p.name] = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("no set or part %q; -list lists the parts", name)
		}
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("name a set (test, check, integration, e2e, gate, all) or a part")
	}
	for _, p := range slices.Backward(all) { // a part stands after what it needs
		for _, name := range p.after {
			wanted[name] = wanted[name] || wanted[p.name]
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p part) bool { return !wanted[p.name] }), nil
}

// is reports whether a name on the command line means the part.
func (p part) is(name string) bool {
	switch name {
	case p.name, p.set.String(), "all":
		return true
	case "check":
		return p.set.inCheck()
	case "gate":
		return p.set != setAll
	}
	return false
}

func (p part) coreMinutes() float64 { return p.cores * p.minutes }

// printParts lists the parts and what left the gate.
func printParts(out io.Writer, parts []part) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PART\tSET\tMINUTES\tCORES\tCORE-MIN\tWHAT")
	sum := 0.0
	for _, p := range parts {
		if p.set != setAll {
			sum += p.coreMinutes()
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%.1f\t%s\n", p.name, p.set, p.minutes, p.cores, p.coreMinutes(), p.what)
	}
	fmt.Fprintf(w, "gate\t\t\t\t%.1f\tat most %d\n", sum, budget)
	_ = w.Flush() // what out reports, the shell shows
	fmt.Fprintln(out, "\nLEFT THE GATE, RUNS IN make test-all")
	for _, p := range parts {
		for _, m := range p.moved {
			fmt.Fprintf(out, "%s: %s\n    in the gate: %s\n", p.name, m.test, strings.Trim(strings.Join(m.foundBy, ", ")+"; "+m.other, "; "))
		}
		if p.set == setAll {
			fmt.Fprintf(out, "%s: the whole part (%s)\n", p.name, p.what)
		}
	}
}
