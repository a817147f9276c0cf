package agreement

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/delta"
	policydiff "github.com/podgrace/podgrace/cli/diff"
)

// The whole answer of podgrace diff about a live cluster, whose policies it compares with a file: nothing is missing, and nothing is there
// that does not change.
func TestDiffWithACluster(t *testing.T) {
	s := shared.Get(t)
	if err := s.AddNode(t.Context(), "of-the-diff", nil); err != nil {
		t.Fatal(err)
	}
	removal := &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll}
	ns, elsewhere := s.Namespace(t), s.Namespace(t)
	changes := s.Policy(t, ns, v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(45))}, Removal: removal})
	// Nodes are judged by the strictest policy that there is: with this one, which stays, theirs does not change.
	stays := s.Policy(t, elsewhere, v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(45))}, Removal: removal})
	stored(t, s, ns, "p", bound("of-the-diff"))
	stored(t, s, elsewhere, "p", bound("of-the-diff"))
	// No policy is for these: nothing about them is to be reported.
	for _, class := range []string{"system-node-critical", "system-cluster-critical"} {
		stored(t, s, metav1.NamespaceSystem, "of-the-diff-"+class, func(p *corev1.Pod) {
			bound("of-the-diff")(p)
			p.Spec.PriorityClassName, p.Spec.TerminationGracePeriodSeconds = class, new(int64(50))
		})
	}
	for name, grace := range map[string]int64{"api": 30, "slow": 90, "web": 30} {
		s.Create(t, stopped(ns, name, grace))
	}
	s.Create(t, stopped(elsewhere, "web", 30))

	same := policyFile(t, changes, stays)
	changes.Spec.GracePeriod.MinSeconds, changes.Spec.Removal = new(int64(60)), nil
	changed := policyFile(t, changes, stays)
	podgrace := build(t)
	kubeconfig, err := s.KubeconfigFor("cli", masters)
	if err != nil {
		t.Fatal(err)
	}
	diff := func(t *testing.T, code int, to string, flags ...string) string {
		t.Helper()
		got, out := run(t, podgrace, "", append([]string{"diff", "--kubeconfig", kubeconfig, "--to", to}, flags...)...)
		if got != code {
			t.Errorf("exit %d, want %d:\n%s", got, code, out)
		}
		return out
	}

	text := strings.NewReplacer("NS", ns, "POLICY", changes.Name).Replace(`RUNNING   Pod NS/p would be created otherwise today
  ~       terminationGracePeriodSeconds  45 → 60

ALLOWED   2 Deployments in NS: api, web
  ~       force delete                   Denied → Allowed (Unsafe)
  ~       eviction without grace         Denied → Allowed (Unsafe)
  ~       terminationGracePeriodSeconds  45 → 60
  ~       warning                        terminationGracePeriodSeconds is now 60, not 30: PodPolicy POLICY: minimum 60 s

ALLOWED   1 Deployment, 1 Pod in NS: slow, p
  ~       force delete            Denied → Allowed (Unsafe)
  ~       eviction without grace  Denied → Allowed (Unsafe)

          the change of policies affects 4 of them
       4  force delete allowed
       4  eviction without grace allowed
       2  created with other fields
       2  warned about with other words
       1  running pod would be created otherwise today: a policy reaches new pods only
`)
	// A cluster that runs already has more, which the text reports as well; there the changes of these namespaces are what is held.
	alone := s.Webhook != nil
	ours := func(lines []string) []string {
		return slices.DeleteFunc(lines, func(line string) bool {
			return !alone && !strings.Contains(line, " "+ns+"/") && !strings.Contains(line, " "+elsewhere+"/")
		})
	}
	for name, c := range map[string]struct {
		code  int
		flags []string
	}{"text": {1, nil}, "text, of what denies": {0, []string{"--fail-on", "deny"}}, "text, never": {0, []string{"--fail-on", "never"}}} {
		t.Run(name, func(t *testing.T) {
			out := diff(t, c.code, changed, c.flags...)
			if !alone {
				return
			}
			if diff := cmp.Diff(text, ofOurs(out)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Run("json", func(t *testing.T) {
		d := readDiff(t, diff(t, 1, changed, "-o", "json"))
		created := []string{
			"Changed spec.terminationGracePeriodSeconds 45 → 60",
			fmt.Sprintf("WarnedOtherwise terminationGracePeriodSeconds is now 45, not 30: PodPolicy %s: minimum 45 s → terminationGracePeriodSeconds is now 60, not 30: PodPolicy %[1]s: minimum 60 s", changes.Name),
		}
		removed := []string{"ForceDeleteAllowed Denied → Allowed Unsafe", "EvictionAllowed Denied → Allowed Unsafe"}
		var want []string
		for _, o := range []struct {
			name    string
			changes []string
		}{{"Deployment " + ns + "/api", append(created, removed...)}, {"Deployment " + ns + "/slow", removed}, {"Deployment " + ns + "/web", append(created, removed...)}, {"Pod " + ns + "/p", removed}} {
			for _, c := range o.changes {
				want = append(want, o.name+" (cluster): "+c)
			}
		}
		want = append(want, "running Pod "+ns+"/p, [p] of 1: spec.terminationGracePeriodSeconds 45 → 60")
		if diff := cmp.Diff(want, ours(said(t, d, changes.Name))); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		kinds := map[policydiff.Kind]int{policydiff.Changed: 2, policydiff.WarnedOtherwise: 2, policydiff.ForceDeleteAllowed: 4, policydiff.EvictionAllowed: 4}
		if s := d.Summary; alone && (!cmp.Equal(s.Kinds, kinds) || s.Affected != 4 || s.RunningDifferent != 1 || s.Denying != 0 || s.Errors != 0 || s.NoPolicies) {
			t.Errorf("the summary is %+v", s)
		}
	})
	t.Run("the cluster's own policies change nothing", func(t *testing.T) {
		if got, want := ofOurs(diff(t, 0, same)), "          the change of policies changes nothing\n"; alone && got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		d := readDiff(t, diff(t, 0, same, "-o", "json"))
		if got := ours(said(t, d, "")); len(got) > 0 || alone && d.Summary.Affected+d.Summary.RunningDifferent+len(d.Summary.Kinds)+d.Summary.Errors > 0 {
			t.Errorf("told %q, and the summary is %+v", got, d.Summary)
		}
	})
}

// stopped is a Deployment without pods, also where a controller would make some.
func stopped(namespace, name string, grace int64) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "main", Image: "localhost/none:1"}}},
		},
	}}
}

// policyFile has the policies as they are now.
func policyFile(t *testing.T, policies ...*v1alpha1.PodPolicy) (path string) {
	t.Helper()
	var text strings.Builder
	for _, p := range policies {
		raw, err := json.Marshal(&v1alpha1.PodPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: p.Spec,
		})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "---\n%s\n", raw)
	}
	path = filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What a text says of all there is in the cluster: other tests leave nodes, and one that runs already has more.
var ofTheCluster = regexp.MustCompile(`(?m)^( +)\d+ workloads? and \d+ running pods?: |^ +(Not known, and judged on the safe side|\d+ other objects? ).*\n`)

func ofOurs(text string) string { return ofTheCluster.ReplaceAllString(text, "$1") }

func readDiff(t *testing.T, text string) *policydiff.Diff {
	t.Helper()
	d := &policydiff.Diff{}
	if err := json.Unmarshal([]byte(text), d); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if d.APIVersion != v1alpha1.GroupVersion.String() || d.Kind != "PolicyDiff" {
		t.Errorf("it is a %s of %s", d.Kind, d.APIVersion)
	}
	return d
}

// said is a line for each change. The words of a refusal are the guard's; here they must be of this object and this policy.
func said(t *testing.T, d *policydiff.Diff, policy string) (lines []string) {
	t.Helper()
	fields := func(all []delta.Field) (text string) {
		for _, f := range all {
			text += fmt.Sprintf(" %s %s → %s", f.Path, f.From, f.To)
		}
		return text
	}
	for _, w := range d.Workloads {
		for _, c := range w.Changes {
			text := fields(c.Fields)
			if c.From+c.To != "" {
				text += " " + c.From + " → " + c.To
			}
			if c.Reason != "" {
				text += " " + c.Reason
				if !strings.Contains(c.Message, w.Resource.Namespace+"/"+w.Resource.Name) || !strings.HasSuffix(c.Message, "(PodPolicy "+policy+")") {
					t.Errorf("%s: %s: %q", w.Resource, c.Kind, c.Message)
				}
			}
			lines = append(lines, fmt.Sprintf("%s (%s): %s%s", w.Resource, w.Source.File, c.Kind, text))
		}
	}
	for _, r := range d.Running {
		lines = append(lines, fmt.Sprintf("running %s, %v of %d:%s%s", r.Owner, r.Pods, r.Of, fields(r.Fields), r.Refused))
	}
	return lines
}
