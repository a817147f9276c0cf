package confirm_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/cli/confirm"
)

// fake is a cluster with one pod and one node. The node is read several times: each reading takes the next of nodes, and
// the last one stays.
type fake struct {
	pod     confirm.PodFacts
	nodes   []confirm.NodeState
	lacks   bool
	err     error // of writing
	written []string
}

func (f *fake) Pod(context.Context, string, string) (confirm.PodFacts, error) { return f.pod, nil }

func (f *fake) Node(context.Context, string) (confirm.NodeState, error) {
	n := f.nodes[0]
	if len(f.nodes) > 1 {
		f.nodes = f.nodes[1:]
	}
	return n, nil
}

func (f *fake) Burden(context.Context, string) confirm.Burden { return nodeFacts().Burden }

func (f *fake) May(_ context.Context, rights []confirm.Right) (confirm.Permission, error) {
	p := confirm.Permission{User: "alice", Needed: rights}
	if f.lacks {
		p.Missing = rights
	}
	return p, nil
}

func (f *fake) ConfirmPod(_ context.Context, _ *corev1.Pod, text string) error {
	f.written = append(f.written, "pod "+text)
	return f.err
}

func (f *fake) ConfirmNode(_ context.Context, node *corev1.Node, text string) error {
	f.written = append(f.written, "node "+text+" of version "+node.ResourceVersion)
	return f.err
}

func off(change ...func(*confirm.NodeState)) confirm.NodeState {
	s := node(corev1.ConditionUnknown, 12*time.Minute)
	for _, c := range change {
		c(&s)
	}
	return s
}

func confirmed(s *confirm.NodeState) { confirmNode(s) }

func heard(s *confirm.NodeState) { s.Lease.Spec.RenewTime = &metav1.MicroTime{Time: s.Now} }

func TestSession(t *testing.T) {
	okNode := []confirm.NodeState{off(), off(func(s *confirm.NodeState) { s.Node.ResourceVersion = "8" }), off(confirmed)}
	offText := nodeUID + "/" + bootID + "/2026-03-14T02:12:53Z/2026-03-14T02:14:53.000000Z"
	wroteNode := "node " + offText + " of version 8"
	wrotePod := "pod 3fa85f64-5717-4562-b3fc-2c963f66afa6/2026-03-14T02:26:53Z/2026-03-14T02:14:53Z"
	for name, tc := range map[string]struct {
		node        bool // confirm the node, not the pod
		change      func(*fake)
		nodes       []confirm.NodeState
		in          string
		yes, dryRun bool
		want        bool
		written     string
		says        string // by out, err or the error
	}{
		"name typed":          {in: "db-0\n", want: true, written: wrotePod, says: "CONFIRMED"},
		"with blanks":         {in: "  db-0 \r\n", want: true, written: wrotePod},
		"declined":            {in: "\n", says: "Not confirmed: nothing was changed."},
		"said y":              {in: "y\n", says: `"y" is not "db-0"`},
		"wrong name":          {in: "db-1\n", says: `"db-1" is not "db-0"`},
		"no second try":       {in: "db-1\ndb-0\n", says: "Not confirmed"},
		"end of input":        {in: "", says: "Not confirmed"},
		"no newline":          {in: "db-0", says: "Not confirmed"}, // the person may have gone in the middle of it
		"yes":                 {yes: true, want: true, written: wrotePod},
		"dry run":             {dryRun: true, want: true, says: "would set podgrace.dev/confirm-force-delete=3fa85f64"},
		"dry run and yes":     {yes: true, dryRun: true, want: true, says: "Dry run"},
		"not permitted":       {yes: true, change: func(f *fake) { f.lacks = true }, says: "alice may not confirm this, and lacks: force-delete on pods.podgrace.dev in namespace shop"},
		"removed by it":       {yes: true, change: func(f *fake) { f.pod.Pod, _ = forceDeletedHalfWay(); f.lacks = true }, says: "lacks: force-delete on pods.podgrace.dev in namespace shop, update on pods in namespace shop."},
		"already confirmed":   {change: func(f *fake) { confirmPod(0)(&f.pod) }, want: true, says: "is confirmed already"},
		"finished":            {change: func(f *fake) { f.pod.Pod.Status.Phase = corev1.PodSucceeded }, want: true, says: "NOT NEEDED"},
		"pod replaced":        {in: "db-0\n", change: func(f *fake) { f.err = errors.New("replaced") }, written: wrotePod, says: "replaced"},
		"node":                {node: true, nodes: okNode, in: "worker-3\n", want: true, written: wroteNode, says: "kubectl taint node worker-3"},
		"node, yes":           {node: true, nodes: okNode, yes: true, want: true, written: wroteNode},
		"node, declined":      {node: true, nodes: okNode, in: "no\n", says: "Not confirmed"},
		"node, dry run":       {node: true, nodes: okNode, dryRun: true, want: true, says: "would set podgrace.dev/confirm-off=" + nodeUID + "/" + bootID},
		"node, already":       {node: true, nodes: []confirm.NodeState{off(confirmed)}, want: true, says: "is confirmed off already"},
		"node, ready":         {node: true, nodes: []confirm.NodeState{node(corev1.ConditionTrue, time.Second)}, yes: true, says: "REFUSED"},
		"node, not permitted": {node: true, nodes: okNode, yes: true, change: func(f *fake) { f.lacks = true }, says: "lacks: force-delete on nodes.podgrace.dev, patch on nodes."},
		// A renewed lease does not change the Node.
		"node, lease renewed before": {node: true, nodes: []confirm.NodeState{off(), off(heard)}, in: "worker-3\n", says: "its kubelet was heard of at 02:26:53 UTC"},
		"node, lease renewed after":  {node: true, nodes: []confirm.NodeState{off(), off(), off(confirmed, heard)}, in: "worker-3\n", written: "node " + offText + " of version 7", says: "the confirmation is void"},
		"node, lease lost":           {node: true, nodes: []confirm.NodeState{off(), off(func(s *confirm.NodeState) { s.LeaseUnknown = "timeout" })}, yes: true, says: "could not be read: timeout"},
		"node, booted":               {node: true, nodes: []confirm.NodeState{off(), off(func(s *confirm.NodeState) { s.Node.Status.NodeInfo.BootID = "b2" })}, yes: true, says: "it has rebooted"},
		"node, replaced":             {node: true, nodes: []confirm.NodeState{off(), off(func(s *confirm.NodeState) { s.Node.UID = "u2" })}, yes: true, says: "replaced by another Node"},
		"node, conflict":             {node: true, nodes: okNode, yes: true, change: func(f *fake) { f.err = errors.New("conflict") }, written: wroteNode, says: "conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{pod: pod(), nodes: tc.nodes}
			if tc.change != nil {
				tc.change(f)
			}
			var out, errOut bytes.Buffer
			s := &confirm.Session{Reader: f, Writer: f, In: strings.NewReader(tc.in), Out: &out, Err: &errOut, Yes: tc.yes, DryRun: tc.dryRun, Commands: commands}
			ask := func() (bool, error) { return s.Pod(t.Context(), "shop", "db-0") }
			if tc.node {
				ask = func() (bool, error) { return s.Node(t.Context(), "worker-3") }
			}
			ok, err := ask()
			said := out.String() + errOut.String()
			if err != nil {
				said += err.Error()
			}
			if ok != tc.want || strings.Join(f.written, ";") != tc.written || !strings.Contains(said, tc.says) {
				t.Errorf("got %v, wrote %q, want %v, %q and %q in:\n%s", ok, f.written, tc.want, tc.written, tc.says, said)
			}
			if !ok && (strings.Contains(said, "CONFIRMED ") || strings.Contains(said, "--force --")) {
				t.Errorf("not confirmed, but it says how to go on:\n%s", said)
			}
		})
	}
}

func TestInterruptEndsTheQuestion(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, keyboard := io.Pipe()
	defer keyboard.Close()
	f := &fake{pod: pod()}
	var errOut bytes.Buffer
	s := &confirm.Session{Reader: f, Writer: f, In: in, Out: io.Discard, Err: &errOut}
	time.AfterFunc(10*time.Millisecond, cancel)
	if ok, err := s.Pod(ctx, "shop", "db-0"); ok || err != nil || len(f.written) > 0 || !strings.Contains(errOut.String(), "nothing was changed") {
		t.Errorf("got %v, %v, %q, %q", ok, err, f.written, errOut.String())
	}
}

func TestUnreadableAnswer(t *testing.T) {
	f := &fake{pod: pod()}
	s := &confirm.Session{Reader: f, Writer: f, In: iotest.ErrReader(errors.New("input/output error")), Out: io.Discard, Err: io.Discard}
	if ok, err := s.Pod(t.Context(), "shop", "db-0"); ok || err == nil || len(f.written) > 0 {
		t.Errorf("got %v, %v, %q", ok, err, f.written)
	}
}
