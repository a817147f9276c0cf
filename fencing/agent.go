package fencing

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

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
