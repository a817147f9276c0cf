package fencing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Next is what becomes of a Fence.
type Next struct {
	// Status that it is to have. Changed: it is not the one that it has, and there are no Actions: store it first, then call Step again with the Fence as it is stored.
	Status  v1alpha1.FenceStatus
	Changed bool
	// Actions to carry out, in their order, each whether or not the one before it worked. What is still to be done the next Step says again.
	Actions []Action
	// Tell are Events on the Fence and its Node, to be emitted once the status is stored.
	Tell []Told
	// After is when to call Step again at the latest, though nothing happens; 0: no earlier than something does.
	After time.Duration
}

// Told is an Event: what happened, and what to do about it.
type Told struct {
	// Warning: somebody should look. Alarm: at once (podgrace_fence_alarms_total).
	Warning, Alarm bool
	// Reason of the Event, CamelCase.
	Reason, Message string
}

// Action is one thing to do: one of the types below.
type Action interface {
	fmt.Stringer
	action()
}

// Call is which agent is called for which machine: what both calls of an agent have.
type Call struct {
	// Attempt that it belongs to.
	Attempt int32
	// Agent as it was frozen when the fence was decided: the credentials are those that the FenceAgent of that name and UID has now.
	Agent v1alpha1.FenceTargetAgent
	// Machine is what to call the agent with.
	Machine v1alpha1.FenceMachine
	// Timeout of this call: what the attempt has left.
	Timeout time.Duration
}

type (
	// ReadPower calls Agent.Power. Note it by Progress.Begin before and Progress.Read after the call.
	ReadPower struct{ Call }
	// OrderOff calls Agent.Off. Note it by Progress.Begin before and Progress.Ordered after the call.
	OrderOff struct{ Call }
	// AskPerson tells, by an Event, that a person has to confirm. Note it by Progress.Begin and Progress.Ordered.
	AskPerson struct{ Call }
	// CreateReceipt creates a FenceReceipt. That there is one of that name already is no error.
	CreateReceipt struct{ Receipt v1alpha1.FenceReceipt }
	// ConfirmOff annotates the Node with guard.AnnotationConfirmOff, where its UID is this one.
	ConfirmOff struct {
		Node  v1alpha1.BootReference
		Value string
	}
	// DeletePod deletes a pod with grace period 0, where its UID is this one. That is confirmed as long as its node is not heard of after the Heartbeat. Where a force delete was CutOff any update of
	// the pod removes it, or the next one of its name (guard.RemovedByUpdate), so that it is confirmed only if it can't be deleted without.
	DeletePod struct {
		Node      v1alpha1.BootReference
		Pod       v1alpha1.PodReference
		Heartbeat time.Time
		CutOff    bool
	}
	// AddTaint taints the Node, where its UID is this one, with node.kubernetes.io/out-of-service=podgrace-fence:NoExecute.
	AddTaint struct{ Node v1alpha1.BootReference }
	// RemoveTaint takes that taint away, where the Node's UID is this one and the taint's value is TaintValue.
	RemoveTaint struct {
		Name string
		UID  types.UID
	}
)

func (ReadPower) action()     {}
func (OrderOff) action()      {}
func (AskPerson) action()     {}
func (CreateReceipt) action() {}
func (ConfirmOff) action()    {}
func (DeletePod) action()     {}
func (AddTaint) action()      {}
func (RemoveTaint) action()   {}

func (c Call) String() string {
	return fmt.Sprintf("by FenceAgent %s, attempt %d", c.Agent.Name, c.Attempt)
}
func (a ReadPower) String() string  { return "read the power " + a.Call.String() }
func (a OrderOff) String() string   { return "power off " + a.Call.String() }
func (a AskPerson) String() string  { return "ask a person " + a.Call.String() }
func (a ConfirmOff) String() string { return "confirm that node " + a.Node.Name + " is off" }
func (a AddTaint) String() string   { return "taint node " + a.Node.Name + " as out of service" }
func (a RemoveTaint) String() string {
	return "take the taint out-of-service from node " + a.Name
}
func (a CreateReceipt) String() string { return "create FenceReceipt " + a.Receipt.Name }
func (a DeletePod) String() string {
	return fmt.Sprintf("delete pod %s/%s with grace period 0", a.Pod.Namespace, a.Pod.Name)
}

// Progress is what came of the calls of a Fence's last attempt. It is the memory of one fencer while it leads; the zero value is that of a fencer which knows nothing.
type Progress struct {
	// Attempt that it is of.
	Attempt int32
	// Began is when the first call of it began.
	Began time.Duration
	// Calling: a call goes on.
	Calling bool
	// Asked: the agent was asked to power off. Refused is the error that it returned.
	Asked   bool
	Refused error
	// Readings of the power, in their order: the last ones, no more than are needed.
	Readings []Read
}

// Read is one reading of the power, or the error instead.
type Read struct {
	Reading
	Err error
	// Began is before and At after the call.
	Began, At Moment
}

// keepReadings is how many readings Progress keeps.
const keepReadings = 4

// Begin notes that a call begins.
func (p *Progress) Begin(call Call, now Moment) {
	if p.Attempt != call.Attempt {
		*p = Progress{Attempt: call.Attempt, Began: now.Led}
	}
	p.Calling = true
}

// Ordered notes what Agent.Off returned. What was read before proves nothing of what the order has done.
func (p *Progress) Ordered(call Call, err error) {
	if p.Attempt == call.Attempt {
		p.Calling, p.Asked, p.Refused, p.Readings = false, true, err, nil
	}
}

// Read notes what Agent.Power returned, and when the call began.
func (p *Progress) Read(call Call, reading Reading, err error, began, now Moment) {
	if p.Attempt != call.Attempt {
		return
	}
	p.Calling = false
	p.Readings = append(p.Readings, Read{Reading: reading, Err: err, Began: began, At: now})
	if extra := len(p.Readings) - keepReadings; extra > 0 {
		p.Readings = p.Readings[extra:]
	}
}

// Agent powers machines off, and tells whether they are; or it takes storage away from them, and tells whether it is. Both calls may be repeated: a fencer that was restarted reads the power first, and orders it off again if need be.
// Both return by the end of their context, and may be called at once, for one machine too. The machine's SystemUUID is that of its node, which it is verified by.
type Agent interface {
	// Off orders the power of the machine off; never a reboot, which has no moment at which the machine is known to be off. That it returns nil proves nothing. Where
	// the machine behind the address is to be verified and tells a UUID that is another machine's, it does nothing and the error is ErrWrongMachine. One that was sent
	// may still be carried out after the context has ended.
	Off(ctx context.Context, m v1alpha1.FenceMachine) error
	// Power reads the machine's power, again each time. With an error, that of another machine (ErrWrongMachine) among them, it is PowerUnknown.
	Power(ctx context.Context, m v1alpha1.FenceMachine) (Reading, error)
}

// Power is whether a machine has power, as an agent read it.
type Power int

// What an agent can read. Whatever is not exactly off is not off: PoweringOff, Paused, an answer without a state.
const (
	PowerUnknown Power = iota
	PowerOn
	PowerOff
	// PowerGone is a virtual machine that its provider has terminated for good.
	PowerGone
	// PowerRevoked is a machine that may run, and whose storage takes no more writes from it.
	PowerRevoked
)

// Reading is what an agent read of a machine.
type Reading struct {
	Power Power
	// State is the agent's own word, such as PoweringOff.
	State string
	// SystemUUID that the machine told; empty: it told none.
	SystemUUID string
	// Object is the UID of what was read, where an agent makes an object by which others act: two readings prove something only if they are of the same.
	Object types.UID
}

// ErrWrongMachine is the error of an agent whose address leads to another machine than the one that was asked for.
var ErrWrongMachine = errors.New("another machine is at that address")

// ErrUnknownMachine is the error of an agent whose list has no such machine.
var ErrUnknownMachine = errors.New("the agent does not know this machine")
