package scheduler

import (
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podgrace/podgrace/preview/scheduler/schedulertest"
)

// A configuration is read without a word, and its profiles are for the pods that name them.
func TestReadConfig(t *testing.T) {
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, args string) { t.Errorf("it logs %s", args) }, funcr.Options{}))
	c, err := ReadConfig(ctx, []byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
profiles:
- {schedulerName: a, plugins: {score: {enabled: [{name: PodTopologySpread, weight: 10}]}}}
- {schedulerName: b, percentageOfNodesToScore: 50, plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}}
extenders: [{urlPrefix: "http://127.0.0.1/", filterVerb: filter}]
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, c.SchedulerNames()); diff != "" || c.Extenders() != 1 {
		t.Errorf("%d extenders, %s", c.Extenders(), diff)
	}
	for name, want := range map[string]bool{"a": true, "b": true, "": false, corev1.DefaultSchedulerName: false, "c": false} {
		if c.Has(name) != want {
			t.Errorf("Has(%q): %t", name, !want)
		}
	}
	if !c.ScoresAll("a") || c.ScoresAll("b") {
		t.Errorf("all nodes are scored of a: %t, of b: %t", c.ScoresAll("a"), c.ScoresAll("b"))
	}
	in := Cluster{Nodes: []*corev1.Node{schedulertest.Node("n1", "A")}, Config: c}
	if _, err := New(ctx, in); err == nil {
		t.Error("a scheduler without a default profile")
	}
	for name, weight := range map[string]int64{"a": 10, "b": 2} {
		in.SchedulerName = name
		s, err := New(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.weights["PodTopologySpread"]; got != weight || s.Enabled("InterPodAffinity") != (name == "a") {
			t.Errorf("profile %s: weight %d, InterPodAffinity %t", name, got, s.Enabled("InterPodAffinity"))
		}
	}
}

// Without a configuration there is the default profile.
func TestNoConfig(t *testing.T) {
	var c *Config
	if !c.Has("") || !c.Has(corev1.DefaultSchedulerName) || c.Has("a") || c.Extenders() != 0 || c.ScoresAll("") {
		t.Errorf("%v", c.SchedulerNames())
	}
}
