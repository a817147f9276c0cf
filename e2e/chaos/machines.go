package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/volumelock"
	"github.com/podgrace/podgrace/fencing/agents/agentstest"
)

// manner is how a machine's BMC behaves when it is told to power it off.
type manner string

const (
	prompt  manner = "prompt"  // the machine is off when it answers
	slow    manner = "slow"    // the machine is off after a while, and it says so until then
	late    manner = "late"    // the machine is off, and it says On for a while
	lost    manner = "lost"    // the machine is off, and the first answer to the order does not arrive
	failing manner = "failing" // the first order is answered by an error, and not carried out
	down    manner = "down"    // its first answers are none
	dead    manner = "dead"    // it answers nothing: in a drill
)

// manners are all of which a machine is off after some time.
var manners = []manner{prompt, slow, late, lost, failing, down}

const (
	takes       = 5 * time.Second // of a slow BMC until the machine is off, and of a late one until it says so
	answersDown = 4               // requests that are not answered by one that is down
)

// fencedAfter is how long a machine must have been cut off at least for the fencer to power it off by itself: silentFor of the FencePolicy.
const fencedAfter = time.Minute

// volumeKubelet is a machine's kubelet: volumelock.Kubelet.
type volumeKubelet interface {
	BootID() string
	Reboot()
	Restart(ctx context.Context) error
	SetSilent(is bool)
	SetHung(is bool)
}

// machine has volumes: a scripted kubelet, power, and a BMC that switches it. It knows which boot of it ended when, whatever anybody was told.
type machine struct {
	name, uuid string
	kubelet    volumeKubelet
	witness    *volumelock.Witness
	violated   func(format string, args ...any)

	power sync.Mutex // held while it is switched

	mu      sync.Mutex
	off     bool
	ended   map[string]time.Time // boots
	asked   map[string]bool      // boots that somebody asked to have fenced
	cut     time.Time            // since when it is cut off; zero: it is not
	manner  manner
	orders  int // since it has that manner
	refused int // requests that were not answered since then
}

// newMachine is one that runs.
func newMachine(name, uuid string, k volumeKubelet, witness *volumelock.Witness, violated func(string, ...any)) *machine {
	return &machine{name: name, uuid: uuid, kubelet: k, witness: witness, violated: violated, ended: map[string]time.Time{}, asked: map[string]bool{}, manner: prompt}
}

// setCut cuts it off from the API server, or lets it speak again.
func (m *machine) setCut(is bool) {
	m.power.Lock()
	defer m.power.Unlock()
	m.mu.Lock()
	off := m.off
	m.cut = time.Time{}
	if is {
		m.cut = time.Now()
	}
	m.mu.Unlock()
	m.kubelet.SetSilent(is || off)
}

// powerOff ends a boot, if it still runs.
func (m *machine) powerOff(boot string) {
	m.power.Lock()
	defer m.power.Unlock()
	if _, over := m.endedAt(boot); over {
		return
	}
	m.kubelet.SetSilent(true) // returns when nothing is being mounted
	m.witness.Off(m.name)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off, m.ended[boot] = true, time.Now()
}

// powerOn starts another boot of one that is off, which is not cut off.
func (m *machine) powerOn() {
	m.power.Lock()
	defer m.power.Unlock()
	m.kubelet.Reboot()
	m.mu.Lock()
	m.off, m.cut, m.manner = false, time.Time{}, prompt
	m.mu.Unlock()
	m.kubelet.SetSilent(false)
}

// isOff reports whether it has no power.
func (m *machine) isOff() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.off
}

// isAway reports whether it has no power, or is cut off.
func (m *machine) isAway() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.off || !m.cut.IsZero()
}

// endedAt is when a boot ended, if it has.
func (m *machine) endedAt(boot string) (at time.Time, over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, over = m.ended[boot]
	return at, over
}

// ask notes that somebody asks for the fence of a boot, before it is asked for.
func (m *machine) ask(boot string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[boot] = true
}

// behave has its BMC behave in a manner from now on.
func (m *machine) behave(how manner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.manner, m.orders, m.refused = how, 0, 0
}

// cause says why a boot may be powered off; empty: for nothing.
func (m *machine) cause(boot string, now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch _, over := m.ended[boot]; {
	case over:
		return "it is off"
	case m.asked[boot]:
		return "somebody asked for it"
	case !m.cut.IsZero() && now.Sub(m.cut) >= fencedAfter:
		return "it is cut off"
	}
	return ""
}

// bmc is the machine's.
func (m *machine) bmc() *agentstest.BMC {
	return &agentstest.BMC{
		Username: "fencer", Password: "not-a-secret", Before: m.answer,
		Systems: []agentstest.System{{ID: "1", UUID: m.uuid, Power: m.tell, ForceOff: m.order}},
	}
}

// answer reports whether a request goes unanswered.
func (m *machine) answer(http.ResponseWriter, *http.Request) bool {
	m.mu.Lock()
	is := m.manner == dead || m.manner == down && m.refused < answersDown
	if is {
		m.refused++
	}
	m.mu.Unlock()
	if is {
		panic(http.ErrAbortHandler) // as net/http has it end a connection
	}
	return false
}

// tell is the PowerState that it says. It never says Off of one that is on.
func (m *machine) tell() string {
	boot := m.kubelet.BootID()
	m.mu.Lock()
	defer m.mu.Unlock()
	at, over := m.ended[boot]
	switch {
	case !over && m.manner == slow && m.orders > 0:
		return "PoweringOff"
	case !over || m.manner == late && time.Since(at) < takes:
		return "On"
	}
	return "Off"
}

// order powers it off, in its manner.
func (m *machine) order() error {
	boot := m.kubelet.BootID()
	if m.cause(boot, time.Now()) == "" {
		m.violated("%s is powered off by its BMC: nobody asked for that, and it has not been cut off for %s", m.name, fencedAfter)
	}
	m.mu.Lock()
	m.orders++
	how, first := m.manner, m.orders == 1
	m.mu.Unlock()
	switch {
	case how == failing && first:
		return fmt.Errorf("the machine does not answer")
	case how == slow:
		time.AfterFunc(takes, func() { m.powerOff(boot) })
		return nil
	}
	m.powerOff(boot)
	if how == lost && first {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// mannerOf is how the BMC of a fence behaves, by the plan.
func mannerOf(s plan.Step) manner { return manners[int(s.At.Milliseconds())%len(manners)] }
