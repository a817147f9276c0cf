package terminate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

func ask(t *testing.T, term *terminate.Terminator, r terminate.Request) {
	t.Helper()
	if err := term.Ask(r); err != nil {
		t.Fatal(err)
	}
}

func wantLog(t *testing.T, n *node, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, n.logged()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// kubelet accepts all, and stops a pod 950 ms after it was asked to.
func (n *node) kubelet(_ string, pod terminate.Ref) terminate.Answer {
	time.AfterFunc(950*time.Millisecond, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.gone("/kubepods/burstable/pod" + string(pod.UID))
	})
	return terminate.Answer{}
}

func TestHardByTheKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.answer = n.kubelet
		term, stop := running(t, n)
		r := n.pod("1")
		ask(t, term, r)
		ask(t, term, r)
		synctest.Wait()
		if got := n.high(&r); got != "4096" {
			t.Errorf("memory.high is %s", got)
		}
		standing := term.Victims()
		want := []terminate.VictimStatus{{Pod: terminate.Ref{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "pod-1"}, UID: "1"}, Kind: eviction.Hard, Path: r.Path, Contained: true, Dying: true}}
		if diff := cmp.Diff(want, standing); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		time.Sleep(2 * time.Second)
		log := n.logged()
		// Containment and DELETE begin at once, in any order.
		slices.Sort(log[:6])
		if diff := cmp.Diff([]string{"0s 1: Accepted", "0s 1: Contained", "0s 1: Frozen", "0s delete 1 1", "0s freeze", "0s mark 1: memory is short", "1s 1: Empty", "1s 1: Thawed", "1s 1: Gone"}, log); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if len(n.ledger) != 0 || len(term.Victims()) != 0 {
			t.Errorf("left: %v, %v", n.ledger, term.Victims())
		}
		stop()
	})
}

func TestHardOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.stubborn = true
		term, stop := running(t, n)
		r := n.pod("1")
		r.Contain = false
		ask(t, term, r)
		time.Sleep(3*time.Second + time.Millisecond)
		trouble := func(line string) bool { return strings.HasSuffix(line, ": Trouble") }
		synctest.Wait()
		log := slices.DeleteFunc(n.logged(), trouble)
		if diff := cmp.Diff([]string{"1s 1: Local", "1s SIGINT to 2", "1s 1: Signalled", "3s kill main1", "3s 1: Killed"}, log); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		n.restart(&r, "main2")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		log = slices.DeleteFunc(n.logged(), trouble)
		for i := range log {
			_, log[i], _ = strings.Cut(log[i], " ")
		}
		// A container that the status does not name is told from the sandbox by its oom_score_adj.
		if diff := cmp.Diff([]string{"1: Restarted", "SIGTERM to 3", "1: Signalled", "kill main2", "1: Killed", "1: Empty"}, log); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if _, err := n.Processes(r.Path + "/sandbox1"); err != nil {
			t.Error("the sandbox was killed")
		}
		stop()
	})
}

// What the API server forbids is asked for once, and not done here, however long the pod lives on.
func TestHardForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.answer = func(string, terminate.Ref) terminate.Answer {
			return terminate.Answer{Verdict: terminate.Refused, Online: true, Err: errors.New("admission webhook denied the request")}
		}
		term, stop := running(t, n)
		r := n.pod("1")
		ask(t, term, r)
		synctest.Wait()
		want := []terminate.VictimStatus{{Pod: terminate.Ref{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "pod-1"}, UID: "1"}, Kind: eviction.Hard, Path: r.Path, Refused: true, RefusedFor: 5 * time.Second}}
		if diff := cmp.Diff(want, term.Victims()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if n.high(&r) != "max" || len(n.ledger) > 0 {
			t.Errorf("memory.high is %s, noted %v", n.high(&r), n.ledger)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		for _, line := range n.logged() {
			if at, what, _ := strings.Cut(line, " "); at != "0s" && what != "1: Forgotten" || strings.Contains(what, "SIG") || strings.Contains(what, "kill") {
				t.Error(line)
			}
		}
		stop()
	})
}

// The id of the main process is used again, by a process elsewhere, between the look and the signal.
func TestReusedProcessIsNotSignalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		r := n.pod("1")
		r.Contain = false
		n.pinned = func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.groups["/elsewhere"] = n.groups[r.Path+"/main1"]
			delete(n.groups, r.Path+"/main1")
		}
		term, stop := running(t, n)
		ask(t, term, r)
		time.Sleep(10 * time.Second)
		stop()
		for _, line := range n.logged() {
			if strings.Contains(line, "SIG") || strings.Contains(line, "kill") {
				t.Error(line)
			}
		}
	})
}

func TestStopRestores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		term, stop := running(t, n)
		r := n.pod("1")
		ask(t, term, r)
		time.Sleep(500 * time.Millisecond)
		stop()
		if got := n.high(&r); got != "max" || len(n.ledger) != 0 {
			t.Errorf("memory.high is %s, the ledger has %v", got, n.ledger)
		}
		if err := term.Ask(r); !errors.Is(err, terminate.ErrStopped) {
			t.Errorf("asked after the end: %v", err)
		}
	})
}

func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		term, stop := running(t, n)
		r := n.pod("1")
		ask(t, term, r)
		time.Sleep(500 * time.Millisecond)
		term.Release("1")
		term.Release("no such pod")
		synctest.Wait()
		if got := n.high(&r); got != "max" || len(term.Victims()) != 0 {
			t.Errorf("memory.high is %s, standing %v", got, term.Victims())
		}
		ask(t, term, r) // from the start
		synctest.Wait()
		if got := n.high(&r); got != "4096" {
			t.Errorf("memory.high is %s", got)
		}
		term.Removed("1")
		stop()
	})
}

func TestSoftRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.answer = func(string, terminate.Ref) terminate.Answer {
			return terminate.Answer{Verdict: terminate.Budget, Err: errors.New("needs 1")}
		}
		term, stop := running(t, n)
		r := n.pod("1")
		r.Kind, r.GraceSeconds = eviction.Soft, 30
		ask(t, term, r)
		wantLog(t, n, "0s evict 1 30", "0s 1: Refused")
		time.Sleep(time.Second)
		ask(t, term, r)
		wantLog(t, n, "1s 1: Refused")
		if s := term.Victims(); len(s) != 1 || s[0].RefusedFor != 4*time.Second || s[0].Dying || s[0].Contained {
			t.Errorf("standing %+v", s)
		}
		time.Sleep(4 * time.Second)
		ask(t, term, r)
		wantLog(t, n, "5s evict 1 30", "5s 1: Refused")
		stop()
	})
}

// Many at once, some of which the API server takes; the agent ends in the midst of it.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.answer = func(what string, pod terminate.Ref) terminate.Answer {
			if len(pod.UID)%2 == 0 {
				return n.kubelet(what, pod)
			}
			return terminate.Offline{}.Delete(context.Background(), pod, 1)
		}
		term, stop := running(t, n)
		var requests []terminate.Request
		for i := range 300 {
			r := n.pod(fmt.Sprint(i))
			requests = append(requests, r)
			go func() {
				if err := term.Ask(r); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(1500 * time.Millisecond)
		stop()
		for i := range requests {
			r := &requests[i]
			if got := n.high(r); got != "max" && len(r.Pod.UID)%2 == 1 || got != "" && len(r.Pod.UID)%2 == 0 {
				t.Errorf("%s: memory.high is %q", r.Pod.UID, got)
			}
		}
		if len(n.ledger) != 0 {
			t.Errorf("the ledger has %v", n.ledger)
		}
	})
}

func TestContain(t *testing.T) {
	for name, tc := range map[string]struct {
		files  map[string]string
		refuse error
		want   string
		step   terminate.Step
	}{
		"unlimited":           {map[string]string{"memory.high": "max", "memory.current": "4096"}, nil, "4096", terminate.StepContained},
		"limited":             {map[string]string{"memory.high": "8192", "memory.current": "4096"}, nil, "4096", terminate.StepContained},
		"above its limit":     {map[string]string{"memory.high": "4096", "memory.current": "8192"}, nil, "4096", terminate.StepContained},
		"no such files":       {map[string]string{}, nil, "", terminate.StepNotContained},
		"usage is not known":  {map[string]string{"memory.high": "max"}, nil, "max", terminate.StepNotContained},
		"it can't be written": {map[string]string{"memory.high": "max", "memory.current": "4096"}, errors.New("EIO"), "max", terminate.StepNotContained},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode()
				n.refuse = tc.refuse
				term, stop := running(t, n)
				r := n.pod("1")
				n.files[r.Path] = tc.files
				ask(t, term, r)
				synctest.Wait()
				if got := n.high(&r); got != tc.want {
					t.Errorf("memory.high is %q, want %q", got, tc.want)
				}
				if log := n.logged(); !slices.Contains(log, "0s 1: "+string(tc.step)) {
					t.Errorf("no %s in %v", tc.step, log)
				}
				stop()
			})
		})
	}
}

// A pod that is being deleted gets room for its hook, over what it uses by then, and no more than it had.
func TestLoosen(t *testing.T) {
	for name, tc := range map[string]struct {
		was, usage string // by the time that the API server answers
		high       string // written by somebody else by then; empty: by nobody
		left       int64
		offline    bool
		want       string
		step       terminate.Step
	}{
		"room":                 {"max", "8192", "", 1 << 30, false, "2105344", terminate.StepLoosened},
		"little is left":       {"max", "8192", "", 4 << 20, false, "73728", terminate.StepLoosened},
		"nothing is left":      {"max", "8192", "", 0, false, "4096", terminate.StepAccepted},
		"no more than it had":  {"16384", "8192", "", 1 << 30, false, "16384", terminate.StepLoosened},
		"another's limit":      {"max", "8192", "5000", 1 << 30, false, "5000", terminate.StepAccepted},
		"its usage is unknown": {"max", "", "", 1 << 30, false, "4096", terminate.StepNotLoosened},
		"nobody starts a hook": {"max", "8192", "", 1 << 30, true, "4096", terminate.StepTrouble},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode()
				r := n.pod("1")
				r.Left, r.Pod.Spec.Containers[0].Lifecycle.PreStop = tc.left, &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"drain"}}}
				n.files[r.Path]["memory.high"] = tc.was
				asked := make(chan struct{})
				n.answer = func(string, terminate.Ref) terminate.Answer {
					n.mu.Unlock()
					<-asked
					n.mu.Lock()
					if tc.offline {
						return terminate.Answer{Verdict: terminate.Failed, Err: errAny}
					}
					return terminate.Answer{}
				}
				term, stop := running(t, n)
				ask(t, term, r)
				synctest.Wait()
				if got := n.high(&r); got != "4096" {
					t.Errorf("memory.high is %s before the API server answered", got)
				}
				n.files[r.Path]["memory.current"] = tc.usage
				if tc.high != "" {
					n.files[r.Path]["memory.high"] = tc.high
				}
				close(asked)
				synctest.Wait()
				if got := n.high(&r); got != tc.want {
					t.Errorf("memory.high is %s, want %s", got, tc.want)
				}
				if log := n.logged(); !slices.Contains(log, "0s 1: "+string(tc.step)) {
					t.Errorf("no %s in %v", tc.step, log)
				}
				stop()
			})
		})
	}
}

func TestRecover(t *testing.T) {
	n := newNode()
	for uid, high := range map[string]string{"left": "4096", "dying": "4096", "changed": "9999", "gone": "4096", "loosened": "8192"} {
		r := n.pod(uid)
		n.files[r.Path]["memory.high"] = high
		key := ledger.Key{Path: r.Path, File: "memory.high"}
		n.ledger[key] = ledger.Entry{Key: key, Pod: r.Pod.UID, Was: "max", Wrote: "4096", Then: "8192"}
		if uid == "gone" {
			n.gone(r.Path)
		}
	}
	term := n.terminator()
	ending := func(uid types.UID) bool { return uid == "dying" }
	refused := errors.New("busy")
	n.refuse = refused
	if err := term.Recover(t.Context(), ending); !errors.Is(err, refused) || len(n.ledger) != 3 { // left, loosened, dying
		t.Errorf("%v, and the ledger has %v", err, n.ledger)
	}
	n.refuse = nil
	if err := term.Recover(t.Context(), ending); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for dir, files := range n.files {
		got[strings.TrimPrefix(dir, "/kubepods/burstable/pod")] = files["memory.high"]
	}
	if diff := cmp.Diff(map[string]string{"left": "max", "dying": "4096", "changed": "9999", "loosened": "max"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// It has not ended, after all.
	if err := term.Recover(t.Context(), func(types.UID) bool { return false }); err != nil || len(n.ledger) != 0 || n.files["/kubepods/burstable/poddying"]["memory.high"] != "max" {
		t.Errorf("%v, the ledger has %v", err, n.ledger)
	}
}

// A limit that can't be lifted at the end of a containment is noted until it is: it is tried again as often as the kernel refuses it, and then no more.
func TestRestoredAtLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.answer = func(string, terminate.Ref) terminate.Answer {
			return terminate.Answer{Verdict: terminate.Unknown, Err: errors.New("timeout")}
		}
		term, stop := running(t, n)
		defer stop()
		r := n.pod("1")
		ask(t, term, r)
		synctest.Wait()
		if got := n.high(&r); got != "4096" {
			t.Fatalf("memory.high is %s", got)
		}
		busy := errors.New("EBUSY")
		n.refuse, n.unwritten = busy, true
		term.Release("1")
		time.Sleep(time.Minute)
		lives := func(types.UID) bool { return false }
		for range 2 {
			if err := term.Recover(t.Context(), lives); !errors.Is(err, busy) || n.high(&r) != "4096" || len(n.ledger) == 0 {
				t.Errorf("%v: memory.high is %s, noted %v", err, n.high(&r), n.ledger)
			}
		}
		n.refuse, n.unwritten = nil, false
		for range 2 { // the second finds nothing
			if err := term.Recover(t.Context(), lives); err != nil || n.high(&r) != "max" || len(n.ledger) > 0 {
				t.Errorf("%v: memory.high is %s, noted %v", err, n.high(&r), n.ledger)
			}
		}
	})
}

// What was left contained and could not be restored is no limit of the pod's own: contained again, it gets back what it had before all that. A victim's
// limit is not restored meanwhile.
func TestContainedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.answer = func(string, terminate.Ref) terminate.Answer {
			return terminate.Answer{Verdict: terminate.Unknown, Err: errors.New("timeout")}
		}
		r := n.pod("1")
		key := ledger.Key{Path: r.Path, File: "memory.high"}
		n.ledger[key] = ledger.Entry{Key: key, Pod: "1", Was: "9999", Wrote: "8192"}
		n.files[r.Path]["memory.high"] = "8192"
		term, stop := running(t, n)
		ask(t, term, r)
		synctest.Wait()
		if err := term.Recover(t.Context(), func(types.UID) bool { return false }); err != nil || n.high(&r) != "4096" {
			t.Errorf("memory.high of a victim is %s: %v", n.high(&r), err)
		}
		term.Release("1")
		synctest.Wait()
		if got := n.high(&r); got != "9999" || len(n.ledger) != 0 {
			t.Errorf("memory.high is %s, the ledger has %v", got, n.ledger)
		}
		stop()
	})
}

// What an earlier containment left can be restored also where the next one can't be written.
func TestContainedTwiceInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		r := n.pod("1")
		key := ledger.Key{Path: r.Path, File: "memory.high"}
		n.ledger[key] = ledger.Entry{Key: key, Pod: "1", Was: "max", Wrote: "8192"}
		n.files[r.Path]["memory.high"] = "8192"
		n.refuse, n.unwritten = errors.New("EBUSY"), true
		term, stop := running(t, n)
		ask(t, term, r)
		synctest.Wait()
		stop()
		n.refuse = nil
		if err := n.terminator().Recover(t.Context(), func(types.UID) bool { return false }); err != nil || n.high(&r) != "max" || len(n.ledger) > 0 {
			t.Errorf("memory.high is %s, noted %v: %v", n.high(&r), n.ledger, err)
		}
	})
}

// The agent is killed after each of its writes: what the next one finds is undone.
func TestKilledAtEveryWrite(t *testing.T) {
	for left := range 5 {
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			killed(t, left, nil)
		})
		// As long as nobody knows that it is being deleted; otherwise the limit goes with its cgroup.
		t.Run(fmt.Sprint("deleted, ", left), func(t *testing.T) {
			killed(t, left, func(string, terminate.Ref) terminate.Answer { return terminate.Answer{} })
		})
	}
}

func killed(t *testing.T, left int, answer func(string, terminate.Ref) terminate.Answer) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.left, n.answer = left, answer
		term, stop := running(t, n)
		r := n.pod("1")
		r.Left, r.Pod.Spec.Containers[0].Lifecycle.PreStop = -1, &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}
		ask(t, term, r)
		time.Sleep(500 * time.Millisecond)
		stop() // from some write on nothing arrives
		n.left = -1
		if err := n.terminator().Recover(t.Context(), func(types.UID) bool { return false }); err != nil {
			t.Fatal(err)
		}
		if got := n.high(&r); got != "max" || len(n.ledger) != 0 {
			t.Errorf("memory.high is %s, the ledger has %v", got, n.ledger)
		}
	})
}

func TestAskValidates(t *testing.T) {
	n := newNode()
	term := n.terminator()
	r := n.pod("1")
	other := r
	other.Path = "/kubepods/burstable/pod2"
	unnamed := r
	unnamed.Pod = r.Pod.DeepCopy()
	unnamed.Pod.UID = ""
	for name, r := range map[string]terminate.Request{"another pod's cgroup": other, "no UID": unnamed, "no pod": {}} {
		if err := term.Ask(r); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if len(term.Victims()) != 0 {
		t.Error("something stands")
	}
}
