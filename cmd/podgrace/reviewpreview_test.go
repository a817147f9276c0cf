package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/program/version"
)

// fakeNotes is the file in which the fake notes each start: its arguments, and the kind and name of each document of its stdin.
const fakeNotes = "PODGRACE_TEST_PREVIEW_NOTES"

// answer previews what is on stdin, or the pod that is named: each has the outcome of its name.
func answer() {
	report := scheduling.Report{APIVersion: "podgrace.dev/v1alpha1", Kind: "SchedulingPreview", Scheduler: "a fake"}
	note := strings.Join(os.Args[1:], " ") + " <"
	about := func(line int, kind, namespace, name string) {
		note += " " + kind + "/" + name
		v := scheduling.Preview{Resource: manifest.Resource{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name}, Source: manifest.Source{File: "-", Line: line}, Nodes: 2}
		full := []scheduling.Group{{Reasons: []string{"Insufficient cpu"}, Nodes: []string{"n1", "n2"}}}
		outcome, _, _ := strings.Cut(name, "-")
		switch outcome {
		case "fits":
			v.Outcome, v.Fit = scheduling.Fits, 2
		case "nowhere":
			v.Outcome, v.Groups = scheduling.Nowhere, full
		case "preempts":
			v.Outcome, v.Groups = scheduling.Preempts, full
			v.Preemption = &scheduling.Preemption{Candidates: []scheduling.Candidate{{Node: "n1", GoneWithin: 30, Victims: []scheduling.Victim{{Namespace: "shop", Name: "a"}}}}}
		case "other":
			v.Outcome, v.Why = scheduling.NotKnown, "the scheduler x decides"
		case "refused":
			v.Outcome, v.Why = scheduling.Refused, "no"
		case "gated":
			v.Outcome, v.Why = scheduling.Gated, "a gate"
		default:
			return
		}
		report.Previews = append(report.Previews, v)
	}
	lines := bufio.NewScanner(os.Stdin)
	for line := 1; lines.Scan(); line++ {
		var o struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			panic(err)
		}
		about(line, o.Kind, o.Metadata.Namespace, o.Metadata.Name)
	}
	if name := os.Args[len(os.Args)-1]; !strings.HasPrefix(name, "-") {
		about(0, "Pod", "shop", name)
	}
	notes, err := os.OpenFile(os.Getenv(fakeNotes), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(notes, note)
	fmt.Fprintln(os.Stderr, "a remark")
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		panic(err)
	}
	os.Exit(4)
}

func pods(names ...string) string {
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: shop}\nspec: {containers: [{name: c, image: web}]}\n", name)
	}
	return text.String()
}

const (
	aNode   = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
	refusal = "apiVersion: v1\nkind: Pod\nmetadata: {name: nowhere-system, namespace: shop}\nspec: {priorityClassName: system-node-critical, containers: [{name: c, image: web}]}\n"
)

// outcomes are what a report says of each pod.
func outcomes(t *testing.T, out string) map[string]string {
	t.Helper()
	var r review.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	said := map[string]string{}
	for _, result := range r.Results {
		says := string(result.Decision)
		if result.Pending != nil {
			says += " " + result.Pending.Reason + ": " + result.Pending.Message
		}
		said[result.Resource.Name] = strings.Join(append([]string{says}, result.Unknown...), "; ")
	}
	return said
}

func TestReviewPreviews(t *testing.T) {
	kubeconfig(t) // is there, and is not to be used
	both := installed(t, "podgrace", version.Preview)
	inTree(t)
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("all.yaml", pods("fits-a", "nowhere-a", "preempts-a", "other-a", "refused-a", "gated-a", "none")+"---\n"+refusal+"---\napiVersion: v1\nkind: ServiceList\nitems: []\n")
	write("node.yaml", aNode)
	write("typo.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: nowhere-typo, namespace: shop}\nspec:\n  containers:\n  - {name: c, imagge: web}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: fits-b, namespace: shop}\nspec: {containers: many}\n"+pods("nowhere-b"))
	const pending = "Allowed Unschedulable: would be pending: 0/2 nodes are available: 2 Insufficient cpu"
	mixed := map[string]string{
		"fits-a": "Allowed", "nowhere-a": pending, "gated-a": "Allowed", "nowhere-system": "Denied",
		"preempts-a": "Allowed NeedsPreemption: would be pending until others went: 0/2 nodes are available: 2 Insufficient cpu; on n1 1 pod would go, within 30 s (shop/a)",
		"other-a":    "Allowed; where it would be scheduled: the scheduler x decides", "refused-a": "Denied", "none": "Allowed; where it would be scheduled: its preview is missing",
	}
	const passed = "Pod/fits-a Pod/nowhere-a Pod/preempts-a Pod/other-a Pod/refused-a Pod/gated-a Pod/none"
	for name, test := range map[string]struct {
		args, stdin string
		code        int
		started     string
		said        map[string]string
	}{
		"a state": {
			"-f all.yaml --fail-on warn --state node.yaml --state cluster --policy policies --exclude a,b --render helm,kustomize", "", 1,
			"--exclude=a,b --policy=policies --render=helm --render=kustomize --state=node.yaml --state=cluster --output=json --filename=- < " + passed + " ServiceList/\n", mixed,
		},
		"stdin": {
			"-f - -n shop --fail-on never --state node.yaml", pods("nowhere-c"), 0,
			"--namespace=shop --state=node.yaml --output=json --filename=- < Pod/nowhere-c\n", map[string]string{"nowhere-c": pending},
		},
		"no state": {
			"-f node.yaml -f all.yaml --policy policies -f cluster --fail-on never", "", 0,
			"--policy=policies --output=json --filename=- --state=/dev/null < Node/n1 " + passed + " Namespace/shop PriorityClass/high ServiceList/\n", mixed,
		},
		"without what is wrong": {
			"-f typo.yaml --state node.yaml", "", 2,
			"--state=node.yaml --output=json --filename=- < Pod/nowhere-b\n", map[string]string{"nowhere-typo": "Allowed", "nowhere-b": pending},
		},
		"nobody asks":     {"-f all.yaml --state node.yaml --state cluster --policy policies --preview=false", "", 1, "", map[string]string{"nowhere-a": "Allowed"}},
		"no node":         {"-f all.yaml --policy policies --state cluster --fail-on never", "", 0, "", map[string]string{"nowhere-a": "Allowed"}},
		"all are refused": {"-f denied --policy policies --state cluster --state node.yaml", "", 1, "", map[string]string{"system": "Denied"}},
	} {
		t.Run(name, func(t *testing.T) {
			notes := t.TempDir() + "/notes"
			cmd := podgrace(t, both+"/podgrace", os.Getenv("PATH"), append([]string{"review", "--preview", "-o", "json"}, strings.Fields(test.args)...)...)
			cmd.Env, cmd.Stdin = append(cmd.Env, fakeDoes+"=answer", fakeNotes+"="+notes), strings.NewReader(test.stdin)
			if strings.Contains(test.args, "helm") {
				write("helm", "#!/bin/sh\n")
				if err := os.Chmod("helm", 0o700); err != nil {
					t.Fatal(err)
				}
				here, err := os.Getwd()
				if err != nil {
					t.Fatal(err)
				}
				cmd.Env = append(cmd.Env, "PATH="+here)
			}
			code, out, complaints := ran(t, cmd)
			if code != test.code || strings.Contains(complaints, "a remark\n") != (test.started != "") {
				t.Errorf("exit %d, want %d: %s", code, test.code, complaints)
			}
			started, err := os.ReadFile(notes)
			if string(started) != test.started || err != nil && test.started != "" {
				t.Errorf("started with %q, want %q (%v)", started, test.started, err)
			}
			said := outcomes(t, out)
			for pod, want := range test.said {
				if said[pod] != want {
					t.Errorf("%s: %q, want %q", pod, said[pod], want)
				}
			}
		})
	}
}

// That there is no node is said once, and fails where what is not known does.
func TestReviewWithoutNodes(t *testing.T) {
	both := installed(t, "podgrace", version.Preview)
	inTree(t)
	code, out, complaints := ran(t, podgrace(t, both+"/podgrace", "", strings.Fields("review -f deploy --preview --fail-on unknown"+whole)...))
	if code != 1 || strings.Count(out+complaints, "No Node is known") != 1 {
		t.Errorf("exit %d: %s%s", code, out, complaints)
	}
}

func TestReviewIsNotPreviewed(t *testing.T) {
	both, alone := installed(t, "podgrace", version.Preview), installed(t, "podgrace")
	inTree(t)
	for name, test := range map[string]struct {
		program, args, does string
		code                int
		out, complaints     string
	}{
		"the program is missing": {alone, "-f deploy --state nodes", "answer", 2, "", "podgrace: podgrace-preview is neither in "},
		"a removal":              {both, "-f deploy --operation delete", "answer", 2, "", "--preview goes with --operation create"},
		"a state of once":        {both, "-f deploy --state -", "answer", 2, "", "--preview reads policies and state once more, and - can be read only once"},
		"it fails":               {both, "-f deploy", "fail with 2", 2, `"kind": "ReviewReport"`, "podgrace: podgrace-preview gives no answer (exit code 2): a complaint; another\n"},
		"it can't read":          {both, "-f deploy", "fail with 1", 1, `"kind": "ReviewReport"`, "podgrace: podgrace-preview gives no answer (exit code 1): a complaint; another\n"},
		"it dies":                {both, "-f deploy", "die", 1, `"kind": "ReviewReport"`, "podgrace: run podgrace-preview: signal: killed\n"},
		"it prints another kind": {both, "-f deploy", "0", 1, `"kind": "ReviewReport"`, `read the preview: it is "" of ""`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile("node.yaml", []byte(aNode), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := podgrace(t, test.program+"/podgrace", "", append(strings.Fields("review --preview -o json --state node.yaml --state cluster"), strings.Fields(test.args)...)...)
			cmd.Env = append(cmd.Env, fakeDoes+"="+test.does, fakeNotes+"="+t.TempDir()+"/notes")
			code, out, complaints := ran(t, cmd)
			if code != test.code || !strings.Contains(out, test.out) || (test.out == "") != (out == "") || !strings.Contains(complaints, test.complaints) {
				t.Errorf("exit %d, want %d: %q, %q", code, test.code, out, complaints)
			}
		})
	}
}

// Where documents stand in a file says which of them an error is about.
func TestSound(t *testing.T) {
	for name, test := range map[string]struct {
		wrong []*manifest.Error
		want  []string
	}{
		"nothing":              {nil, []string{"a", "b", "c"}},
		"the first line":       {[]*manifest.Error{{File: "x", Line: 1}}, []string{"b", "c"}},
		"a line of a field":    {[]*manifest.Error{{File: "x", Line: 9}}, []string{"a", "c"}},
		"another file's":       {[]*manifest.Error{{File: "y", Line: 9}}, []string{"a", "b"}},
		"before any":           {[]*manifest.Error{{File: "y", Line: 0}}, []string{"a", "b", "c"}},
		"of what has no lines": {[]*manifest.Error{{File: "z", Line: 0}}, []string{"a", "b", "c"}},
	} {
		documents := []*manifest.Document{{File: "x", Line: 1, Name: "a"}, {File: "x", Line: 5, Name: "b"}, {File: "y", Line: 3, Name: "c"}}
		var got []string
		for _, d := range sound(documents, test.wrong) {
			got = append(got, d.Name)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
