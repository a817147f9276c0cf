package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/wire"
)

// watcher is a replica of the volume lock or of the fencer, with who keeps it running as a kubelet does, and its way to the API server.
type watcher struct {
	program string
	name    string // of the program, and which replica
	link    *wire.Balancer
	start   func() (*podgrace.Replica, error)

	mu     sync.Mutex
	r      *podgrace.Replica
	held   bool // ended on purpose: it is not started again before its fault is mended
	served bool // it has been ready once
	began  time.Time
	past   []string // logs of processes that it was, which nobody has looked at yet
}

// newWatcher makes one of a program, by a kubeconfig of its service account, and its way to the API server.
func newWatcher(c *cluster.Cluster, name, program, kubeconfig string, index int, args ...string) (*watcher, error) {
	w, own, err := onWire(c, name, kubeconfig, index)
	if err != nil {
		return nil, err
	}
	w.start = func() (*podgrace.Replica, error) { return podgrace.LaunchReplica(c, name, program, own, args...) }
	return w, nil
}

// onWire makes one of a program with its way to the API server, and the kubeconfig that has it.
func onWire(c *cluster.Cluster, program, kubeconfig string, index int) (w *watcher, own string, err error) {
	link, err := wire.NewBalancer()
	if err != nil {
		return nil, "", err
	}
	own = filepath.Join(c.Dir, fmt.Sprintf("%s-%d.kubeconfig", program, index))
	if err := errors.Join(link.To(c.Config.Host), cluster.Redirect(kubeconfig, link.Address(), own)); err != nil {
		return nil, "", errors.Join(err, link.Close())
	}
	return &watcher{program: program, name: fmt.Sprintf("%s %d", program, index), link: link}, own, nil
}

// again starts it after it was ended on purpose.
func (w *watcher) again() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = false
	return w.restart()
}

// restart is again for who has the lock.
func (w *watcher) restart() error {
	r, err := w.start()
	if err != nil {
		return err
	}
	if w.r != nil {
		w.past = append(w.past, w.r.LogPath)
	}
	w.r, w.served, w.began = r, false, time.Now()
	return nil
}

// startedAt is when the process was started that it is now.
func (w *watcher) startedAt() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.began
}

// keep starts it again where it has ended by itself, as each does that loses the lead, or reaches no API server when it starts. It returns the end of its log, if it had, and whether it had been ready.
func (w *watcher) keep() (why string, served bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ended := w.r.Exited()
	if w.held || ended == nil {
		return "", false, nil
	}
	served = w.served
	return ended.Error(), served, w.restart()
}

// end ends it on purpose, if it has not ended by itself.
func (w *watcher) end(how func(*podgrace.Replica) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = true
	if w.r == nil || w.r.Exited() != nil {
		return nil
	}
	return how(w.r)
}

// kill ends it on purpose, at once.
func (w *watcher) kill() error { return w.end((*podgrace.Replica).Kill) }

// process is the one that it is now.
func (w *watcher) process() *podgrace.Replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.r
}

// pid is its process.
func (w *watcher) pid() (int, error) { return w.process().PID(), nil }

// logs are those of its processes that nobody has looked at, and of the one that it is now.
func (w *watcher) logs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := append(w.past, w.r.LogPath)
	w.past = nil
	return all
}

// ready reports whether it serves.
func (w *watcher) ready(ctx context.Context) bool {
	w.mu.Lock()
	r, held := w.r, w.held
	w.mu.Unlock()
	is := !held && status(ctx, r.HealthURL+"/readyz") == http.StatusOK
	w.mu.Lock()
	defer w.mu.Unlock()
	w.served = w.served || is && w.r == r
	return is
}

// stop ends it for good.
func (w *watcher) stop() error { return errors.Join(w.kill(), w.link.Close()) }

// hitWatcher makes a fault of one.
func hitWatcher(w *watcher, f plan.Fault) (mend func(context.Context) error, err error) {
	switch f {
	case plan.KillWatcher, plan.KillEnforcer:
		return func(context.Context) error { return w.again() }, w.kill()
	case plan.PauseWatcher, plan.PauseEnforcer:
		return pause(w.pid)
	case plan.CutWatcher, plan.CutEnforcer:
		w.link.Hold()
		return mended(w.link.Release), nil
	case plan.SlowWatcher, plan.SlowEnforcer:
		w.link.Delay(slowness)
		return mended(func() { w.link.Delay(0) }), nil
	default:
		return nil, fmt.Errorf("nobody knows how to make the fault %s", f)
	}
}

// watch starts the watchers and keeps them running. Those of the volume lock and the fencer end whenever they lose the lead.
func (l *lab) watch(working context.Context, all ...*watcher) error {
	l.watchers = append(l.watchers, all...)
	return l.keepWatching(working, func(*watcher, string, bool) {
		l.counts.add("a replica of the volume lock or the fencer ended by itself, as one does that loses the lead", 1)
	}, all...)
}

// keepWatching is watch with what is told of one that ended by itself: the end of its log, and whether it had been ready.
func (l *lab) keepWatching(working context.Context, ended func(w *watcher, why string, served bool), all ...*watcher) error {
	for _, w := range all {
		l.ends = append(l.ends, w.stop)
		if err := w.again(); err != nil {
			return err
		}
	}
	l.working.Go(func() {
		eachProbe(working, func() bool {
			for _, w := range all {
				why, served, err := w.keep()
				if err != nil {
					l.violated("%s can't be started again: %v", w.name, err)
					return false
				}
				if why != "" {
					ended(w, why, served)
				}
			}
			return true
		})
	})
	return nil
}

// eachProbe does something now and each time that probes are, until the context ends or it says that it is over.
func eachProbe(working context.Context, do func() bool) {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for working.Err() == nil && do() {
		select {
		case <-working.Done():
		case <-ticker.C:
		}
	}
}

// watchersUnwell is which of them does not serve yet.
func (l *lab) watchersUnwell(ctx context.Context) error {
	for _, w := range l.watchers {
		if !w.ready(ctx) {
			return fmt.Errorf("%s is not ready", w.name)
		}
	}
	return nil
}

// watchersPanicked looks whether a process of a watcher, or of the node enforcer, told of a panic.
func (l *lab) watchersPanicked() error {
	all := slices.Clone(l.watchers)
	if l.enforced != nil {
		all = append(all, l.enforced.enforcer)
	}
	for _, w := range all {
		for _, path := range w.logs() {
			log, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read the log of %s: %w", w.name, err)
			}
			if line := panicked(log); line != "" && !l.replicas.told[path] {
				l.replicas.told[path] = true
				l.violated("%s panicked (%s): %s", w.name, filepath.Base(path), line)
			}
		}
	}
	return nil
}
