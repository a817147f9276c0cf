package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"

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
)

// leafLife and settle are short, so that certificates are made anew all the time.
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
	held     bool // ended on purpose: it is not started again before its fault is mended
	flags    []string
	ready    bool
	failures int
	samples  []sample // of the process that it is
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
	r.w, r.ready, r.failures, r.samples = w, false, 0, nil
	return nil
}

// panicked finds what a program of Go writes when it ends by a fault of its own.
func panicked(log string) bool {
	return strings.Contains(log, "\npanic: ") || strings.Contains(log, "\nfatal error: ") || strings.Contains(log, "WARNING: DATA RACE")
}

// keep starts it again where it has ended by itself. It returns the end of its log, if it has.
func (r *replica) keep() (why string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := r.w.Exited()
	if r.held || ended == nil {
		return "", nil
	}
	return ended.Error(), r.restart()
}

// probe asks whether it is ready, and says whether the Service sends to it.
func (r *replica) probe(ctx context.Context) bool {
	w := r.process()
	ok := answers(ctx, w.HealthURL+"/readyz")
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.w != w: // another process by now
	case ok:
		r.ready, r.failures = true, 0
	default:
		if r.failures++; r.failures >= probeFailures {
			r.ready = false
		}
	}
	return r.ready
}

func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK
}

// measured adds a sample of what it has, and returns all of this process.
func (r *replica) measured(ctx context.Context, at time.Duration) ([]sample, error) {
	w := r.process()
	memory, err := measure.MemoryOf(w.PID)
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir("/proc/" + strconv.Itoa(w.PID) + "/fd")
	if err != nil {
		return nil, fmt.Errorf("read the open files of replica %d: %w", r.index, err)
	}
	text, err := measure.Metrics(ctx, w.MetricsURL+"/metrics")
	if err != nil {
		return nil, err
	}
	goroutines, err := measure.Sum(text, "go_goroutines")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples = append(r.samples, sample{at: at, resident: memory.Resident, goroutines: goroutines, files: float64(len(files))})
	return r.samples, nil
}

// replicas are all of the webhook, and the Service before them.
type replicas struct {
	all     []*replica
	service *wire.Balancer
}

// newReplicas makes the Service and the ways to the API server. The replicas are started by install.
func newReplicas(c *cluster.Cluster, program string) (*replicas, error) {
	service, err := wire.NewBalancer()
	if err != nil {
		return nil, err
	}
	rs := &replicas{service: service}
	for i := range plan.Replicas {
		link, err := wire.NewBalancer()
		if err != nil {
			return nil, err
		}
		if err := link.To(c.Config.Host); err != nil {
			return nil, err
		}
		kubeconfig, err := through(c, link, i)
		if err != nil {
			return nil, err
		}
		r := &replica{index: i, link: link}
		r.start = func(args ...string) (*podgrace.Webhook, error) {
			return podgrace.Start(context.Background(), c, program, podgrace.Options{Unready: true, Args: append(args, flagsOf(kubeconfig)...)})
		}
		rs.all = append(rs.all, r)
	}
	return rs, nil
}

func flagsOf(kubeconfig string) []string {
	return []string{"--kubeconfig=" + kubeconfig, "--leaf-duration=" + leafLife.String(), "--ca-settle=" + settle.String()}
}

// through is the webhook's kubeconfig by a way of its own.
func through(c *cluster.Cluster, link *wire.Balancer, i int) (path string, err error) {
	file, err := podgrace.Kubeconfig(c)
	if err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return "", fmt.Errorf("make a way to the API server: %w", err)
	}
	for _, to := range config.Clusters {
		to.Server = link.Address()
	}
	path = filepath.Join(c.Dir, fmt.Sprintf("replica-%d.kubeconfig", i))
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("make a way to the API server: %w", err)
	}
	return path, nil
}

// run keeps them running, and has the Service send to those that are ready, until the context ends.
func (rs *replicas) run(ctx context.Context, ended func(r *replica, why string)) error {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		var ready []string
		for _, r := range rs.all {
			why, err := r.keep()
			if err != nil {
				return err
			}
			if why != "" {
				ended(r, why)
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

// areReady says whether all of them are.
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
			errs = append(errs, r.stop((*podgrace.Webhook).Kill))
		}
		errs = append(errs, r.link.Close())
	}
	return errors.Join(append(errs, rs.service.Close())...)
}
