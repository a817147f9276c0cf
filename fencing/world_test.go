package fencing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/storage"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// began is the time of day at which each test's world begins.
var began = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// machine is one node as it really is, and its power.
type machine struct {
	fencing.Node
	there  bool // the Node object is
	power  bool
	linked bool
	uuid   string
	boots  int
	beat   time.Duration // when a renewal reached the API server last, by the boot that it has in the API
	heard  map[string]time.Duration
	bmc    bmc
	goesAt time.Duration // when the power goes off; 0: it does not
	lied   bool          // its BMC told something that was not so
	full   bool          // its Node's annotations are as long as they may be
	dog    bool          // its watchdog is fed while its Lease is renewed
	ip     string        // that it really has
}

// bmc is how a BMC behaves.
type bmc string

const (
	good    bmc = "good"    // powers off within 12 s
	mute    bmc = "mute"    // answers nothing
	stuck   bmc = "stuck"   // takes the order, and stays as it is: PoweringOff
	rubbish bmc = "rubbish" // answers, but not what was asked
	foreign bmc = "foreign" // is another machine's
	reset   bmc = "reset"   // was reset, and says that the power is off until it is ordered to be
	liar    bmc = "liar"    // says Off at once, and does nothing
)

var errMute = errors.New("no answer")

// world is a cluster, its machines and a fencer, whose clock the test moves.
type world struct {
	now, led time.Duration
	machines []*machine
	policies fencing.Policies
	agents   []v1alpha1.FenceAgent
	fences   []*v1alpha1.Fence
	receipts []v1alpha1.FenceReceipt
	gone     map[string]bool
	uids     int
	twins    bool // n1 says that it is n2's machine

	silence  fencing.Silence
	book     storage.Addresses
	unnoted  bool // nothing is noted in it
	san      san
	storms   map[string]time.Duration
	progress map[string]*fencing.Progress
	calls    []pending
	verdicts []fencing.Verdict
	alarms   int

	// what fails in this round
	unread, cached, refuse bool
	// check is called with each action, before it is carried out, and with each status that is stored.
	check  func(*v1alpha1.Fence, fencing.Action)
	cutOff []string // pods that were deleted as ones of which a force delete was cut off
}

// pending is a call that goes on.
type pending struct {
	fence  string
	action fencing.Action
	began  fencing.Moment
	ends   time.Duration
}

const step = 10 * time.Second

func bootName(i, n int) string { return fmt.Sprintf("boot-%d-%d", i, n) }

// newWorld has so many nodes that run, of which the first is of the control plane, in two zones.
func newWorld(nodes int, change ...func(*v1alpha1.FencePolicySpec)) *world {
	w := &world{gone: map[string]bool{}, progress: map[string]*fencing.Progress{}}
	agent := v1alpha1.FenceAgent{ObjectMeta: metav1.ObjectMeta{Name: "bmc", UID: "agent-1"}, Spec: v1alpha1.FenceAgentSpec{Type: v1alpha1.AgentRedfish, Identity: v1alpha1.IdentityVerified}}
	for i := range nodes {
		uuid := fmt.Sprintf("12345678-1234-1234-1234-%012d", i)
		m := &machine{there: true, power: true, linked: true, uuid: uuid, bmc: good, heard: map[string]time.Duration{}}
		m.Name, m.UID, m.BootID, m.SystemUUID, m.Zone = fmt.Sprintf("n%d", i), types.UID(fmt.Sprintf("node-%d", i)), bootName(i, 0), uuid, strconv.Itoa(i%2)
		m.ip = fmt.Sprintf("10.0.0.%d", i+1)
		m.Addresses, m.InternalIPs = []string{m.ip}, []string{m.ip}
		m.ControlPlane, m.Ready, m.PodsKnown, m.AttachedKnown = i == 0, true, true, true
		m.Pods = []fencing.Pod{{Namespace: "shop", Name: fmt.Sprintf("db-%d", i), UID: types.UID(fmt.Sprintf("pod-%d", i)), Protected: true, Tolerates: new(30 * time.Second)}}
		m.renewed(0)
		w.machines = append(w.machines, m)
		agent.Spec.Machines = append(agent.Spec.Machines, v1alpha1.FenceMachine{SystemUUID: uuid, Address: fmt.Sprintf("https://192.0.2.%d", i)})
	}
	w.agents = []v1alpha1.FenceAgent{agent}
	p := v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.FencePolicySpec{
		Mode: v1alpha1.FenceModeFence, SilentFor: metav1.Duration{Duration: time.Minute}, Release: v1alpha1.ReleasePodsAndTaint,
		Budget: v1alpha1.FenceBudget{MaxConcurrent: 1, MaxUnhealthy: intstr.FromString("40%"), MaxUnhealthyInZone: intstr.FromString("50%"), Cooldown: metav1.Duration{Duration: time.Minute}},
		Agents: []v1alpha1.FencePolicyAgent{{Name: "bmc", Timeout: metav1.Duration{Duration: 30 * time.Second}, Attempts: 2}},
	}}
	for _, c := range change {
		c(&p.Spec)
	}
	w.policies = fencing.CompilePolicies([]v1alpha1.FencePolicy{p})
	return w
}

func (m *machine) renewed(now time.Duration) {
	m.beat = now
	m.heard[m.BootID] = now
	at := metav1.NewMicroTime(began.Add(now))
	m.LastRenewal = &at
	m.Sign = string(m.UID) + "/" + m.BootID + "//" + strconv.FormatInt(int64(now), 10)
	m.Ready = true
	if m.SelfFence = nil; m.dog {
		m.SelfFence = &v1alpha1.SelfFence{BootID: m.BootID, Patience: metav1.Duration{Duration: dogPatience}, Timeout: metav1.Duration{Duration: dogTimeout}}
	}
}

// dogPatience and dogTimeout are those of the watchdogs. In the worst case they reset the machine three of them after the last decision to feed them.
const dogPatience, dogTimeout = time.Minute, 20 * time.Second

// withWatchdogs arms those of some machines, of which the policy's last agent reckons.
func (w *world) withWatchdogs(armed func() bool, alone bool) {
	w.agents = append(w.agents, v1alpha1.FenceAgent{ObjectMeta: metav1.ObjectMeta{Name: "dog", UID: "agent-2"}, Spec: v1alpha1.FenceAgentSpec{Type: v1alpha1.AgentWatchdog, Identity: v1alpha1.IdentityVerified}})
	agents := &w.policies[0].Spec.Agents
	if alone {
		*agents = nil
	}
	*agents = append(*agents, v1alpha1.FencePolicyAgent{Name: "dog", Timeout: metav1.Duration{Duration: 30 * time.Second}, Attempts: 1, Evidence: []v1alpha1.EvidenceClass{v1alpha1.EvidenceWatchdogExpired}})
	for _, m := range w.machines {
		m.dog = armed()
		m.renewed(0)
	}
}

func (w *world) moment() fencing.Moment {
	return fencing.Moment{Led: w.now - w.led, Wall: began.Add(w.now)}
}

func (w *world) machine(name string) *machine { return w.machines[name[1]-'0'] }

// bootNow is the boot that really runs.
func (m *machine) bootNow() string { return "boot-" + m.Name[1:] + "-" + strconv.Itoa(m.boots) }

// runs reports whether this boot of the machine really runs.
func (m *machine) runs(boot string) bool { return m.power && m.bootNow() == boot }

// pass lets time pass: kubelets renew, the node lifecycle controller marks, powers go.
func (w *world) pass(d time.Duration) {
	w.now += d
	for _, m := range w.machines {
		if m.goesAt != 0 && m.goesAt <= w.now {
			m.power, m.goesAt = false, 0
		}
		if m.dog && m.power && !m.linked && w.now-m.beat >= dogPatience+3*dogTimeout && m.bootNow() == m.BootID {
			m.boots++ // the machine is reset, and starts again
		}
		if m.power && m.linked {
			if !m.there { // a kubelet makes its Node again
				w.uids++
				m.there, m.UID, m.Taint, m.ConfirmOff, m.Partitioned = true, types.UID(fmt.Sprintf("node-%s-%d", m.Name, w.uids)), nil, "", nil
				delete(w.gone, m.Name)
			}
			if w.now-m.beat > d { // a kubelet that is back writes its own addresses
				m.Addresses, m.InternalIPs = []string{m.ip}, []string{m.ip}
			}
			m.BootID = m.bootNow()
			m.renewed(w.now)
		} else if w.now-m.beat >= 50*time.Second {
			m.Ready = false
		}
	}
	w.san.reconcile()
}

// turnOn powers a machine on: another boot.
func (m *machine) turnOn() {
	if !m.power {
		m.power = true
		m.boots++
	}
}

func (w *world) facts() fencing.Facts {
	f := fencing.Facts{Now: w.moment(), Storms: w.storms, Receipts: w.receipts, Agents: w.agents, Gone: map[types.UID]time.Duration{},
		Known: fencing.Known{Nodes: true, Fences: !w.unread, Receipts: true, Agents: true}, Self: fencing.Self{HasWritten: true, Wrote: w.now - w.led}}
	w.silence.Tick(f.Now.Led)
	for _, m := range w.machines {
		if !m.there {
			continue
		}
		w.silence.Hear(m.UID, m.Sign, f.Now.Led)
		n := m.Node
		n.Silent, n.Heard = w.silence.Of(m.UID, f.Now.Led)
		n.Live = !w.cached
		if s, healthy := n.Sighting(); healthy && !w.unnoted {
			w.book.Note(s)
		}
		n.Recorded, n.Told = w.book.Of(n.UID, n.BootID)
		n.VolumesKnown = !w.san.unread
		f.Nodes = append(f.Nodes, n)
	}
	w.san.facts(&f)
	for _, x := range w.fences {
		if m := w.machine(x.Spec.Node.Name); !m.there && w.gone[m.Name] || m.there && m.UID != x.Spec.Node.UID {
			f.Gone[x.Spec.Node.UID] = w.silence.Gone(x.Spec.Node.UID, f.Now.Led)
		}
		f.Fences = append(f.Fences, *x)
	}
	return f
}

// round is one round of a fencer, as package doc says.
func (w *world) round() {
	w.finish()
	f := w.facts()
	w.storms = fencing.Storms(w.policies, f)
	f.Storms = w.storms
	w.verdicts = fencing.Decide(w.policies, f)
	voids, told := fencing.Voids(f)
	for _, v := range voids {
		w.carryOut(nil, v)
	}
	if len(voids) > 0 {
		w.alarms += len(told)
		f.Receipts = w.receipts
	}
	for _, v := range w.verdicts {
		if x := fencing.NewFence(v, f); x != nil && !slices.ContainsFunc(w.fences, func(o *v1alpha1.Fence) bool { return o.Name == x.Name }) {
			w.fences = append(w.fences, x)
		}
	}
	for _, x := range w.fences {
		w.take(x, f)
	}
	lifts, _ := fencing.Lifts(f)
	for _, a := range lifts {
		if w.check != nil {
			w.check(nil, a)
		}
		w.carryOut(nil, a)
	}
}

// take takes a Fence as far as it goes in a round.
func (w *world) take(x *v1alpha1.Fence, f fencing.Facts) {
	var verdict *fencing.Verdict
	for i := range w.verdicts {
		if w.verdicts[i].Fence == x.Name {
			verdict = &w.verdicts[i]
		}
	}
	for range 8 {
		p := w.progress[x.Name]
		if p == nil {
			p = &fencing.Progress{}
			w.progress[x.Name] = p
		}
		next := fencing.Step(x, verdict, f, *p)
		if next.Changed {
			if w.refuse {
				return // a conflict: the next round tries again
			}
			x.Status = next.Status
			if w.check != nil {
				w.check(x, nil)
			}
			continue
		}
		for _, a := range next.Actions {
			if w.check != nil {
				w.check(x, a)
			}
			w.carryOut(x, a)
		}
		return
	}
	panic(fmt.Sprintf("Fence %s does not come to rest: %+v", x.Name, x.Status))
}

func (w *world) carryOut(x *v1alpha1.Fence, a fencing.Action) {
	if w.refuse {
		return
	}
	switch a := a.(type) {
	case fencing.ReadPower:
		w.call(x, a, a.Call)
	case fencing.OrderOff:
		w.call(x, a, a.Call)
	case fencing.AskPerson:
		p := w.progress[x.Name]
		p.Begin(a.Call, w.moment())
		p.Ordered(a.Call, nil)
	case fencing.CreateReceipt:
		if why := refused("FenceReceipt", &a.Receipt); why != "" {
			panic(fmt.Sprintf("the API server refuses to %s: %s", a, why))
		}
		if !slices.ContainsFunc(w.receipts, func(r v1alpha1.FenceReceipt) bool { return r.Name == a.Receipt.Name }) {
			w.receipts = append(slices.Clone(w.receipts), a.Receipt)
		}
	case fencing.ConfirmOff:
		if m := w.machine(a.Node.Name); m.UID == a.Node.UID && !m.full {
			m.ConfirmOff = a.Value
		}
	case fencing.DeletePod:
		if a.CutOff {
			w.cutOff = append(w.cutOff, a.Pod.Name)
		}
		m := w.machine(a.Node.Name)
		m.Pods = slices.DeleteFunc(slices.Clone(m.Pods), func(p fencing.Pod) bool { return p.UID == a.Pod.UID })
	case fencing.AddTaint:
		if m := w.machine(a.Node.Name); m.UID == a.Node.UID {
			m.Taint = new(fencing.TaintValue)
		}
	case fencing.LiftFence:
		w.san.lift(a.UID)
	case fencing.DeleteLifted:
		w.san.remove(a.UID)
	case fencing.RemoveTaint:
		if m := w.machine(a.Name); m.UID == a.UID {
			m.Taint = nil
		}
	}
}

// refused is why the API server would not store an object, by the rules of its CustomResourceDefinition; empty: it would.
func refused(kind string, object any) string {
	text, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return err.Error()
	}
	fields["apiVersion"], fields["kind"] = v1alpha1.GroupVersion.String(), kind
	if text, err = json.Marshal(fields); err != nil {
		return err.Error()
	}
	_, errs := policyfile.Check(&manifest.Document{File: kind, APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, JSON: text})
	var said []string
	for _, e := range errs {
		said = append(said, e.Error())
	}
	return strings.Join(said, "; ")
}

// call begins a call of the BMC, which ends in a later round.
func (w *world) call(x *v1alpha1.Fence, a fencing.Action, c fencing.Call) {
	w.progress[x.Name].Begin(c, w.moment())
	w.calls = append(w.calls, pending{fence: x.Name, action: a, began: w.moment(), ends: w.now + step/2})
}

// finish ends the calls whose time has come.
func (w *world) finish() {
	calls := w.calls
	w.calls = nil
	for _, c := range calls {
		if c.ends > w.now {
			w.calls = append(w.calls, c)
			continue
		}
		p := w.progress[c.fence]
		if p == nil {
			p = &fencing.Progress{}
			w.progress[c.fence] = p
		}
		switch a := c.action.(type) {
		case fencing.ReadPower:
			r, err := w.readPower(a.Machine)
			if a.Agent.Storage != nil {
				r, err = w.san.read(c.fence)
			}
			p.Read(a.Call, r, err, c.began, w.moment())
		case fencing.OrderOff:
			if a.Agent.Storage != nil {
				p.Ordered(a.Call, w.san.order(w, c.fence, a.Agent.Storage))
				continue
			}
			p.Ordered(a.Call, w.orderOff(a.Machine))
		}
	}
}

func (w *world) at(address string) *machine { return w.machines[address[len(address)-1]-'0'] }

func (w *world) readPower(at v1alpha1.FenceMachine) (fencing.Reading, error) {
	if at.Address == "" { // of a watchdog nothing is read, and a storage has none
		return fencing.Reading{State: "waits"}, nil
	}
	m := w.at(at.Address)
	r := fencing.Reading{Power: fencing.PowerOn, State: "On", SystemUUID: m.uuid}
	if !m.power {
		r = fencing.Reading{Power: fencing.PowerOff, State: "Off", SystemUUID: m.uuid}
	}
	switch m.bmc {
	case mute:
		return fencing.Reading{}, errMute
	case rubbish:
		return fencing.Reading{State: "", SystemUUID: m.uuid}, nil
	case foreign:
		return fencing.Reading{Power: fencing.PowerOff, State: "Off", SystemUUID: "99999999-1234-1234-1234-123456789012"}, nil
	case liar:
		m.lied = m.lied || m.power
		return fencing.Reading{Power: fencing.PowerOff, State: "Off", SystemUUID: m.uuid}, nil
	case reset:
		return fencing.Reading{Power: fencing.PowerOff, State: "Off", SystemUUID: m.uuid}, nil
	case stuck:
		if m.power {
			return fencing.Reading{State: "PoweringOff", SystemUUID: m.uuid}, nil
		}
	case good:
	}
	return r, nil
}

func (w *world) orderOff(at v1alpha1.FenceMachine) error {
	m := w.at(at.Address)
	switch m.bmc {
	case mute:
		return errMute
	case foreign:
		return fencing.ErrWrongMachine
	case good, reset:
		m.bmc = good
		m.goesAt = w.now + 12*time.Second
	case stuck, liar, rubbish:
	}
	return nil
}

// newLeader is a fencer that knows nothing.
func (w *world) newLeader() {
	w.led, w.silence, w.storms, w.progress, w.calls = w.now, fencing.Silence{}, nil, map[string]*fencing.Progress{}, nil
}

// until lets rounds pass until something is so, at most so many.
func (w *world) until(rounds int, so func() bool) bool {
	for range rounds {
		if so() {
			return true
		}
		w.pass(step)
		w.round()
	}
	return so()
}

// receiptOf is the standing receipt of a boot.
func (w *world) receiptOf(boot string) *v1alpha1.FenceReceipt {
	for _, r := range fencing.Standing(w.receipts) {
		if r.Spec.Node != nil && r.Spec.Node.BootID == boot {
			return r
		}
	}
	return nil
}
