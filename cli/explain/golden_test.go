package explain_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"gotest.tools/v3/golden"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/policy"
)

// screen is how many lines a usual pod may take.
const screen = 60

var now = time.Date(2026, 3, 14, 2, 26, 53, 0, time.UTC)

// situation is case.yaml of an archive: what is known besides the objects.
type situation struct {
	// Created: pod.yaml is as the API server has it; else as it arrives at the webhook, and it is reviewed first.
	Created bool
	User    string
	// NamespaceLabels; Unknown lists what could not be read: namespace, policies, classes, selectors, nodePolicy.
	NamespaceLabels map[string]string
	Unknown         []string
	Services        []map[string]string
	Owner           map[string]string
	Claims          map[string][]corev1.PersistentVolumeAccessMode
	Version         cgroupfile.Version
	Driver          plan.Driver
	Kubelet         *kubeletconfigv1beta1.KubeletConfiguration
	// Memory of the node; empty: no node is known.
	Memory string
	// Usage by the pod's name.
	Usage map[string]int64
	// Ready is what the guard asked. nil: it was not asked.
	Ready *bool
	// Preview is what the scheduler says; NotPreviewed, why it does not.
	Preview      *scheduling.Preview
	NotPreviewed string
	Width        int
}

// TestGolden explains the pod of each archive, and compares what is printed. The archives have case.yaml and pod.yaml, and may have
// policies.yaml, classes.yaml, nodepolicy.yaml and neighbours.yaml.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := txtar.Archive{Comment: archive.Comment}
			json := false
			for _, f := range archive.Files {
				if strings.HasSuffix(f.Name, ".yaml") {
					want.Files = append(want.Files, f)
				}
				json = json || f.Name == "json"
			}
			in, width := input(t, archive)
			e := explain.Explain(in)
			var out bytes.Buffer
			if err := explain.Text(&out, e, explain.Style{Width: width}); err != nil {
				t.Fatal(err)
			}
			if lines := bytes.Count(out.Bytes(), []byte("\n")); lines > screen {
				t.Errorf("%d lines: more than a screen of %d", lines, screen)
			}
			want.Files = append(want.Files, txtar.File{Name: "text", Data: bytes.Clone(out.Bytes())})
			if json {
				out.Reset()
				if err := explain.JSON(&out, e); err != nil {
					t.Fatal(err)
				}
				want.Files = append(want.Files, txtar.File{Name: "json", Data: out.Bytes()})
			}
			golden.Assert(t, string(txtar.Format(&want)), filepath.Base(file))
		})
	}
}

func input(t *testing.T, archive *txtar.Archive) (explain.Input, int) {
	t.Helper()
	var s situation
	in := explain.Input{Now: now, Pod: &corev1.Pod{}, Facts: defaulting.Facts{PriorityClasses: map[string]*schedulingv1.PriorityClass{}}}
	var neighbours []*corev1.Pod
	for _, f := range archive.Files {
		switch f.Name {
		case "case.yaml":
			documents(t, f.Data, &s)
		case "pod.yaml":
			documents(t, f.Data, in.Pod)
		case "policies.yaml":
			in.Policies = policies(t, f.Data)
		case "classes.yaml":
			for _, c := range documents(t, f.Data, &schedulingv1.PriorityClass{}) {
				in.Facts.PriorityClasses[c.Name] = c
			}
		case "nodepolicy.yaml":
			in.NodePolicy, in.NodePolicyName = &v1alpha1.NodePolicySpec{}, "nodes"
			documents(t, f.Data, in.NodePolicy)
		case "neighbours.yaml":
			neighbours = documents(t, f.Data, &corev1.Pod{})
		}
	}
	in.Facts.GlobalDefault = defaulting.GlobalDefaultOf(in.Facts.PriorityClasses)
	in.Neighbours = neighbours
	in.Preview, in.NotPreviewed = s.Preview, s.NotPreviewed
	s.into(t, &in)
	return in, s.Width
}

func (s situation) claims() policy.Claims {
	if s.Claims == nil {
		return nil
	}
	claims := policy.Claims{}
	for name, modes := range s.Claims {
		claims[name] = policy.Claim{Modes: modes}
	}
	return claims
}

func (s situation) into(t *testing.T, in *explain.Input) {
	in.Created = s.Created
	in.User = authenticationv1.UserInfo{Username: s.User}
	in.Namespace = policy.Namespace{Name: in.Pod.Namespace, Labels: s.NamespaceLabels}
	in.Facts.ServiceSelectors, in.Facts.Claims = s.Services, s.claims()
	if s.Owner != nil {
		in.Facts.OwnerSelector = &metav1.LabelSelector{MatchLabels: s.Owner}
	}
	in.Version, in.Driver, in.Kubelet = s.Version, s.Driver, s.Kubelet
	if s.Memory != "" {
		in.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: in.Pod.Spec.NodeName}, Status: corev1.NodeStatus{Capacity: capacity(s.Memory)}}
	}
	in.Usage = map[types.UID]int64{}
	for _, p := range append(in.Neighbours, in.Pod) {
		if used, ok := s.Usage[p.Name]; ok {
			in.Usage[p.UID] = used
		}
	}
	for _, what := range s.Unknown {
		switch what {
		case "namespace":
			in.Namespace = policy.Namespace{Name: in.Pod.Namespace, Unknown: true}
		case "policies":
			in.PoliciesUnknown = true
		case "classes":
			in.Facts.PriorityClasses, in.Facts.GlobalDefault = nil, nil
		case "selectors":
			in.SelectorsUnknown, in.Facts.ServiceSelectors, in.Facts.OwnerSelector = true, nil, nil
		case "nodePolicy":
			in.NodePolicyUnknown = true
		default:
			t.Fatalf("%s can't be unknown", what)
		}
	}
	if s.Ready != nil {
		in.Removal = &guard.Facts{
			Now: now, Policy: in.Policies.Removal(in.Namespace, policy.Exempt{}), Claims: s.claims(),
			Node: guard.Node{Name: in.Pod.Spec.NodeName, State: guard.NodePresent, Ready: *s.Ready, Heartbeat: now.Add(-5 * time.Minute)},
		}
	}
	if !s.Created {
		review(in)
	}
}

// review does to a manifest what the API server and the webhook do.
func review(in *explain.Input) {
	pod := in.Pod.DeepCopy()
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
	}
	_ = defaulting.ResolvePriority(pod, in.Facts)
	request := policy.Request{Pod: pod, Namespace: in.Namespace, User: in.Creator}
	result := defaulting.For(in.Policies, request, in.Exempt).Apply(request, in.Facts)
	in.Pod, in.Review = defaulting.Patch(pod, result.Changes), &result
}

func capacity(memory string) corev1.ResourceList {
	return resources("4", memory)
}

func policies(t *testing.T, data []byte) policy.Policies {
	t.Helper()
	var list []*policy.Policy
	for _, p := range documents(t, data, &v1alpha1.PodPolicy{}) {
		compiled, err := policy.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, compiled)
	}
	return policy.Sort(list)
}

// documents reads YAML documents; the first into a value that is there.
func documents[T any](t *testing.T, data []byte, first *T) []*T {
	t.Helper()
	var list []*T
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		if err := yaml.UnmarshalStrict([]byte(document), first); err != nil {
			t.Fatal(err)
		}
		list = append(list, first)
		first = new(T)
	}
	return list
}
