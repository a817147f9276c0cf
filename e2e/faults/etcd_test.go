package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
)

// etcdAway is how long the API server has no etcd: long enough for the leader of the webhooks to lose its lease.
const etcdAway = 30 * time.Second

// patience is how long a request is waited for that nobody can answer.
const patience = 3 * time.Second

// The API server loses etcd in the middle of the review of a force delete, for half a minute. What was not refused before,
// meanwhile or afterwards is not removed, and nothing is left half done by which it could be.
func TestEtcdAway(t *testing.T) {
	g := newGround(t)
	node := g.node(t, "etcd-away")
	untouched, terminating, heldPod := g.runs(t, node, "untouched"), g.runs(t, node, "terminating"), g.runs(t, node, "held", held)
	for _, p := range []*corev1.Pod{terminating, heldPod} {
		if err := g.Client.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	guarded := []*corev1.Pod{untouched, terminating, heldPod}
	ordinary := g.runs(t, node, "ordinary")
	second := g.replica(t)

	f := g.newFront(t)
	began, resume := g.cutUnderReview(t, f, node, untouched)
	defer resume()
	for time.Since(began) < etcdAway-2*patience {
		g.withoutEtcd(t, patience, guarded, ordinary)
	}
	// These are still waited for when etcd is back: the API server then goes on with them.
	pending := make(chan struct{})
	go func() {
		defer close(pending)
		g.withoutEtcd(t, time.Minute, guarded, nil)
	}()
	suite.Eventually(t, "the end of the half minute", func(ctx context.Context) (bool, error) {
		_, err := g.apiServerReady(ctx)
		return time.Since(began) >= etcdAway && err != nil, nil
	})
	resume()
	<-pending
	suite.Eventually(t, "the API server with its etcd", g.apiServerReady)
	for _, tc := range []struct {
		name string
		w    *podgrace.Webhook
	}{{"leader", g.Webhook}, {"follower", second}} {
		t.Run(tc.name, func(t *testing.T) {
			g.decides(t, tc.w)
			f.inTurn(tc.w)
			for _, p := range guarded {
				wantRefused(t, "a force delete of "+p.Name, suite.Judged(t, func() error { return g.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0)) }),
					"pod "+g.namespace+"/"+p.Name+" may still run on "+node+" (ready)", "the policy protects all pods", "kubectl podgrace confirm -n "+g.namespace+" "+p.Name)
			}
		})
	}
	g.ordinaryWork(t, node)
	for _, p := range guarded {
		g.noRoad(t, p)
	}
}

// cutUnderReview stops etcd when the API server has read a pod that is to be force-deleted and asks the webhook, which can
// then read nothing of its node any more.
func (g *ground) cutUnderReview(t *testing.T, f *front, node string, p *corev1.Pod) (began time.Time, resume func()) {
	t.Helper()
	stop := sync.OnceFunc(func() { began, resume = g.stopEtcd(t) })
	f.send(func(*admissionv1.AdmissionRequest) *podgrace.Webhook {
		stop()
		return g.Webhook
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	// After a refusal the API server reads the pod once more, so that the person does not get our words here.
	if err := g.Client.Delete(ctx, p, client.GracePeriodSeconds(0)); err == nil || strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("the force delete under review: %v", err)
	}
	seen := f.seen()
	if len(seen) == 0 {
		t.Fatal("the review was not answered in time")
	}
	for _, part := range []string{"may still run on " + node + " (whose state could not be read)", "try again when its node's state can be read"} {
		if seen[0].res.Allowed || !strings.Contains(seen[0].res.Result.Message, part) {
			t.Errorf("the answer lacks %q: %v", part, seen[0].res)
		}
	}
	f.inTurn(g.Webhook)
	return began, resume
}

// stopEtcd stops the cluster's etcd and returns when the API server has none.
func (g *ground) stopEtcd(t *testing.T) (began time.Time, resume func()) {
	pid, err := g.EtcdPID()
	if err != nil {
		t.Error(err)
		return time.Time{}, func() {}
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Error(err)
	}
	// Its threads stop when they run next: until all have, one of them may still answer.
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return stopped(pid) }); err != nil {
		t.Errorf("etcd was not stopped: %v", err)
	}
	return time.Now(), sync.OnceFunc(func() {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	})
}

// stopped reports whether all threads of a process are.
func stopped(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, name := range threads {
		stat, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // it has ended
			continue
		}
		if err != nil {
			return false, err
		}
		// The name, in parentheses, may have any character; the state follows it (proc_pid_stat(5)).
		if _, after, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(") ")); !found || after[0] != 'T' {
			return false, nil
		}
	}
	return len(threads) > 0, nil
}

// withoutEtcd tries, all at once, a force delete of each pod, which must not go through, and ordinary work, which fails.
func (g *ground) withoutEtcd(t *testing.T, patience time.Duration, guarded []*corev1.Pod, ordinary *corev1.Pod) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all sync.WaitGroup
	for _, p := range guarded {
		all.Go(func() {
			if err := g.Client.Delete(ctx, p, client.GracePeriodSeconds(0)); err == nil {
				t.Errorf("a force delete of %s went through", p.Name)
			}
		})
	}
	if ordinary != nil {
		all.Go(func() {
			if err := g.Client.Patch(ctx, ordinary.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))); err == nil {
				t.Error("an update went through: etcd is not away")
			}
		})
	}
	all.Wait()
}

// apiServerReady reports whether the API server has an etcd.
func (g *ground) apiServerReady(ctx context.Context) (bool, error) {
	kube, err := kubernetes.NewForConfig(g.Config)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = kube.Discovery().RESTClient().Get().AbsPath("/readyz/etcd").Do(ctx).Error()
	return err == nil, err
}

// decides fails unless a webhook is there, ready, and knows the policy.
func (g *ground) decides(t *testing.T, w *podgrace.Webhook) {
	t.Helper()
	if err := syscall.Kill(w.PID, 0); err != nil {
		t.Fatalf("the webhook has ended: %v", err)
	}
	if code, text, err := get(t.Context(), w.HealthURL+"/readyz?verbose"); err != nil || code != http.StatusOK {
		t.Errorf("/readyz: %d %s, %v", code, text, err)
	}
	code, text, err := get(t.Context(), w.MetricsURL+"/metrics")
	if err != nil || !strings.Contains(text, `podgrace_pod_policy_in_force_generation{policy="`+g.namespace+"-") {
		t.Errorf("the policy is not in force: %d, %v", code, err)
	}
}

func (g *ground) ordinaryWork(t *testing.T, node string) {
	t.Helper()
	created := g.runs(t, node, "created")
	if got := *created.Spec.TerminationGracePeriodSeconds; got != 45 {
		t.Errorf("a new pod has a grace period of %d s", got)
	}
	if err := g.Client.Delete(t.Context(), created); err != nil {
		t.Errorf("an ordinary delete: %v", err)
	}
	if now := g.stays(t, created, "an ordinary delete"); *now.DeletionGracePeriodSeconds != 45 {
		t.Errorf("an ordinary delete gave %d s", *now.DeletionGracePeriodSeconds)
	}
}

// noRoad fails if anything was stored by which what everybody may do removes the pod.
func (g *ground) noRoad(t *testing.T, p *corev1.Pod) {
	t.Helper()
	now := g.stays(t, p, "half a minute without etcd")
	if deleted := now.DeletionTimestamp != nil; deleted == (p.Name == "untouched") || deleted && *now.DeletionGracePeriodSeconds != 45 || now.Status.Phase != corev1.PodRunning {
		t.Errorf("%s was left %s, deleted at %v with a grace of %v", p.Name, now.Status.Phase, now.DeletionTimestamp, now.DeletionGracePeriodSeconds)
	}
	for _, tc := range []struct {
		what string
		err  error
	}{
		{"an update", g.patch(t, g.Client, p, `{"metadata":{"labels":{"a":"b"},"finalizers":null}}`)},
		{"a status", g.patchStatus(t, p, `{"status":{"message":"harmless"}}`)},
		{"a plain delete", g.Client.Delete(t.Context(), p)},
		{"an eviction", g.Client.SubResource("eviction").Create(t.Context(), p.DeepCopy(), &policyv1.Eviction{})},
	} {
		if tc.err != nil {
			t.Errorf("%s of %s: %v", tc.what, p.Name, tc.err)
		}
	}
	if now := g.stays(t, p, "ordinary work"); *now.DeletionGracePeriodSeconds != 45 {
		t.Errorf("%s was given %d s", p.Name, *now.DeletionGracePeriodSeconds)
	}
}

func (g *ground) patchStatus(t *testing.T, p *corev1.Pod, text string) error {
	t.Helper()
	return g.Client.Status().Patch(t.Context(), p.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text)))
}
