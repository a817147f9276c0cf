package partition

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/suite"
)

// copyVariable is what each workload has in its environment: <namespace>/<pod>/<UID>, as the kubelet filled it in. So a
// process itself says whose copy it is, whatever kubelet and API server believe.
const copyVariable = "PODGRACE_E2E_COPY"

// process is a workload's.
type process struct {
	pid  int
	name string // as in /proc/PID/comm
	pod  types.NamespacedName
	uid  types.UID
}

// processes are those of the workloads of a namespace that run on this machine. One that has ended, reaped or not, has no
// environment.
func processes(namespace string) []process {
	var found []process
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, _ := os.ReadFile(file)
		for variable := range strings.SplitSeq(string(environ), "\x00") {
			value, ours := strings.CutPrefix(variable, copyVariable+"=")
			parts := strings.Split(value, "/")
			if !ours || len(parts) != 3 || parts[0] != namespace {
				continue
			}
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
			found = append(found, process{pid, strings.TrimSpace(string(name)), types.NamespacedName{Namespace: parts[0], Name: parts[1]}, types.UID(parts[2])})
		}
	}
	return found
}

// witness looks at the copies of a namespace's pods until its test ends. It fails the test if there ever were two of one
// pod, or if a pod was removed while its process ran.
type witness struct {
	s         *suite.Suite
	namespace string

	mu    sync.Mutex
	uids  map[string][]types.UID // by the pod's name, all that there ever were
	exits map[types.UID]int32    // how its container ended
	// looks counts how often all copies were looked at, running how many processes were seen in that.
	looks, running int
	findings       map[string]int
}

// observe starts a witness.
func observe(t *testing.T, s *suite.Suite, namespace string) *witness {
	t.Helper()
	w := &witness{s: s, namespace: namespace, uids: map[string][]types.UID{}, exits: map[types.UID]int32{}, findings: map[string]int{}}
	watching, err := client.NewWithWatch(s.Config, client.Options{Scheme: s.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	events, err := watching.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() { w.follow(ctx, events) })
	done.Go(func() { w.lookOften(ctx) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
		t.Logf("looked %d times at the copies, saw %d running processes in all; pods: %v", w.looks, w.running, w.uids)
		for _, finding := range slices.Sorted(maps.Keys(w.findings)) {
			t.Errorf("%s (seen %d times)", finding, w.findings[finding])
		}
	})
	return w
}

func (w *witness) finding(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.findings[fmt.Sprintf(format, args...)]++
}

// follow keeps what the API server says of each pod. When it lets one go the process must have ended.
func (w *witness) follow(ctx context.Context, events apiwatch.Interface) {
	defer events.Stop()
	for event := range events.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			if ctx.Err() == nil {
				w.finding("the watch of pods said %v", event.Object)
			}
			continue
		}
		w.remember(pod)
		if event.Type != apiwatch.Deleted {
			continue
		}
		for _, p := range processes(w.namespace) {
			if p.uid == pod.UID {
				w.finding("pod %s (%s) is gone, but its process %d runs", pod.Name, pod.UID, p.pid)
			}
		}
	}
	if ctx.Err() == nil {
		w.finding("the watch of pods ended")
	}
}

func (w *witness) remember(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.uids[pod.Name], pod.UID) {
		w.uids[pod.Name] = append(w.uids[pod.Name], pod.UID)
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			w.exits[pod.UID] = c.State.Terminated.ExitCode
		}
	}
}

// seen returns the UIDs that there ever were under a pod's name.
func (w *witness) seen(name string) []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.uids[name])
}

// exit returns how a pod's container ended.
func (w *witness) exit(uid types.UID) (code int32, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	code, known = w.exits[uid]
	return code, known
}

// copyOf is what counts as a running copy of a pod: a process, or a pod that is bound to a node and is not being deleted,
// which that node's kubelet is free to start.
type copyOf struct {
	pod   string
	uid   types.UID
	where string
	pid   int // 0: of the API server
}

func (w *witness) lookOften(ctx context.Context) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.look(ctx)
		}
	}
}

// look makes sure that what it found together was there together: one look takes a moment, in which a pod may rightly be
// replaced. What two looks found was there between them.
func (w *witness) look(ctx context.Context) {
	first := w.copies(ctx)
	if len(twice(first)) == 0 {
		return
	}
	second := w.copies(ctx)
	maps.DeleteFunc(first, func(c copyOf, _ bool) bool { return !second[c] })
	for _, finding := range twice(first) {
		w.finding("%s", finding)
	}
}

func (w *witness) copies(ctx context.Context) map[copyOf]bool {
	found := map[copyOf]bool{}
	var list corev1.PodList
	if err := w.s.Client.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
		if ctx.Err() == nil {
			w.finding("list the pods: %v", err)
		}
		return nil
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			found[copyOf{p.Name, p.UID, "bound to " + p.Spec.NodeName, 0}] = true
		}
	}
	running := processes(w.namespace)
	for _, p := range running {
		found[copyOf{p.pod.Name, p.uid, "process " + strconv.Itoa(p.pid), p.pid}] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	w.running += len(running)
	return found
}

// twice names the pods of which there are two copies: with two UIDs, or as two processes.
func twice(copies map[copyOf]bool) []string {
	uids, pids, words := map[string]map[types.UID]bool{}, map[string]int{}, map[string][]string{}
	for c := range copies {
		if uids[c.pod] == nil {
			uids[c.pod] = map[types.UID]bool{}
		}
		uids[c.pod][c.uid] = true
		if c.pid != 0 {
			pids[c.pod]++
		}
		words[c.pod] = append(words[c.pod], fmt.Sprintf("%s (%s)", c.uid, c.where))
	}
	var found []string
	for pod, w := range words {
		if len(uids[pod]) > 1 || pids[pod] > 1 {
			slices.Sort(w)
			found = append(found, fmt.Sprintf("two copies of %s: %s", pod, strings.Join(w, ", ")))
		}
	}
	return found
}

// runs fails the test unless exactly one process of each pod runs, and it is of this very pod.
func runs(t *testing.T, pods ...corev1.Pod) {
	t.Helper()
	for i := range pods {
		if uids := copies(&pods[i]); len(uids) != 1 || uids[0] != pods[i].UID {
			t.Fatalf("processes of %s are of %v, want one of %s", pods[i].Name, uids, pods[i].UID)
		}
	}
}

// started waits for that where pods have just been reported running: until its program has replaced runc's in a container's process, that
// looks like nobody's.
func started(t *testing.T, pods ...corev1.Pod) {
	t.Helper()
	suite.Eventually(t, "their processes", func(context.Context) (bool, error) {
		return !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return len(copies(&p)) == 0 }), nil
	})
	runs(t, pods...)
}

// copies are the UIDs of the processes under a pod's name.
func copies(pod *corev1.Pod) []types.UID {
	var uids []types.UID
	for _, p := range processes(pod.Namespace) {
		if p.pod.Name == pod.Name {
			uids = append(uids, p.uid)
		}
	}
	return uids
}
