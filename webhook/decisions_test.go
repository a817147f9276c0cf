package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/decisionlog"
	"github.com/podgrace/podgrace/internal/program/logging"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/intake"
)

// decisionLog is a log that is kept, as JSON.
func decisionLog(out *bytes.Buffer) logr.Logger {
	o := logging.Options{Format: logging.JSON}
	return o.New(out)
}

// lines are what was logged, without what differs in each run.
func lines(t *testing.T, out *bytes.Buffer) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(out.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, key := range []string{"ts", "caller", "level", "v", "logger", "msg", "seconds"} {
			if _, ok := fields[key]; !ok && key != "seconds" {
				t.Errorf("no %s: %s", key, line)
			}
			delete(fields, key)
		}
		all = append(all, fields)
	}
	out.Reset()
	return all
}

// limiting has limits and defaults for all pods.
func limiting() *v1alpha1.PodPolicy {
	return podPolicy("limits", v1alpha1.PodPolicySpec{
		Priority:    &v1alpha1.PrioritySection{ClassName: "high", AllowedClassNames: []string{"high"}},
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45)), MaxSeconds: new(int64(60))},
	})
}

// What is logged of each kind of decision: who, what, why, by which policy. Groups, tokens and what else is known of the user are not.
func TestDecisionLog(t *testing.T) {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 10}
	limited := newEngine(t, cluster(namespace("shop"), class), nil, limiting())
	of := func(object string, changes ...requestChange) admission.Request {
		req := review(pods, object)
		req.Resource = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
		req.UserInfo = authenticationv1.UserInfo{Username: "alice", UID: "secret-uid", Groups: []string{"secret-group"}, Extra: map[string]authenticationv1.ExtraValue{"token": {"secret-token"}}}
		for _, c := range changes {
			c(&req)
		}
		return req
	}
	const bad = `{"metadata":{"generateName":"web-","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"1","controller":true}]},"spec":{"priorityClassName":"low","priority":0,"terminationGracePeriodSeconds":90}}`
	common := map[string]any{"component": "webhook", "user": "alice", "uid": "1", "operation": "CREATE", "resource": "pods", "namespace": "shop"}
	removed := map[string]any{"component": "webhook", "user": "alice", "uid": "1", "operation": "DELETE", "path": "/validate-removal", "policies": "guarded"}
	for name, tc := range map[string]struct {
		engine  *webhook.Engine
		path    string
		request admission.Request
		percent int
		want    map[string]any // beside common; nil: nothing is logged
		common  map[string]any
	}{
		"refused": {limited, webhook.PathValidatePods, of(bad), 0, map[string]any{
			"path": "/validate-pods", "decision": "Deny", "reason": "PriorityClassNotAllowed,GracePeriodOutOfBounds", "policy": "limits", "policies": "limits", "name": "web-", "owner": "ReplicaSet/web",
			"message": `PriorityClass "low" is not allowed here: PodPolicy limits allows high. Name one of these in spec.priorityClassName, or ask the owner of the policy; ` +
				"terminationGracePeriodSeconds is 90 but must be 60 (PodPolicy limits: maximum 60 s). Podgrace sets that itself; it was not called, or another webhook changed the pod after it. Set it to 60, or try again",
		}, common},
		"refused in a dry run": {limited, webhook.PathValidatePods, of(strings.Replace(bad, `"low"`, `"high"`, 1), dryRun, func(r *admission.Request) {
			r.Object.Raw = []byte(strings.Replace(string(r.Object.Raw), `"priority":0`, `"priority":10`, 1))
		}), 0, map[string]any{
			"path": "/validate-pods", "decision": "Deny", "reason": "GracePeriodOutOfBounds", "policy": "limits", "policies": "limits", "name": "web-", "owner": "ReplicaSet/web", "dryRun": true,
			"message": "terminationGracePeriodSeconds is 90 but must be 60 (PodPolicy limits: maximum 60 s). Podgrace sets that itself; it was not called, or another webhook changed the pod after it. Set it to 60, or try again",
		}, common},
		"changed with a warning": {limited, webhook.PathMutatePods, of(bad), 0, map[string]any{
			"path": "/mutate-pods", "decision": "Warn", "reason": "GracePeriodOutOfBounds", "policy": "limits", "policies": "limits", "name": "web-", "owner": "ReplicaSet/web",
			"message":  "terminationGracePeriodSeconds is now 60, not 90: PodPolicy limits: maximum 60 s",
			"defaults": "terminationGracePeriodSeconds=60",
		}, common},
		"given defaults": {limited, webhook.PathMutatePods, of(plainPod), 100, map[string]any{
			"path": "/mutate-pods", "decision": "Allow", "reason": "Defaulted", "policies": "limits", "name": "p", "defaults": "priorityClassName=high,priority=10,preemptionPolicy=removed,terminationGracePeriodSeconds=45",
		}, common},
		"not in the sample":    {limited, webhook.PathMutatePods, of(plainPod), 0, nil, nil},
		"no policy is for it":  {newEngine(t, cluster(namespace("shop")), nil), webhook.PathMutatePods, of(plainPod), 100, nil, nil},
		"could not be decoded": {limited, webhook.PathMutatePods, of(`[]`), 0, map[string]any{"path": "/mutate-pods", "decision": "Deny", "reason": "Unjudged", "message": "decode the pod: json: cannot unmarshal array into Go value of type v1.Pod"}, common},
		"a removal": {guardedEngine(t, silentCluster(dbPod())), webhook.PathValidateRemoval, forceDelete(dbPod()), 0, map[string]any{
			"decision": "Deny", "reason": "Unsafe", "policy": "guarded", "resource": "pods", "namespace": "shop", "name": "db-0", "owner": "StatefulSet/db", "node": "n1", "message": nil,
		}, removed},
		"a removal that is warned about": {guardedEngine(t, silentCluster(dbPod()), guarding(func(r *v1alpha1.RemovalSection) { r.ForceDelete = v1alpha1.RemovalWarn })), webhook.PathValidateRemoval, forceDelete(dbPod()), 0, map[string]any{
			"decision": "Warn", "reason": "Unsafe", "policy": "guarded", "resource": "pods", "namespace": "shop", "name": "db-0", "owner": "StatefulSet/db", "node": "n1", "message": nil,
		}, removed},
		"a removal on somebody's word": {guardedEngine(t, silentCluster(dbPod(confirmed))), webhook.PathValidateRemoval, forceDelete(dbPod(confirmed)), 0, map[string]any{
			"decision": "Allow", "reason": "Confirmed", "resource": "pods", "namespace": "shop", "name": "db-0", "owner": "StatefulSet/db", "node": "n1",
		}, removed},
		"an allowed actor's": {guardedEngine(t, silentCluster(dbPod())), webhook.PathValidateRemoval, forceDelete(dbPod(), by(repair)), 0, map[string]any{
			"decision": "Allow", "reason": "AllowedActor", "user": repair, "resource": "pods", "namespace": "shop", "name": "db-0", "owner": "StatefulSet/db", "node": "n1",
		}, removed},
		"an ordinary removal": {guardedEngine(t, silentCluster(dbPod(ended))), webhook.PathValidateRemoval, forceDelete(dbPod(ended)), 0, nil, nil},
		"a node": {guardedEngine(t, silentCluster(dbPod())), webhook.PathValidateRemoval, removal("DELETE", "nodes", "", "n1", old(silentNode())), 0, map[string]any{
			"decision": "Deny", "reason": "Unsafe", "policy": "guarded", "resource": "nodes", "name": "n1", "node": "n1", "message": nil,
		}, removed},
		"nothing to judge": {guardedEngine(t, silentCluster(dbPod())), webhook.PathValidateRemoval, updated("", dbPod(), dbPod(labelled)), 100, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			decisions := webhook.NewDecisions(decisionLog(&out), tc.percent, prometheus.NewRegistry())
			handler := tc.engine.Handlers()[tc.path]
			want := webhook.Handler(handler).Handle(t.Context(), tc.request)
			got := decisions.Logged(tc.path, handler).Handle(t.Context(), tc.request)
			if want.Allowed != got.Allowed {
				t.Errorf("being logged changes the answer from %v to %v", want.Allowed, got.Allowed)
			}
			decisions.Flush(time.Minute)
			if strings.Contains(out.String(), "secret") {
				t.Errorf("more of the user than his name: %s", out.String())
			}
			timed := strings.Contains(out.String(), `"seconds":0.`) || strings.Contains(out.String(), `"seconds":1e-`)
			logged := lines(t, &out)
			if tc.want == nil {
				if len(logged) > 0 {
					t.Errorf("logged %v", logged)
				}
				return
			}
			if len(logged) != 1 {
				t.Fatalf("%d lines: %v", len(logged), logged)
			}
			if !timed {
				t.Error("how long it took is not told")
			}
			for key, value := range tc.common {
				if _, own := tc.want[key]; !own {
					tc.want[key] = value
				}
			}
			if message, asAnswered := tc.want["message"]; asAnswered && message == nil { // as the user is told: it names the time
				told := strings.Join(got.Warnings, "; ")
				if got.Result != nil {
					told = got.Result.Message
				}
				tc.want["message"] = told
				if got := logged[0]["message"].(string); len(told) < 20 || got[:20] != told[:20] {
					t.Errorf("message %q, told %q", got, told)
				}
				delete(tc.want, "message")
				delete(logged[0], "message")
			}
			if diff := cmp.Diff(tc.want, logged[0]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A tenant's texts forge no line, in neither format, and have a bound.
func TestDecisionLogIsNotForged(t *testing.T) {
	hostile := "alice\n{\"logger\":\"decision\",\"decision\":\"Allow\"}\nI1126 10:00:00.000000       1 decisions.go:1] \"decided\" logger=\"decision\"\r\x1b[2K\u009b2K\u202e" + strings.Repeat(`"\\#`, 1<<20)
	handler := func(context.Context, admission.Request) (webhook.Decision, error) {
		return webhook.Decision{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: hostile, OwnerReferences: []metav1.OwnerReference{{Kind: hostile, Name: hostile, Controller: new(true)}}}},
			Result: defaulting.Result{Denials: []defaulting.Denial{{Reason: policy.Reason{Code: "No"}, Policy: hostile, Message: hostile}}, Policies: []string{hostile, hostile}}}, nil
	}
	for _, format := range []string{logging.Text, logging.JSON} {
		var out bytes.Buffer
		o := logging.Options{Format: format}
		req := forceDelete(dbPod(), by(hostile))
		req.UID, req.Name, req.Namespace, req.SubResource, req.Operation = types.UID(hostile), "", hostile, hostile, "\n"
		decisions := webhook.NewDecisions(o.New(&out), 0, prometheus.NewRegistry())
		decisions.Logged("/validate-removal", handler).Handle(t.Context(), req)
		decisions.Flush(time.Minute)
		text := out.String()
		if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") || strings.ContainsAny(text, "\r\x1b\u009b\u202e") {
			t.Errorf("%s: not one harmless line: %.400q", format, text)
		}
		if len(text) > 10<<10 { // twice the bounds: quotes are escaped
			t.Errorf("%s: %d bytes", format, len(text))
		}
	}
}

// flooded is a log within a bubble of time, and what writes to it.
type flooded struct {
	out       bytes.Buffer
	registry  *prometheus.Registry
	decisions *webhook.Decisions
}

func newFlooded() *flooded {
	f := &flooded{registry: prometheus.NewRegistry()}
	f.decisions = webhook.NewDecisions(decisionLog(&f.out), 100, f.registry)
	return f
}

// lines are what was logged since they were looked at last.
func (f *flooded) lines(t *testing.T) []map[string]any {
	t.Helper()
	f.decisions.Flush(time.Minute)
	return lines(t, &f.out)
}

// say logs a decision: refused or warned about for a reason, or, where that is empty, allowed.
func (f *flooded) say(t *testing.T, namespace, user, reason string, warn bool) {
	req := removal("DELETE", "pods", "", "db-0", by(user))
	req.Namespace = namespace
	var d webhook.Decision
	switch {
	case reason == "":
		d.Policies = []string{"p"}
	case warn:
		d.Warnings = []defaulting.Warning{{Reason: policy.Reason{Code: reason}}}
	default:
		d.Denials = []defaulting.Denial{{Reason: policy.Reason{Code: reason}}}
	}
	f.decisions.Logged("/x", func(context.Context, admission.Request) (webhook.Decision, error) { return d, nil }).Handle(t.Context(), req)
}

// A flood of refusals, warnings or allowed requests hides no line with another decision or reason or in another namespace, and adds a bounded number of lines. The next line of the same kind has
// the number of those that were left out.
func TestFloodHidesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlooded()
		for range 10000 {
			f.say(t, "hostile", "mallory", "Cheap", false)
			f.say(t, "hostile", "mallory", "Cheap", true)
			f.say(t, "hostile", "mallory", "", false)
		}
		if got := len(f.lines(t)); got != 60 {
			t.Errorf("%d lines of a flood, want 20 of each decision", got)
		}
		for decision, n := range counted(t, f.registry, "podgrace_decision_log_suppressed_total", "decision") {
			if n != 9980 {
				t.Errorf("%s: %v suppressed", decision, n)
			}
		}
		f.say(t, "hostile", "mallory", "Unsafe", false)
		f.say(t, "shop", "mallory", "Cheap", false)
		if got := len(f.lines(t)); got != 2 {
			t.Errorf("%d lines: another reason or namespace is hidden", got)
		}
		for range 10000 {
			f.say(t, "", "mallory", "Unsafe", false)
		}
		f.say(t, "", "alice", "Unsafe", false)
		if got := f.lines(t); len(got) != 21 || got[20]["user"] != "alice" {
			t.Errorf("%d lines: a flood on Nodes hides another user's", len(got))
		}
		time.Sleep(time.Second)
		f.say(t, "hostile", "alice", "Cheap", false)
		f.say(t, "hostile", "mallory", "Cheap", false)
		got := f.lines(t)
		if len(got) != 1 || got[0]["suppressed"] != 9980.0 || got[0]["user"] != "alice" {
			t.Errorf("got %v", got)
		}
	})
}

// The sample is a share of the reviews, whoever asks.
func TestSampleOfAllowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		decisions := webhook.NewDecisions(decisionLog(&out), 10, prometheus.NewRegistry())
		handler := decisions.Logged("/x", func(context.Context, admission.Request) (webhook.Decision, error) {
			return webhook.Decision{Result: defaulting.Result{Policies: []string{"p"}}}, nil
		})
		for i := range 1000 {
			req := forceDelete(dbPod())
			req.UID, req.Namespace = types.UID(fmt.Sprintf("%08x-0000", i*2654435761)), fmt.Sprint(i%100)
			handler.Handle(t.Context(), req)
			time.Sleep(time.Second)
		}
		decisions.Flush(time.Minute)
		if got := len(lines(t, &out)); got < 70 || got > 130 {
			t.Errorf("%d of 1000 are logged, want about 100", got)
		}
	})
}

// A review that is refused unread is told by what is known of it.
func TestUnreadReviewIsLogged(t *testing.T) {
	var out bytes.Buffer
	e := newEngine(t, cluster(), nil)
	e.Decisions = webhook.NewDecisions(decisionLog(&out), 0, prometheus.NewRegistry())
	req := review(pods, `{"spec":{"tolerations":[`+strings.Repeat("{},", 200000)+`{}]}}`)
	req.UID = "8e6d7a5c-0000-4000-8000-000000000001"
	if got := served(t, e, webhook.PathValidatePods, req); got.Allowed {
		t.Fatal("it is allowed")
	}
	e.Decisions.Flush(time.Minute)
	want := []map[string]any{{"component": "webhook", "decision": "Deny", "reason": "TooDear", "uid": string(req.UID), "path": "/validate-pods"}}
	if diff := cmp.Diff(want, lines(t, &out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Nobody waits for the log: while what it writes to stands still, all are answered; what has no room is left out and counted, and at the end the rest is written.
func TestLogThatStandsStill(t *testing.T) {
	t.Parallel()
	const denials, room = 380, 256 // fewer than the total limits take
	reader, writer := io.Pipe()    // it takes nothing that is not read
	o, registry := logging.Options{Format: logging.JSON}, prometheus.NewRegistry()
	f := &flooded{registry: registry, decisions: webhook.NewDecisions(o.New(writer), 0, registry)}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for i := range denials {
			f.say(t, fmt.Sprint("ns-", i%200), fmt.Sprint("alice-", i), "Unsafe", false)
		}
	}()
	select {
	case <-answered:
	case <-time.After(time.Minute):
		t.Fatal("who is refused waits for the log")
	}
	f.decisions.Flush(0) // nor does the end wait for ever
	left := int(counted(t, registry, "podgrace_decision_log_suppressed_total", "decision")["Deny"])
	if written := denials - left; written < room || written > room+1 { // one is being written
		t.Errorf("%d of %d are left out, with room for %d", left, denials, room)
	}
	read := make(chan string)
	go func() {
		text, _ := io.ReadAll(reader)
		read <- string(text)
	}()
	f.decisions.Flush(time.Minute)
	f.say(t, fmt.Sprint("ns-", (denials-1)%200), fmt.Sprint("alice-", denials-1), "Unsafe", false)
	f.decisions.Flush(time.Minute)
	_ = writer.Close()
	text := <-read
	if got := strings.Count(text, "\n"); got != denials-left+1 {
		t.Errorf("%d lines are written, want %d", got, denials-left+1)
	}
	if last := text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:]; !strings.Contains(last, `"suppressed":1`) {
		t.Errorf("the next line does not tell what was left out: %s", last)
	}
}

// A sample of all that is allowed hides nothing of what is allowed on somebody's word.
func TestSampleHidesNoWord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlooded()
		for i := range 1000 {
			f.say(t, "shop", fmt.Sprint("mallory-", i), "", false)
		}
		f.lines(t)
		req := removal("DELETE", "pods", "", "db-0", by("alice"))
		req.Namespace = "shop"
		f.decisions.Logged("/x", func(context.Context, admission.Request) (webhook.Decision, error) {
			return webhook.Decision{Removal: &webhook.Removal{Decision: guard.Decision{Verdict: guard.Allow, Reason: guard.Confirmed}}}, nil
		}).Handle(t.Context(), req)
		if got := f.lines(t); len(got) != 1 || got[0]["reason"] != "Confirmed" {
			t.Errorf("got %v", got)
		}
	})
}

// Reviews that are refused before their namespace is known use up no limit of Nodes and volumes, which have none either.
func TestUnreadReviewsHideNothing(t *testing.T) {
	f := newFlooded()
	e := newEngine(t, cluster(), nil)
	e.Decisions = f.decisions
	req := review(pods, `{"spec":{"tolerations":[`+strings.Repeat("{},", 100000)+`{}]}}`)
	for range 10 { // of each path, which are kinds of their own: more than a namespace has lines
		for path := range e.Handlers() {
			served(t, e, path, req)
		}
	}
	if got := len(f.lines(t)); got < 50 || got == 80 {
		t.Errorf("%d lines of unread reviews", got)
	}
	f.say(t, "", "alice", "Unsafe", false)
	if got := f.lines(t); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

// A large review that is refused because time is over is logged as that alone, whatever is decided of it afterwards.
func TestReviewThatIsLateIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlooded()
		refused, decided := make(chan struct{}), make(chan struct{})
		handler := f.decisions.Logged("/x", func(context.Context, admission.Request) (webhook.Decision, error) {
			<-refused
			return webhook.Decision{Result: defaulting.Result{Policies: []string{"p"}}}, nil
		})
		in := intake.New(func(string, string, types.UID) { close(refused) }).Handler("/x", admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
			defer close(decided)
			return handler.Handle(ctx, req)
		}))
		body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","object":{"a":"` + strings.Repeat("x", 300<<10) + `"}}}`
		call := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x?timeout=1100ms", strings.NewReader(body))
		call.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		in.ServeHTTP(recorder, call)
		if !strings.Contains(recorder.Body.String(), "TooDear") {
			t.Errorf("answered %s", recorder.Body)
		}
		<-decided
		if got := f.lines(t); len(got) > 0 {
			t.Errorf("logged beside the refusal: %v", got)
		}
	})
}

// What the decision log adds to a decision and its answer: of a pod that gets defaults, one in a hundred of which is logged, and of one that is refused,
// in a flood, of which the limits let some through; and a line by itself.
func BenchmarkDecisionLog(b *testing.B) {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 10}
	e := newEngine(b, cluster(namespace("shop"), class), nil, limiting())
	refused := strings.Replace(plainPod, `"priority":0`, `"priority":0,"priorityClassName":"low"`, 1)
	for _, bench := range []struct {
		name, path, pod string
	}{{"defaulted", webhook.PathMutatePods, plainPod}, {"refused", webhook.PathValidatePods, refused}} {
		log := decisionLog(&bytes.Buffer{})
		logged := webhook.NewDecisions(log, 1, prometheus.NewRegistry())
		for name, handler := range map[string]webhook.Handler{"off": e.Handlers()[bench.path], "on": logged.Logged(bench.path, e.Handlers()[bench.path])} {
			b.Run(bench.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				req := review(pods, bench.pod)
				for i := 0; b.Loop(); i++ {
					req.UID = types.UID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", i))
					handler.Handle(b.Context(), req)
				}
			})
		}
	}
	b.Run("line", func(b *testing.B) {
		b.ReportAllocs()
		o := logging.Options{Format: logging.JSON}
		log := o.New(io.Discard)
		entry := decisionlog.Entry{Component: "webhook", Decision: decisionlog.Deny, Reason: "Unsafe", Message: strings.Repeat("why ", 60), Policy: "p", Policies: "p", User: "alice", UID: "8e6d7a5c", Operation: "DELETE", Resource: "pods", Namespace: "shop", Name: "db-0", Seconds: 0.0012}
		for b.Loop() {
			decisionlog.Log(log, entry)
		}
	})
}
