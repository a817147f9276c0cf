package plan_test

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// wantNumber reads a value that is a number, and max as the greatest.
func wantNumber(t *rapid.T, text string) int64 {
	if text == "max" {
		return 1<<63 - 1
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%q is no number", text)
	}
	return n
}

// TestPropertyProtectionBounded: what Podgrace protects below a group is never more than the group has, a pod's is never more than
// its request, and all together never more than the policy's part of what is there.
func TestPropertyProtectionBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCase(t)
		tree := c.build()
		sums, have := map[string]int64{}, map[string]int64{}
		var top int64
		for _, g := range tree.Groups {
			for _, file := range []string{"memory.min", "memory.low"} {
				v, ok := g.Files[file]
				if !ok || v.Owner != plan.Nobody {
					continue
				}
				n := wantNumber(t, v.Want)
				have[g.Path+" "+file] = n
				if g.Level == plan.LevelKubepods {
					top += n
				} else {
					sums[path.Dir(g.Path)+" "+file] += n
				}
			}
		}
		for key, sum := range sums {
			if sum > have[key] {
				t.Fatalf("%s has %d, those below %d\n%s", key, have[key], sum, render(tree))
			}
		}
		if top > c.node.Capacity.Memory().Value() {
			t.Fatalf("%d are protected of %s\n%s", top, c.node.Capacity.Memory(), render(tree))
		}
	})
}

// TestPropertyOrderOfPods: the plan is the same whatever the order of the pods, and Build does not change its input.
func TestPropertyOrderOfPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCase(t)
		var before []*corev1.Pod
		for _, p := range c.pods {
			before = append(before, p.DeepCopy())
		}
		want := c.build()
		if diff := cmp.Diff(before, c.pods); diff != "" {
			t.Fatalf("the pods were changed (-before +after):\n%s", diff)
		}
		c.pods = rapid.Permutation(c.pods).Draw(t, "permutation")
		if diff := cmp.Diff(want, c.build()); diff != "" {
			t.Fatalf("another order, another plan (-one +other):\n%s", diff)
		}
	})
}

// TestPropertyPodPaths: the pods' cgroups are known without a plan as they are planned, whatever the policy says.
func TestPropertyPodPaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCase(t)
		want := map[types.UID]string{}
		for _, g := range c.build().Groups {
			if g.Level == plan.LevelPod {
				want[g.UID] = g.Path
			}
		}
		if diff := cmp.Diff(want, plan.PodPaths(c.node, c.pods)); diff != "" {
			t.Fatalf("-planned +known:\n%s", diff)
		}
	})
}

// TestPropertyOwners: every file and process has the owner of a planned rule of the table.
func TestPropertyOwners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCase(t)
		tree := c.build()
		check := func(file string, level plan.Level, owner plan.Owner) {
			found := slices.ContainsFunc(plan.Ownership, func(r plan.Rule) bool {
				match, err := path.Match(r.File, file)
				return err == nil && match && r.Planned && r.Level == level && r.Owner == owner &&
					(c.node.Version == 0 || r.Version == 0 || r.Version == c.node.Version)
			})
			if !found {
				t.Fatalf("%s at %s with owner %s is in no rule", file, level, owner)
			}
		}
		for _, g := range tree.Groups {
			for file, v := range g.Files {
				check(file, g.Level, v.Owner)
			}
		}
		for _, p := range tree.Processes {
			check("oom_score_adj", plan.LevelContainer, p.Owner)
		}
	})
}

// TestPropertyTree: parents come before their children, paths are plain and each there once, containers below their pods.
func TestPropertyTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawCase(t).build()
		levels := map[string]plan.Level{}
		for _, g := range tree.Groups {
			if g.Path != path.Clean(g.Path) || !strings.HasPrefix(g.Path, "/") {
				t.Fatalf("path %q", g.Path)
			}
			if levels[g.Path] != "" {
				t.Fatalf("%s is there twice", g.Path)
			}
			levels[g.Path] = g.Level
			above := levels[path.Dir(g.Path)]
			ok := g.Level == plan.LevelKubepods || g.Level == plan.LevelReserved && above != plan.LevelKubepods || g.Level == plan.LevelQOS && above == plan.LevelKubepods || g.Level == plan.LevelContainer && above == plan.LevelPod ||
				g.Level == plan.LevelPod && (above == plan.LevelKubepods) == (g.QOS == corev1.PodQOSGuaranteed) && above != ""
			if !ok {
				t.Fatalf("%s of level %s is below %q", g.Path, g.Level, above)
			}
		}
	})
}

// TestPropertyOOMScore: the classes never overlap; by priority, no Burstable pod of a higher one comes before one of a lower; and a
// contract never makes a pod's end later.
func TestPropertyOOMScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCase(t)
		tree := c.build()
		class, pods := map[string]corev1.PodQOSClass{}, map[string]*corev1.Pod{}
		for _, g := range tree.Groups {
			class[g.Path] = g.QOS
		}
		for _, p := range c.pods {
			pods[p.Name] = p
		}
		byPriority := c.policy != nil && c.policy.OOM != nil && c.policy.OOM.Order == v1alpha1.OOMOrderPriority
		var burstable []plan.Process
		for _, p := range tree.Processes {
			switch qos := class[p.Path]; {
			case qos == corev1.PodQOSGuaranteed || pods[p.Pod.Name].Spec.PriorityClassName != "":
				requireScore(t, p, -997, -997)
			case qos == corev1.PodQOSBestEffort:
				requireScore(t, p, 1000, 1000)
			default:
				requireScore(t, p, 3, 999)
				burstable = append(burstable, p)
			}
		}
		for _, x := range burstable {
			for _, y := range burstable {
				if byPriority && *pods[x.Pod.Name].Spec.Priority > *pods[y.Pod.Name].Spec.Priority && x.OOMScoreAdj >= y.OOMScoreAdj {
					t.Fatalf("%+v has a higher priority than %+v", x, y)
				}
			}
		}
		for _, p := range c.pods {
			p.Annotations = nil
		}
		for i, p := range c.build().Processes {
			if tree.Processes[i].OOMScoreAdj < p.OOMScoreAdj {
				t.Fatalf("the contract gained: %+v instead of %+v", tree.Processes[i], p)
			}
		}
	})
}

func requireScore(t *rapid.T, p plan.Process, low, high int) {
	if p.OOMScoreAdj < low || p.OOMScoreAdj > high {
		t.Fatalf("%+v is not in [%d,%d]", p, low, high)
	}
}
