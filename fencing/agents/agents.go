package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
)

// Credentials reads a Secret of the namespace that holds FenceAgents' Secrets.
type Credentials func(ctx context.Context, secret string) (map[string][]byte, error)

// Options are what agents need besides their FenceAgent.
type Options struct {
	// Credentials reads the Secrets that agents name.
	Credentials Credentials
	// ProgramDirs are where fence agents of ClusterLabs are looked for; absent: where distributions install them.
	ProgramDirs []string
	// Storage is what NetworkFence needs.
	Storage Storage
}

// New makes an agent as its FenceAgent says. It has a copy of it: an agent that was made goes on as it was, whatever becomes of the object.
func New(agent *v1alpha1.FenceAgent, options Options) (fencing.Agent, error) {
	spec := agent.Spec.DeepCopy()
	var (
		made fencing.Agent
		err  error
	)
	switch {
	case spec.Type == v1alpha1.AgentRedfish && spec.Redfish != nil:
		made = &redfish{spec: *spec.Redfish, identity: spec.Identity, credentials: options.Credentials}
	case spec.Type == v1alpha1.AgentExec && spec.Exec != nil:
		made, err = newExec(*spec.Exec, spec.Identity, options)
	case spec.Type == v1alpha1.AgentWebhook && spec.Webhook != nil:
		made, err = newWebhook(*spec.Webhook, spec.Identity, options.Credentials)
	case spec.Type == v1alpha1.AgentNetworkFence && spec.NetworkFence != nil:
		made, err = newNetworkFence(spec.NetworkFence, options.Storage)
	case spec.Type == v1alpha1.AgentManual, spec.Type == v1alpha1.AgentWatchdog:
		made = manual{}
	default:
		err = fmt.Errorf("type %q without its section", spec.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("FenceAgent %s: %w", agent.Name, err)
	}
	return made, nil
}

// manual waits for a person, or for the machine itself. It has nothing to send and nothing to read: a person's word is a FenceReceipt of class Confirmed, which package fencing's state machine
// looks for by itself, so that it counts while another agent is tried, too.
type manual struct{}

// Off does nothing.
func (manual) Off(ctx context.Context, _ v1alpha1.FenceMachine) error { return ctx.Err() }

// Power is never known.
func (manual) Power(ctx context.Context, _ v1alpha1.FenceMachine) (fencing.Reading, error) {
	return fencing.Reading{State: "waits"}, ctx.Err()
}

// identify holds what a machine tells of itself against the one that was asked for. Whatever is not exactly Configured is to be verified. Configured is for those that tell
// nothing: one that tells another UUID is no proof all the same, which is the fencer's to say (fencing/attempt.go, wrongMachine).
func identify(identity v1alpha1.FenceIdentity, m v1alpha1.FenceMachine, told string) error {
	if identity == v1alpha1.IdentityConfigured {
		return nil
	}
	if fencing.MachineKey(told) == "" {
		return fmt.Errorf("the machine there tells no UUID of its own (%q), so it can't be verified to be %s", told, m.SystemUUID)
	}
	if same, _ := fencing.SameMachine(m.SystemUUID, told); !same {
		return fmt.Errorf("%w: its UUID is %s, that of the node's machine %s", fencing.ErrWrongMachine, told, m.SystemUUID)
	}
	return nil
}

// verifiable reports whether there is anything to identify a machine by. It is asked before anybody else is.
func verifiable(identity v1alpha1.FenceIdentity, m v1alpha1.FenceMachine) error {
	if identity != v1alpha1.IdentityConfigured && fencing.MachineKey(m.SystemUUID) == "" {
		return fmt.Errorf("the machine has no systemUUID of its own (%q) to be verified by: if the list of machines is to be trusted, say identity: Configured", m.SystemUUID)
	}
	return nil
}

// reading is what was read, in as many letters as a receipt has room for.
func reading(power fencing.Power, state, systemUUID string) fencing.Reading {
	return fencing.Reading{Power: power, State: short(state, maxWord), SystemUUID: short(systemUUID, maxWord)}
}

// secret is what was read of a Secret.
type secret struct {
	name   string
	values map[string][]byte
}

// read reads a Secret; no name, no values.
func (c Credentials) read(ctx context.Context, name string) (secret, error) {
	if name == "" {
		return secret{}, nil
	}
	if c == nil {
		return secret{}, errors.New("there are no credentials")
	}
	values, err := c(ctx, name)
	if err != nil {
		return secret{}, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return secret{name: name, values: values}, nil
}

// text is a value that must be there and fit in one line. The newline that an editor or echo left at its end does not count.
func (s secret) text(key string) (string, error) {
	value := trimNewline(string(s.values[key]))
	switch {
	case value == "":
		return "", fmt.Errorf("no %s in Secret %s", key, s.name)
	case strings.ContainsAny(value, "\r\n\x00"):
		return "", fmt.Errorf("%s of Secret %s has more than one line", key, s.name)
	}
	return value, nil
}

func trimNewline(value string) string {
	return strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")
}
