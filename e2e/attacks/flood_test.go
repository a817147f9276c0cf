package attacks

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/podgrace"
)

const (
	// containerMemory is what the webhook's container has (deploy/webhook/deployment.yaml).
	containerMemory = 512 << 20
	// floodBody is about the length of each review, floodSenders how many send at once.
	floodBody, floodSenders = 24 << 20, 20
)

// One who reaches the webhook's port, or who may create pods, can keep it busy with large reviews. It does not end by that, and ordinary reviews are
// answered all the same: a guard that fails closed would stop a cluster else.
func TestFlood(t *testing.T) {
	s := start(t)
	g, err := cluster.NewMemoryCgroup(fmt.Sprintf("podgrace-flood-%d", time.Now().UnixNano()), containerMemory)
	clustertest.Require(t, err)
	t.Cleanup(func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	bin := filepath.Join(s.Dir, "bin")
	program, err := podgrace.Build(t.Context(), bin)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = g.Wrap(bin, program); err != nil {
		t.Fatal(err)
	}
	t.Setenv("POD_MEMORY_LIMIT", fmt.Sprint(containerMemory))
	w, err := podgrace.Start(t.Context(), s.Cluster, program, podgrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop() })
	caller := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: floodSenders + 1,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // our own process on loopback
	t.Cleanup(caller.CloseIdleConnections)

	alone := ordinary(t, caller, w.URL, *flood/4, nil)
	bodies := floods()
	ctx, stop := context.WithCancel(t.Context())
	counts := &tally{n: map[string]int{}}
	var senders sync.WaitGroup
	for i := range floodSenders {
		senders.Go(func() {
			kinds := slices.Sorted(maps.Keys(bodies))
			for n := i; ctx.Err() == nil; n++ {
				kind := kinds[n%len(kinds)]
				path := []string{"/validate-pods", "/mutate-pods", "/validate-removal", "/validate-workloads"}[n%4]
				answer, err := post(ctx, caller, w.URL+path, bodies[kind])
				if ctx.Err() == nil {
					counts.add(kind, answer, err)
				}
			}
		})
	}
	beside := ordinary(t, caller, w.URL, *flood, counts.begun)
	stop()
	senders.Wait()

	peak, err := g.Peak()
	kills, errKills := g.Kills()
	if err := errors.Join(err, errKills); err != nil {
		t.Fatal(err)
	}
	t.Logf("large reviews: %s", counts)
	t.Logf("ordinary reviews alone: %s; beside the flood: %s, %.1f times the median; peak of memory %d MiB of %d, %d kills",
		alone, beside, beside.median().Seconds()/alone.median().Seconds(), peak>>20, containerMemory>>20, kills)
	if kills != 0 {
		t.Errorf("the kernel ended %d processes for want of memory", kills)
	}
	if _, err := post(t.Context(), caller, w.URL+"/validate-pods", ordinaryReviews()["/validate-pods"]); err != nil {
		t.Errorf("after the flood: %v", err)
	}
	if strings.Contains(counts.String(), noUID) {
		t.Errorf("answers that an API server takes for none: %s", counts)
	}
	for kind := range bodies {
		if counts.answered(kind) == 0 {
			t.Errorf("no review full of %s was answered: %s", kind, counts)
		}
	}
}

// floods are reviews of about floodBody, by what fills them.
func floods() map[string][]byte {
	pod := func(fill func(room int) string) []byte {
		const head = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"large","kind":{"group":"","version":"v1","kind":"Pod"},` +
			`"resource":{"group":"","version":"v1","resource":"pods"},"name":"p","namespace":"default","operation":"CREATE","userInfo":{"username":"nobody"},"dryRun":true,"object":`
		return []byte(head + fill(floodBody-len(head)) + "}}")
	}
	list := func(room int, element string) string {
		return "[" + strings.Repeat(element+",", room/(len(element)+1)) + element + "]"
	}
	const start = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"default"},"spec":{"containers":[{"name":"c","image":"i"`
	return map[string][]byte{
		"tolerations": pod(func(room int) string { return start + `}],"tolerations":` + list(room, `{}`) + "}}" }),
		"containers":  pod(func(room int) string { return start + `}],"initContainers":` + list(room, `{}`) + "}}" }),
		"env": pod(func(room int) string {
			return start + `,"env":` + list(room, `{"name":"E","value":"`+strings.Repeat(`\u003c`, 1000)+`"}`) + "}]}}"
		}),
		"node selector terms": pod(func(room int) string {
			return start + `}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":` +
				list(room, `{"matchExpressions":[{"key":"a","operator":"Exists"}]}`) + "}}}}}"
		}),
		"annotations": pod(func(room int) string {
			var text strings.Builder
			for i := 0; text.Len() < room; i++ {
				fmt.Fprintf(&text, `"a%d":"",`, i)
			}
			return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{` + text.String() + `"z":""}},"spec":{"containers":[]}}`
		}),
		"nested JSON": pod(func(room int) string { return strings.Repeat(`{"a":[`, room/8) + strings.Repeat("]}", room/8) }),
	}
}

// ordinaryReviews are small ones, by path: a pod that is created, and one that is force-deleted, which is judged by what is read live.
func ordinaryReviews() map[string][]byte {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "small"},
		Spec: corev1.PodSpec{Containers: container(), NodeName: marker}}
	created := admissionv1.AdmissionRequest{
		UID: "small", Operation: admissionv1.Create, Namespace: pod.Namespace, Name: pod.Name, DryRun: new(true),
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		UserInfo: authenticationv1.UserInfo{Username: "somebody"}, Object: runtime.RawExtension{Raw: toJSON(pod)},
	}
	deleted := created
	deleted.Operation, deleted.Object, deleted.OldObject = admissionv1.Delete, runtime.RawExtension{}, created.Object
	deleted.Options = runtime.RawExtension{Raw: []byte(`{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","gracePeriodSeconds":0}`)}
	reviews := map[string][]byte{}
	for path, r := range map[string]admissionv1.AdmissionRequest{"/mutate-pods": created, "/validate-pods": created, "/validate-removal": deleted} {
		reviews[path] = toJSON(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &r})
	}
	return reviews
}

// latencies of the answers, in the order of size.
type latencies []time.Duration

func (l latencies) median() time.Duration { return l[len(l)/2] }

func (l latencies) String() string {
	return fmt.Sprintf("%d, median %s, slowest %s", len(l), l.median().Round(10*time.Microsecond), l[len(l)-1].Round(time.Millisecond))
}

// ordinary sends small reviews one after the other for a time, once there is what they are to be sent beside, and fails the test where one is not
// answered, or not allowed.
func ordinary(t *testing.T, caller *http.Client, url string, within time.Duration, begun func() bool) latencies {
	t.Helper()
	reviews := ordinaryReviews()
	paths := slices.Sorted(maps.Keys(reviews))
	var took latencies
	deadline := time.Now().Add(within)
	for n := 0; len(took) == 0 || time.Now().Before(deadline); n++ {
		path := paths[n%len(paths)]
		begin := time.Now()
		answer, err := post(t.Context(), caller, url+path, reviews[path])
		if err == nil && (answer.UID != "small" || !answer.Allowed) {
			err = fmt.Errorf("%+v", answer)
		}
		if err != nil {
			t.Fatalf("ordinary review %d, %s, after %s: %v", n, path, time.Since(begin), err)
		}
		if begun == nil || begun() {
			took = append(took, time.Since(begin))
		} else {
			deadline = time.Now().Add(within)
		}
	}
	slices.Sort(took)
	return took
}

// post sends a review as an API server does, which waits 5 s, and returns the response in the answer.
func post(ctx context.Context, caller *http.Client, url string, body []byte) (*admissionv1.AdmissionResponse, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"?timeout=5s", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", asJSON)
	response, err := caller.Do(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil || review.Response == nil {
		return nil, fmt.Errorf("status %d, no AdmissionReview: %.200s", response.StatusCode, text)
	}
	return review.Response, nil
}

// noUID marks an answer that an API server takes for a call which failed, so that what fails open passes.
const noUID = " without its UID"

// tally counts the answers to large reviews, by kind and reason.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) add(kind string, answer *admissionv1.AdmissionResponse, err error) {
	what := "let go"
	switch {
	case err != nil:
		what = "no answer"
	case !answer.Allowed:
		what = fmt.Sprintf("refused %d %s", answer.Result.Code, answer.Result.Reason)
		if answer.UID != "large" {
			what += noUID
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[kind+" "+what]++
}

// begun reports whether a large review was answered yet.
func (c *tally) begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.n) > 0
}

func (c *tally) answered(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for what, count := range c.n {
		if strings.HasPrefix(what, kind) && what != kind+" no answer" {
			n += count
		}
	}
	return n
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(c.n)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, c.n[what]))
	}
	return strings.Join(parts, ", ")
}
