package terminate_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

func accepts(string, terminate.Ref) terminate.Answer { return terminate.Answer{} }

// thawedAt is when a pod went on, of the log; empty if it was never frozen.
func thawedAt(t *testing.T, n *node) (at string) {
	t.Helper()
	synctest.Wait()
	log := n.logged()
	if !slices.Contains(log, "0s freeze") {
		return ""
	}
	for _, line := range log {
		var when string
		if _, err := fmt.Sscanf(line, "%s thaw", &when); err == nil {
			return when
		}
	}
	return "never"
}

// A frozen pod goes on when it gets a signal that stops it, whoever sends it, or when too long nobody does.
func TestThaws(t *testing.T) {
	for name, tc := range map[string]struct {
		pod    func(p *corev1.Pod)
		answer func(string, terminate.Ref) terminate.Answer
		signal unix.Signal
		to     int // the sandbox is 1, the container 2
		want   string
	}{
		"the stop signal":                     {answer: accepts, signal: unix.SIGINT, to: 2, want: "310ms"},
		"an image's stop signal":              {answer: accepts, signal: unix.SIGQUIT, to: 2, want: "310ms"},
		"a timer's":                           {answer: accepts, signal: unix.SIGALRM, to: 2, want: "1s"},
		"the sandbox's":                       {answer: accepts, signal: unix.SIGTERM, to: 1, want: "1s"},
		"somebody else's, and no API server":  {signal: unix.SIGTERM, to: 2, want: "310ms"},
		"no API server: ours, after a second": {want: "1s"},
		"a hook is never frozen": {pod: func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle.PreStop = &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}
		}},
		"nor one that waits": {pod: func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle.PreStop = &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}
		}},
		"nor a sidecar's": {pod: func(p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
			p.Spec.InitContainers[0].Lifecycle.PreStop = &corev1.LifecycleHandler{}
		}},
		"nor what somebody is stopping": {pod: func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode()
				n.answer, n.stubborn = tc.answer, true
				term, stop := running(t, n)
				r := n.pod("1")
				if tc.pod != nil {
					tc.pod(r.Pod)
				}
				ask(t, term, r)
				time.Sleep(305 * time.Millisecond)
				n.mu.Lock()
				n.pending[tc.to] = tc.signal
				n.mu.Unlock()
				time.Sleep(1200 * time.Millisecond)
				if got := thawedAt(t, n); got != tc.want {
					t.Errorf("thawed at %q, want %q", got, tc.want)
				}
				stop()
			})
		})
	}
}

// Whatever fails, and whenever the agent ends, the next one finds nothing frozen, and the pod has its limit again.
func TestNothingStaysFrozen(t *testing.T) {
	busy := errors.New("EBUSY")
	for name, break_ := range map[string]func(n *node){
		"nothing fails": func(*node) {}, "freezing": func(n *node) { n.noFreeze = busy }, "no such file": func(n *node) { n.noFreeze = cgroup.ErrNoFile },
		"freezing, halfway": func(n *node) { n.noFreeze, n.halfway = busy, true }, "thawing": func(n *node) { n.noThaw = busy },
	} {
		for left := range 8 {
			for _, dies := range []bool{false, true} {
				t.Run(fmt.Sprint(name, ", ", left, dies), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						n := newNode()
						break_(n)
						if dies {
							n.left = left
						}
						term, stop := running(t, n)
						r := n.pod("1")
						ask(t, term, r)
						time.Sleep(time.Duration(left) * 10 * time.Millisecond)
						stop()
						if !dies && n.noThaw == nil && (len(n.frozen) > 0 || len(n.ledger) > 0) {
							t.Errorf("after a clean end: frozen %v, noted %v", n.frozen, n.ledger)
						}
						n.left, n.noThaw, n.refuse = -1, nil, nil
						// It is about to end: its limit may stay, and it must not stay frozen.
						if err := n.terminator().Recover(t.Context(), func(types.UID) bool { return true }); err != nil || len(n.frozen) > 0 {
							t.Errorf("frozen %v: %v", n.frozen, err)
						}
						if err := n.terminator().Recover(t.Context(), func(types.UID) bool { return false }); err != nil || len(n.ledger) > 0 || n.high(&r) != "max" {
							t.Errorf("memory.high is %s, noted %v: %v", n.high(&r), n.ledger, err)
						}
					})
				})
			}
		}
	}
}

// What can't be thawed is noted until it is: it is tried again as often as the kernel refuses it, and once more when the enforcer ends.
func TestThawedAtLast(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, n *node) error{
		"the next round": func(t *testing.T, n *node) error {
			return n.terminator().Recover(t.Context(), func(types.UID) bool { return true })
		},
		"a clean end": func(t *testing.T, n *node) error {
			_, stop := running(t, n)
			stop()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode()
				r := n.pod("1")
				key := ledger.Key{Path: r.Path, File: "cgroup.freeze"}
				n.ledger[key] = ledger.Entry{Key: key, Pod: "1", Was: "0", Wrote: "1"}
				n.frozen[r.Path] = true
				busy := errors.New("EBUSY")
				n.noThaw = busy
				for range 2 {
					if err := n.terminator().Recover(t.Context(), func(types.UID) bool { return true }); !errors.Is(err, busy) || !n.frozen[r.Path] || len(n.ledger) != 1 {
						t.Errorf("%v: frozen %v, noted %v", err, n.frozen, n.ledger)
					}
				}
				n.noThaw = nil
				if err := end(t, n); err != nil || len(n.frozen) > 0 || len(n.ledger) > 0 {
					t.Errorf("%v: frozen %v, noted %v", err, n.frozen, n.ledger)
				}
			})
		})
	}
}

// What somebody else has frozen is neither frozen nor thawed by us; what an enforcer before us froze is.
func TestFrozenBefore(t *testing.T) {
	for name, ours := range map[string]bool{"somebody else": false, "an enforcer before": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode()
				n.answer = accepts
				r := n.pod("1")
				n.frozen[r.Path], n.files[r.Path]["cgroup.freeze"] = true, "1"
				if ours {
					key := ledger.Key{Path: r.Path, File: "cgroup.freeze"}
					n.ledger[key] = ledger.Entry{Key: key, Pod: "1", Was: "0", Wrote: "1"}
				}
				term, stop := running(t, n)
				ask(t, term, r)
				time.Sleep(2 * time.Second)
				synctest.Wait() // what is read here was written by others
				if n.frozen[r.Path] == ours || n.high(&r) == "max" {
					t.Errorf("frozen: %v, memory.high %s", n.frozen, n.high(&r))
				}
				stop()
			})
		})
	}
}

// A victim's freeze is not taken for one that was left behind.
func TestRecoverLeavesVictimsFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.answer = accepts
		term, stop := running(t, n)
		r := n.pod("1")
		r.Left = -1
		ask(t, term, r)
		synctest.Wait()
		if err := term.Recover(t.Context(), func(types.UID) bool { return false }); err != nil || !n.frozen[r.Path] {
			t.Errorf("frozen: %v: %v", n.frozen, err)
		}
		if got, want := n.high(&r), fmt.Sprint(4096+8<<20); got != want {
			t.Errorf("memory.high is %s, want %s", got, want)
		}
		stop()
		if len(n.frozen) > 0 {
			t.Error("still frozen")
		}
	})
}

// The kernel shows a signal that a process can't handle yet: one that is stopped stands for one that is frozen.
func TestPending(t *testing.T) {
	sleep := exec.Command("sleep", "infinity")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = sleep.Process.Kill(), sleep.Wait() }()
	if err := errors.Join(sleep.Process.Signal(unix.SIGSTOP), stopped(sleep.Process.Pid), sleep.Process.Signal(unix.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	host := terminate.Host{Proc: "/proc"}
	got, err := host.Pending(sleep.Process.Pid)
	if diff := cmp.Diff(uint64(1<<(unix.SIGTERM-1)), got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	// To this process the runtime and the child may have sent some at any moment (SIGURG, SIGCHLD).
	if got, err := host.Pending(os.Getpid()); got&(1<<(unix.SIGTERM-1)) != 0 || err != nil {
		t.Errorf("of this process: %#x, %v", got, err)
	}
	if _, err := host.Pending(1 << 30); !errors.Is(err, terminate.ErrNoProcess) {
		t.Errorf("of nobody: %v", err)
	}
}

// stopped waits until a child is stopped.
func stopped(pid int) error {
	var info unix.Siginfo
	return unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil)
}
