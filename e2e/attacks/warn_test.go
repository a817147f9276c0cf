package attacks

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
)

// With policies that only warn, Podgrace refuses no request of anybody, whatever the state of the webhook is: the random attacks and ordinary work.
func TestWarnRefusesNothing(t *testing.T) {
	s := startAlone(t)
	w := newWalk(t, s, warning)
	w.hasty = true
	wh := &process{suite: s}
	wh.state(t, w, "up", nil)
	wh.state(t, w, "restarting", wh.restarting)
	wh.state(t, w, "away", func(t *testing.T) func() { wh.stop(t); return func() { wh.start(t) } })
	if suite.All() { // each call takes its whole timeout
		wh.state(t, w, "hung", wh.hung)
	}
	w.denyForAWhile(t)
	wh.state(t, w, "up, after a policy that denied", nil)
	wh.state(t, w, "away, after a policy that denied", func(t *testing.T) func() { wh.stop(t); return func() {} })
	wh.state(t, w, "its namespace deleted", func(t *testing.T) func() {
		if err := s.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: podgraceNamespace}}); err != nil {
			t.Fatal(err)
		}
		return func() {}
	})
}

const podgraceNamespace = "podgrace-system"

// startAlone returns a cluster of the test's own, which loses Podgrace's namespace in the end.
func startAlone(t *testing.T) *suite.Suite {
	t.Helper()
	if os.Getenv(suite.KubeconfigVariable) != "" {
		t.Skip("it attacks no cluster that somebody else may need")
	}
	alone := &suite.Shared{Options: shared.Options}
	t.Cleanup(func() {
		if err := alone.Stop(); err != nil {
			t.Error(err)
		}
	})
	return alone.Get(t)
}

// warning makes the policy that is applied first, and one that warns about all pods.
func warning(t *testing.T, w *world) {
	t.Helper()
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := podgrace.Objects(filepath.Join(root, "deploy", "policies", "first.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if err := podgrace.ApplyObject(t.Context(), w.Client, o); err != nil {
			t.Fatal(err)
		}
	}
	w.WaitInForce(t, &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "first", Generation: 1}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn}}})
	w.Policy(t, w.all, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{
		ForceDelete: v1alpha1.RemovalWarn, Protect: v1alpha1.ProtectAll, ZeroGrace: v1alpha1.ZeroGraceWarn}})
}

// denyForAWhile arms the guard by a policy that denies, deletes the policy, and returns when the guard is disarmed.
func (w *walk) denyForAWhile(t *testing.T) {
	t.Helper()
	p := w.Policy(t, w.stateful, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectStateful}})
	if err := w.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	rights := []authorizationv1.ResourceAttributes{{Resource: "guardednodes"}}
	for _, ns := range w.namespaces() {
		rights = append(rights, authorizationv1.ResourceAttributes{Resource: "guardednamespaces", Name: ns})
	}
	for _, right := range rights {
		right.Namespace, right.Group, right.Verb = podgraceNamespace, v1alpha1.GroupVersion.Group, "judge"
		suite.Eventually(t, "the guard disarmed: "+right.Resource+" "+right.Name, func(ctx context.Context) (bool, error) {
			asked := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "system:serviceaccount:" + podgraceNamespace + ":podgrace-in-force", ResourceAttributes: &right}}
			err := w.Client.Create(ctx, asked)
			return !asked.Status.Allowed, err
		})
	}
}

// process is the webhook's, which comes and goes at one address.
type process struct{ suite *suite.Suite }

func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.suite.Webhook.Stop(); err != nil {
		t.Fatal(err)
	}
}

func (p *process) start(t *testing.T) {
	t.Helper()
	if err := p.starts(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// starts starts the webhook where the API server looks for it, and returns when it is ready.
func (p *process) starts(ctx context.Context) error {
	old := p.suite.Webhook
	at, err := url.Parse(old.URL)
	if err != nil {
		return err
	}
	now, err := podgrace.Start(ctx, p.suite.Cluster, filepath.Join(p.suite.Dir, "bin", "webhook"), podgrace.Options{Args: []string{"--port", at.Port()}})
	if err != nil {
		return err
	}
	now.URL, p.suite.Webhook = old.URL, now
	return nil
}

// restarting kills the webhook and starts it again until the state ends.
func (p *process) restarting(t *testing.T) (end func()) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			_ = p.suite.Webhook.Kill()
			if err := p.starts(t.Context()); err != nil {
				done <- err
				return
			}
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
		}
	}()
	return func() {
		close(stop)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func (p *process) hung(t *testing.T) (end func()) {
	t.Helper()
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(p.suite.Webhook.PID, s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	return func() { signal(syscall.SIGCONT) }
}

// state walks until each attempt was tried in a state, and all ordinary work was done. It fails for each refusal by Podgrace, also of a request by a controller.
func (p *process) state(t *testing.T, w *walk, name string, enter func(*testing.T) (leave func())) {
	t.Run(name, func(t *testing.T) {
		if enter != nil {
			defer enter(t)()
		}
		before, begin := w.refusals(t), time.Now()
		w.record = newRecord()
		const atMost = 8
		for rounds := 0; rounds < 2 || rounds < atMost && len(w.unsent()) > 0; rounds++ {
			w.round(t, slices.Concat(attempts, attempts, everyday))
		}
		t.Log(w.summary(time.Since(begin)))
		if unsent := w.unsent(); len(unsent) > 0 {
			t.Errorf("not tried, or of ordinary work not done, so that nothing is shown: %q", unsent)
		}
		seen := map[string]int{}
		for _, s := range w.record.last {
			by := refusedBy(s.says)
			if by == "" || slices.Contains(authorizing, by) {
				continue
			}
			if seen[by]++; seen[by] == 1 {
				t.Errorf("%s\n-> %s", s.request, s.says)
			}
		}
		after := w.refusals(t)
		for _, by := range slices.Sorted(maps.Keys(after)) {
			if n := after[by] - before[by]; n > 0 && !slices.Contains(authorizing, by) {
				t.Errorf("%s refused %d requests, %d of them of the test", by, n, seen[by])
			}
		}
	})
}

// unsent are the attempts that were not tried, and the ordinary work that was not done.
func (w *walk) unsent() []string {
	var unsent []string
	for _, a := range attempts {
		if a.name != "" && len(w.record.counts[a.name]) == 0 {
			unsent = append(unsent, a.name)
		}
	}
	for _, a := range everyday {
		if w.record.counts[a.name][let] == 0 {
			unsent = append(unsent, a.name)
		}
	}
	return unsent
}

// authorizing are the ValidatingAdmissionPolicies that decide who may write Podgrace's own annotations, as RBAC decides who may write an object. They depend on no PodPolicy: what was
// written without the right would count as soon as a policy denies. The attacks write such annotations.
var authorizing = []string{"binding.podgrace.dev", "confirm-force-delete.podgrace.dev", "confirm-off.podgrace.dev"}

var refusal = regexp.MustCompile(`(?:ValidatingAdmissionPolicy '|admission webhook "|failed calling webhook ")([a-z.-]*podgrace\.dev)`)

// refusedBy returns the webhook or the ValidatingAdmissionPolicy of Podgrace by which a request was refused; empty: it was not.
func refusedBy(says string) string {
	if m := refusal.FindStringSubmatch(says); m != nil {
		return m[1]
	}
	return ""
}

// The API server's counters of refusals. A call that fails is counted by the first only where the webhook fails closed.
var refusalCounters = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^apiserver_admission_webhook_rejection_count\{.*\bname="([a-z.-]*podgrace\.dev)".*\} ([0-9.e+]+)$`),
	regexp.MustCompile(`(?m)^apiserver_validating_admission_policy_check_total\{enforcement_action="deny",.*\bpolicy="([a-z.-]*podgrace\.dev)".*\} ([0-9.e+]+)$`),
}

// refusals returns how many requests the API server has refused because of Podgrace, by the webhook or the ValidatingAdmissionPolicy.
func (w *walk) refusals(t *testing.T) map[string]int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(w.Config.Host, "/")+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := w.users["root"].Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, counter := range refusalCounters {
		for _, m := range counter.FindAllSubmatch(text, -1) {
			n, err := strconv.ParseFloat(string(m[2]), 64)
			if err != nil {
				t.Fatal(err)
			}
			counts[string(m[1])] += int(n)
		}
	}
	return counts
}

// everyday is work that a cluster has every day, and what is done by hand when something is stuck.
var everyday = []attempt{
	{"ordinary delete", (*walk).ordinaryDelete},
	{"delete of a pending pod", (*walk).pendingDelete},
	{"finished pod with a finalizer", (*walk).finishedPod},
	{"collection around a finished pod", (*walk).collection},
	{"force delete of a bare pod", (*walk).forceDelete},
	{"end written by no kubelet", (*walk).virtualKubelet},
	{"drain", (*walk).drain},
	{"grace period of 0", (*walk).zeroGrace},
	{"rollout and scaling", (*walk).rollout},
	{"Job", (*walk).job},
	{"garbage collection by owner", (*walk).garbage},
	{"node of the autoscaler", (*walk).emptyNode},
	{"detach", (*walk).attached},
	{"namespace deletion", (*walk).namespaceDeletion},
}

// work names the last request: it is done when that passes.
func work(name string, rs ...request) []request {
	rs[len(rs)-1].attempt = name
	return rs
}

func posts(who, path string, o any) request {
	return request{who: who, method: http.MethodPost, path: path, contentType: asJSON, body: toJSON(o)}
}

func deletes(who, path string, query ...string) request {
	r := request{who: who, method: http.MethodDelete, path: path, query: url.Values{}}
	for _, q := range query {
		key, value, _ := strings.Cut(q, "=")
		r.query.Set(key, value)
	}
	return r
}

const forced = "gracePeriodSeconds=0"

// fresh is a pod that is bound to a busy node, and the request that makes it. It is in any of the namespaces.
func (w *walk) fresh(change ...func(*corev1.Pod)) (*corev1.Pod, request) {
	w.made++
	of := template("fresh", busy)
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: of.ObjectMeta, Spec: of.Spec}
	p.Namespace, p.Name, p.Spec.NodeName = oneOf(w, w.namespaces()), fmt.Sprintf("fresh-%d", w.made), busy+"-1"
	p.Spec.Hostname = p.Name // so that it is stateful
	for _, c := range change {
		c(p)
	}
	return p, posts("edit", podsPath(p), p)
}

func podsPath(p *corev1.Pod) string { return "/api/v1/namespaces/" + p.Namespace + "/pods" }

// ends is what the kubelet says of a pod that has ended.
func ends(p *corev1.Pod) request {
	return mergePatch("", kubelet(p.Spec.NodeName), podPath(p, "status"), nil, `{"status":{"phase":"Succeeded"}}`)
}

func (w *walk) ordinaryDelete() []request {
	p, made := w.fresh()
	return work("ordinary delete", made, deletes("edit", podPath(p)), ends(p), deletes(kubelet(p.Spec.NodeName), podPath(p), forced))
}

func (w *walk) pendingDelete() []request {
	p, made := w.fresh(func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.SchedulerName = "", "none" })
	return work("delete of a pending pod", made, deletes("edit", podPath(p)))
}

// finishedPod has a finalizer when it is deleted, as those of workflow engines have.
func (w *walk) finishedPod() []request {
	p, made := w.fresh(func(p *corev1.Pod) { p.Finalizers = []string{hold} })
	rs := []request{made, ends(p)}
	if w.one(2) { // it is deleted before it ends
		rs = []request{made, deletes("edit", podPath(p)), ends(p), deletes(kubelet(p.Spec.NodeName), podPath(p), forced)}
	}
	evicted := &policyv1.Eviction{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"}, ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	rs = append(rs,
		deletes("edit", podPath(p)), deletes("edit", podPath(p)), deletes("edit", podPath(p), "gracePeriodSeconds=30"), posts("edit", podPath(p, "eviction"), evicted),
		mergePatch("", "edit", podPath(p), nil, `{"metadata":{"labels":{"a":"b"}}}`),
		mergePatch("", "remover", podPath(p, "status"), nil, `{"status":{"message":"seen"}}`),
		deletes("edit", podPath(p), forced), deletes("edit", podPath(p)),
		mergePatch("", "edit", podPath(p), nil, `{"metadata":{"finalizers":null}}`))
	return work("finished pod with a finalizer", rs...)
}

// collection deletes pods, among them one that has ended and waits for its finalizer.
func (w *walk) collection() []request {
	labels := map[string]string{"app": fmt.Sprintf("collection-%d", w.made)}
	ns := oneOf(w, w.namespaces())
	in := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Namespace, p.Name, p.Labels = ns, name+"-"+p.Name, labels }
	}
	_, first := w.fresh(in("a"))
	p, made := w.fresh(in("m"), func(p *corev1.Pod) { p.Finalizers = []string{hold} })
	_, last := w.fresh(in("z"))
	selected := "labelSelector=app=" + labels["app"]
	return work("collection around a finished pod", first, made, last, ends(p), deletes("edit", podPath(p)), deletes("edit", podsPath(p), selected), deletes("edit", podsPath(p), selected),
		deletes("edit", podsPath(p), selected, forced), mergePatch("", "edit", podPath(p), nil, `{"metadata":{"finalizers":null}}`))
}

func (w *walk) forceDelete() []request {
	p, made := w.fresh()
	return work("force delete of a bare pod", made, deletes("edit", podPath(p), forced))
}

func (w *walk) virtualKubelet() []request {
	p, made := w.fresh()
	return work("end written by no kubelet", made, mergePatch("", "remover", podPath(p, "status"), nil, `{"status":{"phase":"Failed"}}`), deletes("remover", podPath(p)))
}

func (w *walk) drain() []request {
	p, made := w.fresh()
	e := &policyv1.Eviction{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"}, ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	if w.one(2) {
		e.DeleteOptions = &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	}
	return work("drain", made, posts("operator", podPath(p, "eviction"), e), ends(p), deletes(kubelet(p.Spec.NodeName), podPath(p), forced))
}

func (w *walk) zeroGrace() []request {
	p, made := w.fresh(func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(0)) })
	set := w.statefulSet(p.Namespace, busy)
	set.Name, set.Spec.Replicas, set.Spec.Template.Spec.TerminationGracePeriodSeconds = p.Name, new(int32(0)), new(int64(0))
	path := "/apis/apps/v1/namespaces/" + p.Namespace + "/statefulsets"
	return work("grace period of 0", made, deletes("edit", podPath(p)), posts("edit", path, set), deletes("edit", path+"/"+set.Name))
}

func (w *walk) rollout() []request {
	w.made++
	path := "/apis/apps/v1/namespaces/" + oneOf(w, w.namespaces()) + "/deployments/web"
	return work("rollout and scaling", mergePatch("", "edit", path, nil, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"v":"%d"}}}}}`, w.made)),
		mergePatch("", "edit", path+"/scale", nil, `{"spec":{"replicas":2}}`), mergePatch("", "edit", path+"/scale", nil, fmt.Sprintf(`{"spec":{"replicas":%d}}`, perGroup)))
}

func (w *walk) job() []request {
	w.made++
	of := template("job", busy)
	of.Spec.RestartPolicy = corev1.RestartPolicyNever
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: oneOf(w, w.namespaces()), Name: fmt.Sprintf("job-%d", w.made)}, Spec: batchv1.JobSpec{ActiveDeadlineSeconds: new(int64(1)), TTLSecondsAfterFinished: new(int32(0)), Template: of}}
	return work("Job", posts("edit", "/apis/batch/v1/namespaces/"+j.Namespace+"/jobs", j))
}

func (w *walk) garbage() []request {
	w.made++
	d := w.deployment(oneOf(w, w.namespaces()))
	d.Name, d.Spec.Replicas = fmt.Sprintf("gone-%d", w.made), new(int32(1))
	d.Spec.Selector.MatchLabels = map[string]string{"app": d.Name}
	d.Spec.Template = template(d.Name, busy)
	path := "/apis/apps/v1/namespaces/" + d.Namespace + "/deployments"
	return work("garbage collection by owner", posts("edit", path, d), deletes("edit", path+"/"+d.Name, "propagationPolicy="+string(oneOf(w, []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground}))))
}

// emptyNode comes and goes. Another one is held by a finalizer, and has a pod when that is taken away.
func (w *walk) emptyNode() []request {
	n, made := w.spare()
	rs := []request{made, mergePatch("", "noder", nodesPath+"/"+n.Name, nil, fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"value":"nodeshutdown","effect":"NoExecute"}]}}`, corev1.TaintNodeOutOfService)), deletes("noder", nodesPath+"/"+n.Name)}
	of, made := w.spare()
	of.Finalizers = []string{hold}
	made.body = toJSON(of)
	_, bound := w.fresh(func(p *corev1.Pod) { p.Spec.NodeName = of.Name })
	return work("node of the autoscaler", append(rs, made, bound, deletes("noder", nodesPath+"/"+of.Name), mergePatch("", "noder", nodesPath+"/"+of.Name, nil, `{"metadata":{"finalizers":null}}`))...)
}

func (w *walk) attached() []request {
	w.made++
	const path = "/apis/storage.k8s.io/v1/volumeattachments"
	a := attachment(fmt.Sprintf("attached-%d", w.made), busy+"-1")
	return work("detach", posts("operator", path, a), mergePatch("", "operator", path+"/"+a.Name+"/status", nil, `{"status":{"attached":true}}`), deletes("operator", path+"/"+a.Name))
}

func (w *walk) namespaceDeletion() []request {
	w.made++
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("going-%d", w.made)}}
	d := w.deployment(ns.Name)
	return work("namespace deletion", posts("root", "/api/v1/namespaces", ns), posts("root", "/apis/apps/v1/namespaces/"+ns.Name+"/deployments", d), deletes("root", "/api/v1/namespaces/"+ns.Name))
}
