package docs_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

// now is the moment of the messages on the pages.
var now = time.Date(2026, 1, 1, 3, 0, 19, 0, time.UTC)

// db is the pod of the pages, on a node that has been silent for 9m12s.
func db(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "db-0", UID: "u1", OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: new(true)}}},
		Spec:       corev1.PodSpec{NodeName: "node-7", TerminationGracePeriodSeconds: new(int64(30))},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func facts(node guard.Node) guard.Facts {
	return guard.Facts{Now: now, Node: node, Policy: policy.Removal{Names: []string{"stateful"}, ForceDelete: v1alpha1.RemovalDeny}, BoundKnown: true}
}

// messages are what the guard says of everything that the page is about.
func messages(t *testing.T) (first string, all []string) {
	t.Helper()
	silent := guard.Node{Name: "node-7", State: guard.NodePresent, UID: "n", BootID: "b", Heartbeat: now.Add(-9*time.Minute - 12*time.Second)}
	ready := silent
	ready.Ready, ready.Heartbeat = true, now
	force := func(p *corev1.Pod) guard.Request {
		return guard.Request{Road: guard.RoadDelete, Pod: p, GracePeriodSeconds: new(int64(0))}
	}
	bound := facts(silent)
	bound.Bound = map[v1alpha1.RemovalAction][]*corev1.Pod{v1alpha1.RemovalDeny: {db()}}
	unreadable := facts(silent)
	unreadable.Policy = policy.Removal{Unknown: true}
	enforcer := force(db())
	enforcer.User = authenticationv1.UserInfo{Username: "system:serviceaccount:podgrace-node:podgrace-nodeenforcer"}
	forced := metav1.NewTime(now)
	for _, c := range []struct {
		request guard.Request
		facts   guard.Facts
	}{
		{force(db()), facts(silent)},
		{force(db()), facts(ready)},
		{force(db()), facts(guard.Node{Name: "node-7"})},
		{guard.Request{Road: guard.RoadDelete, Pod: db(func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(0)) })}, facts(ready)},
		{force(db(func(p *corev1.Pod) {
			p.Annotations = map[string]string{guard.AnnotationConfirmForceDelete: guard.ConfirmPod(p, guard.Node{}, now.Add(-2*time.Hour))}
		})), facts(silent)},
		{force(db(func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &forced, new(int64(0)) })), facts(ready)},
		{guard.Request{Road: guard.RoadEviction, Pod: db(func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(0)) })}, facts(silent)},
		{guard.Request{Road: guard.RoadEviction, Pod: db(func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &forced, new(int64(0)) })}, facts(ready)},
		{guard.Request{Road: guard.RoadNode}, bound},
		{guard.Request{Road: guard.RoadNode, HeldFrom: now.Add(time.Minute)}, bound},
		{guard.Request{Road: guard.RoadNode, Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &forced}}}, bound},
		{guard.Request{Road: guard.RoadOutOfService}, facts(silent)},
		{guard.Request{Road: guard.RoadVolumeAttachment, VolumeAttachment: &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: "node-7"}, Status: storagev1.VolumeAttachmentStatus{Attached: true}}}, facts(silent)},
		{force(db()), unreadable},
		{enforcer, facts(silent)},
	} {
		d := guard.Decide(c.request, c.facts)
		if d.Verdict != guard.Deny {
			t.Fatalf("%s: %s %s", c.request.Road, d.Verdict, d.Reason)
		}
		all = append(all, d.Message())
	}
	return all[0], all
}

var (
	said   = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
	denied = regexp.MustCompile("(?s)```\n(Error from server .*?)\n```")
)

// elsewhere are messages that the guard does not make: the API server's, and one of the webhook's while it starts.
var elsewhere = []string{`failed calling webhook "delete.removal.podgrace.dev"`, "this replica has just started and does not know the cluster yet; try again"}

// What the pages quote is what the guard says today.
func TestQuotedMessages(t *testing.T) {
	first, all := messages(t)
	want := fmt.Sprintf("Error from server (%s): admission webhook %q denied the request: %s", guard.Unsafe, "delete.removal.podgrace.dev", first)
	for _, page := range []string{"denied.md", "removal-guard.md"} {
		quoted := denied.FindStringSubmatch(readPage(t, page))
		if quoted == nil {
			t.Fatalf("%s quotes no refusal", page)
		}
		if got := strings.Join(strings.Fields(quoted[1]), " "); got != want {
			t.Errorf("%s quotes\n%s\nthe guard says\n%s", page, got, want)
		}
	}
	// The first two are what the page's own text is about.
	explained(t, slices.Concat(all[2:], policyMessages(t), creationMessages(t)), elsewhere)
}

// explained holds the tables of denied.md against what is said: each message has a row, and each row quotes a message. For those
// from elsewhere a row is no must.
func explained(t *testing.T, messages, elsewhere []string) {
	t.Helper()
	rows := said.FindAllStringSubmatch(readPage(t, "denied.md"), -1)
	for _, row := range rows {
		if !slices.ContainsFunc(slices.Concat(messages, elsewhere), quotation(row[1]).MatchString) {
			t.Errorf("nothing says %q; what is said:\n%s", row[1], strings.Join(messages, "\n"))
		}
	}
	for _, message := range messages {
		if !slices.ContainsFunc(rows, func(row []string) bool { return quotation(row[1]).MatchString(message) }) {
			t.Errorf("denied.md has no row for: %s", message)
		}
	}
}

// quotation finds messages that have its parts in order; "..." stands for anything.
func quotation(text string) *regexp.Regexp {
	var parts []string
	for part := range strings.SplitSeq(text, "...") {
		parts = append(parts, regexp.QuoteMeta(part))
	}
	return regexp.MustCompile(strings.Join(parts, ".*"))
}

// literal is a string of CEL as the messages have them.
var literal = regexp.MustCompile(`'([^']*)'`)

// policyMessages are those of the ValidatingAdmissionPolicies; of an expression its literals, with "..." between them.
func policyMessages(t *testing.T) (all []string) {
	t.Helper()
	for _, policy := range admissionPolicies(t) {
		for _, v := range policy.Spec.Validations {
			message := v.Message
			if message == "" {
				var parts []string
				for _, part := range literal.FindAllStringSubmatch(v.MessageExpression, -1) {
					parts = append(parts, part[1])
				}
				message = strings.Join(parts, "...")
			}
			if message == "" {
				t.Errorf("%s has a validation without a message", policy.Name)
			}
			all = append(all, message)
		}
	}
	if len(all) == 0 {
		t.Fatal("no ValidatingAdmissionPolicy says anything")
	}
	return all
}

// admissionPolicies are the ValidatingAdmissionPolicies of deploy, but for the chart's copies.
func admissionPolicies(t *testing.T) (all []admissionregistrationv1.ValidatingAdmissionPolicy) {
	t.Helper()
	err := filepath.WalkDir("../deploy", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "chart":
			return fs.SkipDir
		case filepath.Ext(path) != ".yaml":
			return nil
		}
		for document := range strings.SplitSeq(readPage(t, path), "\n---\n") {
			var kind metav1.TypeMeta
			var policy admissionregistrationv1.ValidatingAdmissionPolicy
			if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if kind.Kind != "ValidatingAdmissionPolicy" {
				continue
			}
			if err := yaml.UnmarshalStrict([]byte(document), &policy); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			all = append(all, policy)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// verb is a verb of fmt.
var verb = regexp.MustCompile(`%[a-z]`)

// creationMessages are the refusals of a pod's creation, with "..." for what is filled in.
func creationMessages(t *testing.T) (all []string) {
	t.Helper()
	for _, words := range defaulting.RefusalWords() {
		all = append(all, verb.ReplaceAllString(words, "..."))
	}
	if len(all) == 0 {
		t.Fatal("package defaulting refuses nothing")
	}
	return all
}
