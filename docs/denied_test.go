package docs_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
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
	return guard.Facts{Now: now, Node: node, Policy: guard.Policy{Names: []string{"stateful"}, ForceDelete: v1alpha1.RemovalDeny}, BoundKnown: true}
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
	unreadable.Policy = guard.Policy{Unknown: true}
	enforcer := force(db())
	enforcer.User = authenticationv1.UserInfo{Username: "system:serviceaccount:podgrace-system:podgrace-nodeenforcer"}
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
			p.Annotations = map[string]string{guard.AnnotationConfirmForceDelete: string(types.UID("u1"))}
		})), func() guard.Facts { f := facts(silent); f.MayForce = guard.No; return f }()},
		{force(db(func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &forced, new(int64(0)) })), facts(ready)},
		{guard.Request{Road: guard.RoadNode}, bound},
		{guard.Request{Road: guard.RoadOutOfService}, facts(silent)},
		{guard.Request{Road: guard.RoadVolumeAttachment, VolumeAttachment: &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: "node-7"}}}, facts(silent)},
		{force(db()), unreadable},
		{enforcer, facts(silent)},
	} {
		d := guard.Decide(c.request, c.facts)
		if d.Verdict != guard.Deny {
			t.Fatalf("%s: %s %s", c.request.Road, d.Verdict, d.Reason)
		}
		all = append(all, d.Message)
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
	rows := said.FindAllStringSubmatch(readPage(t, "denied.md"), -1)
	if len(rows) < len(all)-1 {
		t.Errorf("only %d messages are explained", len(rows))
	}
	for _, row := range rows {
		if !saidBy(row[1], append(all, elsewhere...)) {
			t.Errorf("nothing says %q; the guard says:\n%s", row[1], strings.Join(all, "\n"))
		}
	}
}

// saidBy says whether one of the messages has the parts of the quotation in order; "..." stands for anything.
func saidBy(quotation string, messages []string) bool {
	var parts []string
	for part := range strings.SplitSeq(quotation, "...") {
		parts = append(parts, regexp.QuoteMeta(part))
	}
	return slices.ContainsFunc(messages, regexp.MustCompile(strings.Join(parts, ".*")).MatchString)
}
