package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/doctor"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
)

// examined is what the doctor said, and its exit code.
type examined struct {
	doctor.Report

	code int
}

// found are its findings of a check, SEVERITY: what it is about and says.
func (e examined) found(check string) (all []string) {
	for _, f := range e.Findings {
		if f.Check == check {
			all = append(all, fmt.Sprintf("%s: %s: %s", f.Severity, f.About, f.Message))
		}
	}
	return all
}

// examiner is podgrace doctor with the rights of deploy/doctor and no other.
func examiner(t *testing.T, w *world) func(context.Context) (examined, error) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "podgrace")
	if err := cluster.GoBuild(t.Context(), program, "cmd/podgrace"); err != nil {
		t.Fatal(err)
	}
	w.install(t, readFiles(t, manifests+"/doctor/rbac.yaml"))
	kubeconfig, err := w.KubeconfigFor("doctor")
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) (e examined, err error) {
		cmd := exec.CommandContext(ctx, program, "doctor", "--kubeconfig", kubeconfig, "-o", "json")
		var out, complaint bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &complaint
		var exit *exec.ExitError
		if err := cmd.Run(); errors.As(err, &exit) {
			e.code = exit.ExitCode()
		} else if err != nil {
			return e, err
		}
		if err := json.Unmarshal(out.Bytes(), &e.Report); err != nil {
			return e, fmt.Errorf("%w: %s", err, complaint.String())
		}
		return e, nil
	}
}

// binds gives the doctor one of its roles: in a namespace, or in the cluster.
func binds(t *testing.T, w *world, ns, role string) *rbacv1.RoleBinding {
	t.Helper()
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "doctor"}}
	b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "doctor"}, RoleRef: ref, Subjects: subjects}
	var o client.Object = b
	if ns == "" {
		o = &rbacv1.ClusterRoleBinding{ObjectMeta: b.ObjectMeta, RoleRef: ref, Subjects: subjects}
	}
	if err := w.kube.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return b
}

// On a real API server, with the rights that are documented: before Podgrace is there, once it is, when it was changed, and when it was
// taken away half. What the API server adds to the manifests is no difference to them.
func TestDoctor(t *testing.T) {
	w := empty(t)
	if err := rbacv1.AddToScheme(w.kube.Scheme()); err != nil {
		t.Fatal(err)
	}
	examine := examiner(t, w)
	until := func(what string, is func(examined) bool) (e examined) {
		suite.Eventually(t, what, func(ctx context.Context) (bool, error) {
			var err error
			if e, err = examine(ctx); err != nil {
				return false, err
			}
			if is(e) {
				return true, nil
			}
			return false, fmt.Errorf("%+v", e.Report)
		})
		return e
	}
	looked := func(e examined) bool { return len(e.NotLooked) == 0 }

	e := until("a doctor without a right", func(examined) bool { return true })
	if e.code != 1 || slices.ContainsFunc(e.Fine, func(id string) bool { return id != "kubernetes-version" }) {
		t.Errorf("without a right: exit code %d, fine %q", e.code, e.Fine)
	}
	binds(t, w, "", "podgrace-doctor")
	binds(t, w, "kube-system", "podgrace-doctor-kube-system")
	e = until("a cluster without Podgrace", looked)
	if e.code != 0 || e.Cluster.Installed || !strings.HasPrefix(e.Cluster.Version, "v1.") || e.Summary.Errors+e.Summary.Warnings > 0 {
		t.Errorf("before: exit code %d, %+v", e.code, e.Report)
	}

	w.install(t, withEnforcer.kustomized(t))
	e = until("a doctor without the namespace's rights", func(e examined) bool { return e.Cluster.Installed })
	for _, check := range []string{"disruption-budget", "guard", "leader"} {
		if !slices.ContainsFunc(e.NotLooked, func(n doctor.NotLooked) bool { return n.Check == check && strings.HasPrefix(n.Why, "you may not ") }) {
			t.Errorf("without the namespace's rights %s is looked at: %+v", check, e.NotLooked)
		}
	}
	binds(t, w, namespace, "podgrace-doctor-namespace")
	binds(t, w, nodeNamespace, "podgrace-doctor-namespace")
	e = until("Podgrace, of which nothing runs", looked)
	if e.code != 1 || len(e.found("webhook-pods")) != 1 || len(e.found("ca-bundle")) != 1 {
		t.Errorf("nothing runs: exit code %d, %+v", e.code, e.Findings)
	}
	for _, check := range []string{"definitions", "webhook-configurations", "admission-policies", "disruption-budget", "pod-security", "critical-quota", "two-installations", "leftovers", "versions"} {
		if !slices.Contains(e.Fine, check) {
			t.Errorf("%s is not fine as the manifests install it: %q", check, e.found(check))
		}
	}

	open := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := w.kube.Get(t.Context(), client.ObjectKey{Name: "podgrace"}, open); err != nil {
		t.Fatal(err)
	}
	for i := range open.Webhooks {
		if open.Webhooks[i].Name == "node.removal.podgrace.dev" {
			open.Webhooks[i].FailurePolicy = new(admissionregistrationv1.Ignore)
		}
	}
	if err := w.kube.Update(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	until("a guard that was opened", func(e examined) bool {
		return slices.ContainsFunc(e.found("webhook-configurations"), func(f string) bool { return strings.Contains(f, "failurePolicy is Ignore and not Fail") })
	})

	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := w.kube.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the namespace gone", func(ctx context.Context) (bool, error) {
		err := w.kube.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	until("what a deleted namespace leaves", func(e examined) bool {
		others := slices.ContainsFunc(e.NotLooked, func(n doctor.NotLooked) bool { return n.Why != "the Deployment podgrace-webhook is not there" })
		return e.code == 1 && !others && len(e.found("webhook-pods")) == 1 && slices.ContainsFunc(e.found("leftovers"), func(f string) bool { return strings.Contains(f, "the namespace podgrace-system is gone") })
	})
}

// What docs/first-day.md installs is what it has pushed before, without what needs root; and it looks as TestDoctor does.
func TestFirstDayInstalls(t *testing.T) {
	page, err := os.ReadFile("../../docs/first-day.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(page), "\n")
	line := func(beginning string) string {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, beginning) })
		if i < 0 {
			t.Fatalf("docs/first-day.md has no line %q", beginning)
		}
		return lines[i]
	}
	if n := len(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return l != "podgrace doctor" })); n != 2 {
		t.Errorf("it looks %d times, before and after", n)
	}
	args := strings.Fields(strings.Replace(line("helm install podgrace deploy/chart/podgrace "), " deploy/chart/podgrace ", " "+chart+" ", 1))[1:]
	args[0] = "template"
	if slices.Contains(args, observing) || !strings.Contains(string(page), "`--set "+observing+"`") {
		t.Error("it installs the webhook alone, and says in a line how to add the node half")
	}
	out, err := helm(t, append(args, "--set", observing)...)
	if err != nil {
		t.Fatal(err)
	}
	pushed := regexp.MustCompile(`^for i in (.*); do docker tag podgrace/\$i:(\S+) (\S+)/podgrace/\$i:(\S+) && docker push (\S+)/podgrace/\$i:(\S+); done$`).FindStringSubmatch(line("for i in "))
	if pushed == nil || pushed[2] != pushed[4] || pushed[4] != pushed[6] || pushed[3] != pushed[5] || line("make images ") != "make images TAG="+pushed[2] {
		t.Fatalf("what is pushed is not what was made: %q", pushed)
	}
	var there, used []string
	for name := range strings.FieldsSeq(pushed[1]) {
		there = append(there, pushed[3]+"/podgrace/"+name+":"+pushed[2])
	}
	for _, m := range regexp.MustCompile(`(?m)^ +image: "?([^"\n]+)"?$`).FindAllStringSubmatch(out, -1) {
		used = append(used, m[1])
	}
	slices.Sort(there)
	slices.Sort(used)
	if d := cmp.Diff(there, slices.Compact(used)); d != "" {
		t.Errorf("images (-pushed +used):\n%s", d)
	}
	for _, o := range objects(t, []byte(out)) {
		if ns := o.GetNamespace(); ns != "" && ns != namespace && ns != nodeNamespace && o.GetKind() != "Role" && o.GetKind() != "RoleBinding" {
			t.Errorf("%s is in another namespace than the page's", key(o))
		}
	}
}
