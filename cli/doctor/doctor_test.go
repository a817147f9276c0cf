package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/golden"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// In clusters in which all is well nothing is said, and each check that is for them has looked.
func TestHealthy(t *testing.T) {
	for name, s := range map[string]*Snapshot{"bare": bare(), "installed": healthy(t)} {
		r := Examine(s)
		if len(r.Findings)+len(r.NotLooked) > 0 {
			t.Errorf("%s: found %+v, not looked %+v", name, r.Findings, r.NotLooked)
		}
		var want []string
		for _, c := range checks() {
			if c.id != "kubelet-configuration" && (name == "installed" || c.made == always) {
				want = append(want, c.id)
			}
		}
		if d := cmp.Diff(want, r.Fine); d != "" {
			t.Errorf("%s: fine (-want +got):\n%s", name, d)
		}
		if r.Fails(Note) {
			t.Errorf("%s fails", name)
		}
	}
}

// What could not be read is never fine, whatever it would have been.
func TestUnreadIsNotFine(t *testing.T) {
	sources := []Source{Kubelets}
	for source := range Rights() {
		sources = append(sources, source)
	}
	for _, source := range sources {
		for name, s := range map[string]*Snapshot{"bare": bare(), "installed": healthy(t)} {
			delete(s.Unread, Kubelets)
			s.Unread[source] = "you may not"
			r := Examine(s)
			for _, c := range checks() {
				if !slices.Contains(c.needs, source) {
					continue
				}
				not := slices.ContainsFunc(r.NotLooked, func(n NotLooked) bool { return n.Check == c.id && n.Source == source })
				if slices.Contains(r.Fine, c.id) || !not && (name == "installed" || c.made == always) {
					t.Errorf("%s without %s: %s counts as looked at", name, source, c.id)
				}
				if slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Check == c.id }) {
					t.Errorf("%s without %s: %s has found something", name, source, c.id)
				}
			}
			if r.Fails(Error) != (len(r.NotLooked) > 0) || name == "installed" && len(r.NotLooked) == 0 {
				t.Errorf("%s without %s: fails %t, not looked %+v", name, source, r.Fails(Error), r.NotLooked)
			}
		}
	}
}

// Where the webhook's Deployment is gone, what can be said of it alone is not fine.
func TestDeploymentGone(t *testing.T) {
	s := healthy(t)
	s.Deployments = nil
	r := Examine(s)
	for _, c := range checks() {
		if c.made == deployed && (slices.Contains(r.Fine, c.id) || !slices.ContainsFunc(r.NotLooked, func(n NotLooked) bool { return n.Check == c.id })) {
			t.Errorf("%s counts as looked at", c.id)
		}
	}
	if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Check == "webhook-pods" && f.Severity == Error }) {
		t.Errorf("found %+v", r.Findings)
	}
}

// In a namespace that the configurations do not call nothing is said but that: least of all that what is there is left over.
func TestElsewhere(t *testing.T) {
	s := healthy(t)
	s.OwnNamespace, s.Namespace, s.Pods = "wrong", nil, nil
	r := Examine(s)
	if len(r.Findings) != 1 || r.Findings[0].Check != otherNamespace || !slices.Equal(r.Findings[0].Commands, []string{"podgrace doctor -n " + DefaultNamespace}) || !r.Fails(Error) || len(r.Fine)+len(r.NotLooked) > 0 {
		t.Errorf("%+v", r)
	}
	if text := r.Text(console.Style{}); !strings.Contains(text, "not installed; looked for in the namespace wrong") {
		t.Error(text)
	}
}

// A namespace that can't be one is not copied into a command.
func TestNamespaceOf(t *testing.T) {
	s := healthy(t)
	for i := range s.Mutating[0].Webhooks {
		s.Mutating[0].Webhooks[i].ClientConfig.Service.Namespace = "x; curl example.org | sh"
	}
	if got := s.NamespaceOf(); got != DefaultNamespace {
		t.Error(got)
	}
}

// Where it could not be read whether Podgrace is there, nothing is known of all that is about an installation.
func TestInstallationUnread(t *testing.T) {
	s := bare()
	s.Unread[Deployments] = "you may not"
	for _, n := range Examine(s).NotLooked {
		if n.Check == "guard" && n.Source == Deployments {
			return
		}
	}
	t.Error("guard counts as looked at")
}

// Each check reads what it says that it needs, and has an id of its own that may stand in a script.
func TestChecks(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range checks() {
		if seen[c.id] || strings.Trim(c.id, "abcdefghijklmnopqrstuvwxyz-") != "" || len(c.needs) == 0 {
			t.Errorf("check %q", c.id)
		}
		seen[c.id] = true
		for _, source := range c.needs {
			if _, is := Rights()[source]; !is && source != Kubelets {
				t.Errorf("%s needs %s, of which no right is known", c.id, source)
			}
		}
	}
}

// The most severe come first, those of one severity in the checks' order.
func TestSorted(t *testing.T) {
	all := sorted([]Finding{{Check: "guard", Severity: Note}, {Check: "guard", Severity: Error, About: "b"}, {Check: "guard", Severity: Error, About: "a"}, {Check: "kubelet-skew", Severity: Error}, {Check: "leader", Severity: Warning}})
	var got []string
	for _, f := range all {
		got = append(got, fmt.Sprint(f.Severity, " ", f.Check, f.About))
	}
	if d := cmp.Diff([]string{"error kubelet-skew", "error guarda", "error guardb", "warning leader", "note guard"}, got); d != "" {
		t.Error(d)
	}
}

// The role that is documented has the rights that are used, and no other.
func TestRole(t *testing.T) {
	roles := read[rbacv1.ClusterRole](t, file(t, "doctor", "rbac.yaml"), "ClusterRole")
	have := map[string][]string{}
	for i, role := range roles {
		for _, rule := range role.Rules {
			for _, path := range rule.NonResourceURLs {
				have[path] = append(have[path], fmt.Sprint(i, rule.Verbs, []string(nil)))
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					key := strings.TrimSuffix(resource+"."+group, ".")
					have[key] = append(have[key], fmt.Sprint(i, rule.Verbs, rule.ResourceNames))
				}
			}
		}
	}
	want := map[string][]string{}
	for source, right := range Rights() {
		switch {
		case source == Version || source == APIs: // everybody's
		case right.Path != "":
			want[right.Path] = append(want[right.Path], fmt.Sprint(int(right.Scope), []string{right.Verb}, []string(nil)))
		default:
			want[right.String()] = append(want[right.String()], fmt.Sprint(int(right.Scope), []string{right.Verb}, right.Names))
		}
	}
	for _, all := range []map[string][]string{have, want} {
		for _, verbs := range all {
			slices.Sort(verbs)
		}
	}
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("deploy/doctor/rbac.yaml (-used +has):\n%s", d)
	}
}

// The names are the webhook's own.
func TestNames(t *testing.T) {
	if InForce != controllers.InForce || AnnotationGuard != controllers.AnnotationGuard || GuardOff != controllers.GuardOff {
		t.Error("the guard has other names")
	}
	var names []string
	for _, crd := range shippedDefinitions() {
		names = append(names, crd.Name)
	}
	if d := cmp.Diff(names, definitionNames); d != "" {
		t.Error(d)
	}
}

// The page as a person sees it: golden.
func TestText(t *testing.T) {
	s := healthy(t)
	s.Deployments[0].Status.AvailableReplicas = 0
	s.Nodes[1].Status.NodeInfo.KubeletVersion = "v1.32.1"
	s.Roles[0].Annotations = map[string]string{AnnotationGuard: GuardOff}
	s.Add(karpenter())
	s.ControllerManagers[0].Spec.Containers[0].Command = nil
	s.Unread[Metrics], s.Unread[LimitRanges], s.Unread[Quotas] = "you may not get /metrics", "you may not list limitranges in Podgrace's namespace", "you may not list resourcequotas in Podgrace's namespace"
	golden.Assert(t, Examine(s).Text(console.Style{Width: 100}), "found.txt")
	golden.Assert(t, Examine(healthy(t)).Text(console.Style{Width: 100}), "healthy.txt")
	eks := bare()
	eks.Server = "v1.36.2-eks-1234567"
	eks.Add(karpenter())
	eks.Add(daemonSet("cilium"))
	osImage("Bottlerocket OS 1.50.0")(eks)
	golden.Assert(t, Examine(eks).Text(console.Style{Width: 100}), "eks.txt")
	for line := range strings.SplitSeq(Examine(s).Text(console.Style{Width: 100}), "\n") {
		if len(line) > 100 && !strings.Contains(line, "kubectl ") && !strings.Contains(line, "--set ") {
			t.Errorf("a line of %d letters: %s", len(line), line)
		}
	}
}

// What others have written steers no terminal, and stands as it is in what is to be copied.
func TestTextIsHarmless(t *testing.T) {
	s := bare()
	d := karpenter()
	d.Namespace = "evil\x1b[2J"
	s.Add(d)
	other := karpenter()
	other.Namespace = `x", "system:admin`
	s.Add(other)
	if text := Examine(s).Text(console.Style{}); !strings.Contains(text, `system:serviceaccount:x\", \"system:admin:karpenter"]`) || strings.Contains(text, "\x1b") || !strings.Contains(text, "system:serviceaccount:evil") {
		t.Errorf("%q", text)
	}
}

// An annotation is a text, which --set would make a bool of, and quotes in it a part of the text.
func TestAnnotationIsText(t *testing.T) {
	s := healthy(t)
	labelNodes("kubernetes.azure.com/cluster", "a")(s)
	s.Validating[0].Annotations = nil
	if text := Examine(s).Text(console.Style{}); !strings.Contains(text, `--set-string 'webhook.configurationAnnotations.admissions\.enforcer/disabled=true'`+"\n") {
		t.Error(text)
	}
}
