package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/wire"
)

// The probes of deploy/webhook/deployment.yaml, but more often, so that the time of a storm is not all theirs.
const (
	probeEvery    = time.Second
	probeTimeout  = time.Second // timeoutSeconds, by default
	probeFailures = 3           // failureThreshold, by default
	liveFailures  = 6           // failureThreshold of the liveness probe
)

// leafLife and settle are short, so that certificates are recreated all the time.
const (
	leafLife = 2 * time.Minute
	settle   = 5 * time.Second
)

// replica is one of the webhook, with who keeps it running as a kubelet does, and its way to the API server.
type replica struct {
	index int
	start func(args ...string) (*podgrace.Webhook, error)
	link  *wire.Balancer

	mu       sync.Mutex
	w        *podgrace.Webhook
	program  string
	held     bool // ended on purpose: it is not started again before its fault is mended
	flags    []string
	ready    bool
	served   bool // it has been ready once
	failures int
	unlive   int           // liveness probes that failed in a row
	ahead    time.Duration // its machine's time of day
	gained   time.Duration // the process's timers
	samples  []sample      // of the process that it is
	past     []string      // logs of processes that it was, which nobody has looked at yet
}

// process is the one that it is now.
func (r *replica) process() *podgrace.Webhook {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.w
}

// stop ends it on purpose.
func (r *replica) stop(how func(*podgrace.Webhook) error) error {
	r.mu.Lock()
	r.held = true
	w := r.w
	r.mu.Unlock()
	return how(w)
}

// kill ends it on purpose, at once.
func (r *replica) kill() error { return r.stop((*podgrace.Webhook).Kill) }

// again starts it after it was ended on purpose.
func (r *replica) again() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = false
	return r.restart()
}

// reflag changes the flags that it is started with next: its log has decisions, or has none.
func (r *replica) reflag() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flags = []string{fmt.Sprintf("--decision-log=%t", len(r.flags) == 0 || r.flags[0] == "--decision-log=false")}
}

// restart is again for who has the lock.
func (r *replica) restart() error {
	w, err := r.start(r.flags...)
	if err != nil {
		return err
	}
	if r.w != nil {
		r.past = append(r.past, r.w.LogPath)
	}
	r.w, r.ready, r.served, r.failures, r.unlive, r.gained, r.samples = w, false, false, 0, 0, 0, nil
	if r.ahead != 0 {
		return r.moved()
	}
	return nil
}

// logs are those of its processes that nobody has looked at, and of the one that it is now.
func (r *replica) logs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append(r.past, r.w.LogPath)
	r.past = nil
	return all
}

// panics are what a program of Go writes when it ends by a fault of its own, and what is logged of a panic that was recovered: by controller-runtime's handlers (k8s.io/apimachinery/pkg/util/runtime
// logPanic, 0.36.3) and by net/http's.
var panics = regexp.MustCompile(`(?m)^(?:panic|fatal error): .*$|^.*(?:WARNING: DATA RACE|Observed a panic|panic serving).*$`)

// panicked returns the first line of a log that tells of a panic, if any does.
func panicked(log []byte) string { return string(panics.Find(log)) }

// keep starts it again where it has ended by itself. It returns the end of its log, if it has, and whether it had been ready.
func (r *replica) keep() (why string, served bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := r.w.Exited()
	if r.held || ended == nil {
		return "", false, nil
	}
	served = r.served
	return ended.Error(), served, r.restart()
}

// probe asks whether it is ready, and reports whether the Service sends to it.
func (r *replica) probe(ctx context.Context) bool {
	w := r.process()
	ok := status(ctx, w.HealthURL+"/readyz") == http.StatusOK
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.w != w: // another process by now
	case ok:
		r.ready, r.served, r.failures = true, true, 0
	default:
		if r.failures++; r.failures >= probeFailures {
			r.ready = false
		}
	}
	return r.ready
}

// live asks whether it is to be started again, and does so. That nobody answers does not count: no fault lasts as long as the minute after which a kubelet takes that for dead.
func (r *replica) live(ctx context.Context) (restarted bool, err error) {
	w := r.process()
	is := status(ctx, w.HealthURL+"/healthz")
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.w != w || r.held:
		return false, nil
	case is == http.StatusOK:
		r.unlive = 0
	case is != 0:
		r.unlive++
	}
	if r.unlive < liveFailures {
		return false, nil
	}
	return true, errors.Join(w.Stop(), r.restart())
}

// status is that of an answer; 0: there was none in time.
func status(ctx context.Context, url string) int {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// measured adds a sample of what it has, and returns all of this process.
func (r *replica) measured(ctx context.Context, at time.Duration) ([]sample, error) {
	w := r.process()
	one, text, err := sampleOf(ctx, w.PID, w.MetricsURL, at)
	if err != nil {
		return nil, fmt.Errorf("replica %d: %w", r.index, err)
	}
	if one.panics, err = recovered(text); err != nil {
		return nil, fmt.Errorf("replica %d: %w", r.index, err)
	}
	if one.leads, err = leads(text); err != nil {
		return nil, fmt.Errorf("replica %d: %w", r.index, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples = append(r.samples, one)
	return r.samples, nil
}

// sampleOf is what a process has, but for panics, and its metrics.
func sampleOf(ctx context.Context, pid int, metricsURL string, at time.Duration) (one sample, metrics string, err error) {
	memory, err := measure.MemoryOf(pid)
	if err != nil {
		return one, "", err
	}
	files, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		return one, "", fmt.Errorf("read the open files: %w", err)
	}
	if metrics, err = metricsOf(ctx, metricsURL); err != nil {
		return one, "", err
	}
	goroutines, err := measure.Sum(metrics, "go_goroutines")
	return sample{at: at, resident: memory.Resident, goroutines: goroutines, files: float64(len(files))}, metrics, err
}

// metricsOf are the metrics that a process serves. One that hangs answers nobody: a calm goes on all the same.
func metricsOf(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return measure.Metrics(ctx, url+"/metrics")
}

// recovered is how many panics the metrics tell of that controller-runtime recovered: in reviews, and in reconciles, of which only a leader has any.
func recovered(metrics string) (float64, error) {
	const reviews, reconciles = "controller_runtime_webhook_panics_total", "controller_runtime_reconcile_panics_total"
	series, err := measure.Series(metrics, reviews)
	if err != nil {
		return 0, err
	}
	if len(series) == 0 { // it is there from the start
		return 0, errors.New("there is no metric " + reviews)
	}
	sum := 0.0
	for _, name := range []string{reviews, reconciles} {
		n, err := measure.Sum(metrics, name)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// replicas are all of the webhook, and the Service before them.
type replicas struct {
	all      []*replica
	programs programs
	service  *wire.Balancer
	told     map[string]bool // logs of whose panics was told
}

// newReplicas makes the Service and the ways to the API server. The replicas are started by install.
func newReplicas(c *cluster.Cluster, programs programs) (*replicas, error) {
	service, err := wire.NewBalancer()
	if err != nil {
		return nil, err
	}
	rs := &replicas{programs: programs, service: service, told: map[string]bool{}}
	for i := range plan.Replicas {
		link, err := wire.NewBalancer()
		if err != nil {
			return nil, err
		}
		if err := link.To(c.Config.Host); err != nil {
			return nil, err
		}
		file, err := podgrace.Kubeconfig(c)
		if err != nil {
			return nil, err
		}
		kubeconfig := filepath.Join(c.Dir, fmt.Sprintf("replica-%d.kubeconfig", i))
		if err := cluster.Redirect(file, link.Address(), kubeconfig); err != nil {
			return nil, err
		}
		r := &replica{index: i, link: link, program: programs.current}
		r.start = func(args ...string) (*podgrace.Webhook, error) {
			return podgrace.Start(context.Background(), c, r.program, podgrace.Options{Unready: true, Args: append(args, flagsOf(kubeconfig)...)})
		}
		rs.all = append(rs.all, r)
	}
	return rs, nil
}

func flagsOf(kubeconfig string) []string {
	return []string{"--kubeconfig=" + kubeconfig, "--leaf-duration=" + leafLife.String(), "--ca-settle=" + settle.String()}
}

// run keeps them running, and has the Service send to those that are ready, until the context ends.
func (rs *replicas) run(ctx context.Context, ended func(r *replica, why string, served bool), unlive func(r *replica)) error {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		var ready []string
		for _, r := range rs.all {
			why, served, err := r.keep()
			if err != nil {
				return err
			}
			if why != "" {
				ended(r, why, served)
			}
			if restarted, err := r.live(ctx); err != nil {
				return err
			} else if restarted {
				unlive(r)
			}
			if r.probe(ctx) {
				ready = append(ready, r.process().URL)
			}
		}
		if err := rs.service.To(ready...); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// areReady reports whether all of them are.
func (rs *replicas) areReady() bool {
	for _, r := range rs.all {
		r.mu.Lock()
		ready := r.ready && !r.held
		r.mu.Unlock()
		if !ready {
			return false
		}
	}
	return true
}

// stop ends them all.
func (rs *replicas) stop() error {
	var errs []error
	for _, r := range rs.all {
		if w := r.process(); w != nil {
			errs = append(errs, r.kill())
		}
		errs = append(errs, r.link.Close())
	}
	return errors.Join(append(errs, rs.service.Close())...)
}
