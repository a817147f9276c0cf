package delta

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/internal/manifest"
)

func TestLines(t *testing.T) {
	fields := Fields(
		raw(`{"spec":{"terminationGracePeriodSeconds":30,"preemptionPolicy":"Never"},"metadata":{"annotations":{"a":"b"}}}`),
		raw(`{"spec":{"terminationGracePeriodSeconds":45,"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{}}]},`+
			`"metadata":{"annotations":{"a":"b","podgrace.dev/protected":"StatefulSet.apps/db","podgrace.dev/enforcement":"{\"oom\":{\"rank\":5}}"}}}`))
	want := []Line{
		{"+", "enforcement.oom.rank", "5"},
		{"+", "metadata.annotations[podgrace.dev/protected]", "StatefulSet.apps"},
		{"-", "preemptionPolicy", "Never"},
		{"~", "terminationGracePeriodSeconds", "30 → 45"},
		{"+", "topologySpread[zone]", "maxSkew 1, ScheduleAnyway"},
	}
	if diff := cmp.Diff(want, Lines(fields)); diff != "" {
		t.Error(diff)
	}
}

// Two StatefulSets differ in their names and selectors only, and are told as one.
func TestLikeness(t *testing.T) {
	pod := func(name, rank string) []Field {
		return Fields(raw(`{"metadata":{},"spec":{}}`), raw(`{"metadata":{"annotations":{"podgrace.dev/protected":"StatefulSet.apps/`+name+`","podgrace.dev/enforcement":"{\"oom\":{\"rank\":`+rank+`}}"}},`+
			`"spec":{"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"`+name+`"}}}]}}`))
	}
	if a, b := Likeness(pod("db", "5")), Likeness(pod("queue", "5")); a != b {
		t.Errorf("%q is not %q", a, b)
	}
	if a, b := Likeness(pod("db", "5")), Likeness(pod("db", "6")); a == b {
		t.Errorf("both are %q", a)
	}
}

func TestSubject(t *testing.T) {
	var objects []manifest.Resource
	for _, o := range [][3]string{{"Deployment", "shop", "a"}, {"Ingress", "shop", "b"}, {"Deployment", "web", ""}, {"Ingress", "", "d"}} {
		objects = append(objects, manifest.Resource{Kind: o[0], Namespace: o[1], Name: o[2]})
	}
	for most, want := range map[int][2]string{
		2: {"1 Deployment, 1 Ingress in shop", "a, b"}, 4: {"2 Deployments, 2 Ingresses in shop, web", "a, b, (unnamed), d"},
	} {
		if got := Subject(objects[:most]); got != want[0] {
			t.Errorf("%q, want %q", got, want[0])
		}
		if got := Names(objects[:most], most); got != want[1] {
			t.Errorf("%q, want %q", got, want[1])
		}
	}
	if got := Names(objects, 1); got != "a and 3 more" {
		t.Error(got)
	}
}
