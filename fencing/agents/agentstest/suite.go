package agentstest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
)

// UUIDs of machines that tests have, and the first one as SMBIOS has its bytes.
const (
	UUID        = "4c4c4544-0035-4d10-8051-b3c04f4e3132"
	UUIDSwapped = "44454c4c-3500-104d-8051-b3c04f4e3132"
	OtherUUID   = "4c4c4544-0035-4d10-8051-b3c04f4e3133"
)

// What agents are given as a password, and what some are given instead. Both have letters that programs are wont to quote.
const (
	Password      = `s3cr%t/&"it's" +1\x`
	WrongPassword = `wr0ng%t/&"it's" +2\y`
)

// Setup is what a test wants to stand at an address.
type Setup struct {
	// Machine that is there.
	Machine *Machine
	// Password that the agent has. Password is the right one.
	Password string
	// Fault of whoever answers.
	Fault Fault
	// Identity that the agent is to have.
	Identity v1alpha1.FenceIdentity

	reached     chan struct{}
	reachedOnce sync.Once
}

// Reached is to be called when somebody was asked.
func (s *Setup) Reached() { s.reachedOnce.Do(func() { close(s.reached) }) }

// Backend is a kind of agent, and whom it speaks to.
type Backend struct {
	// Verifies reports whether it can tell machines apart.
	Verifies bool
	// Faults that whoever it speaks to can have.
	Faults []Fault
	// New makes an agent, and the machine for which it has it power off what stands at the address. The machine's SystemUUID is to be UUID.
	New func(t *testing.T, s *Setup) (fencing.Agent, v1alpha1.FenceMachine)
}

// Run runs the suite.
func Run(t *testing.T, b Backend) {
	t.Run("powers off", b.powersOff)
	t.Run("reads what is not off as not off", b.notOff)
	t.Run("reads anew each time", b.readsAnew)
	t.Run("returns when its context ends", b.contextEnds)
	t.Run("does nothing once its context has ended", b.contextEnded)
	t.Run("a wrong password does nothing and is not told", b.wrongPassword)
	t.Run("serves several at once", b.severalAtOnce)
	for _, fault := range b.Faults {
		t.Run(string(fault), func(t *testing.T) { b.fault(t, fault) })
	}
	if b.Verifies {
		t.Run("leaves another machine alone", b.wrongMachine)
		t.Run("knows a machine in the other byte order", b.otherByteOrder)
		t.Run("trusts a list that is to be trusted", b.configured)
	}
}

func (b Backend) setup(uuid string) *Setup {
	s := &Setup{Machine: NewMachine(uuid), Password: Password, Identity: v1alpha1.IdentityConfigured, reached: make(chan struct{})}
	if b.Verifies {
		s.Identity = v1alpha1.IdentityVerified
	}
	return s
}

func (b Backend) powersOff(t *testing.T) {
	s := b.setup(UUID)
	agent, m := b.New(t, s)
	expect(t, agent, m, fencing.PowerOn)
	for range 2 { // it may be ordered again
		if err := agent.Off(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		read := expect(t, agent, m, fencing.PowerOff)
		if read.State == "" {
			t.Error("it reads off without a state")
		}
		if b.Verifies && read.SystemUUID != UUID {
			t.Errorf("it reads UUID %q, want %q", read.SystemUUID, UUID)
		}
	}
	if s.Machine.Offs() == 0 {
		t.Error("the machine was not told to be off")
	}
}

func (b Backend) notOff(t *testing.T) {
	for _, state := range []string{"On", "PoweringOff", "PoweringOn", "Paused", "off", "OFF", "Off ", " Off", "", "null", "0", "Offline"} {
		s := b.setup(UUID)
		s.Machine.SetAfterOff(state)
		agent, m := b.New(t, s)
		if err := agent.Off(t.Context(), m); err != nil {
			t.Errorf("off of a machine that is %q afterwards: %v", state, err)
		}
		read, err := agent.Power(t.Context(), m)
		if read.Power == fencing.PowerOff || read.Power == fencing.PowerGone {
			t.Errorf("a machine in state %q is read as off: %+v, %v", state, read, err)
		}
	}
}

// A machine that was off and is on again, as one that a person or another controller powers on.
func (b Backend) readsAnew(t *testing.T) {
	s := b.setup(UUID)
	agent, m := b.New(t, s)
	for _, state := range []string{"Off", "On", "Off"} {
		s.Machine.SetState(state)
		want := fencing.PowerOn
		if state == "Off" {
			want = fencing.PowerOff
		}
		expect(t, agent, m, want)
	}
}

func (b Backend) contextEnds(t *testing.T) {
	for name, call := range calls {
		s := b.setup(UUID)
		s.Fault = Silent
		agent, m := b.New(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-s.reached
			cancel()
		}()
		read, err := call(ctx, agent, m)
		if !errors.Is(err, context.Canceled) || read.Power != fencing.PowerUnknown {
			t.Errorf("%s of a machine that hangs: %+v, %v; want the context's error", name, read, err)
		}
		cancel()
	}
}

func (b Backend) contextEnded(t *testing.T) {
	for name, call := range calls {
		s := b.setup(UUID)
		agent, m := b.New(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if read, err := call(ctx, agent, m); !errors.Is(err, context.Canceled) || read.Power != fencing.PowerUnknown {
			t.Errorf("%s: %+v, %v; want the context's error", name, read, err)
		}
		if n := s.Machine.Offs(); n != 0 {
			t.Errorf("%s: the machine was told to be off", name)
		}
	}
}

func (b Backend) wrongPassword(t *testing.T) {
	for name, call := range calls {
		s := b.setup(UUID)
		s.Machine.SetState("Off")
		s.Password = WrongPassword
		agent, m := b.New(t, s)
		read, err := call(t.Context(), agent, m)
		if err == nil || read.Power != fencing.PowerUnknown {
			t.Errorf("%s: %+v, %v; want an error", name, read, err)
		}
		NoSecrets(t, err)
		if s.Machine.Offs() != 0 {
			t.Errorf("%s: the machine was told to be off", name)
		}
	}
}

func (b Backend) severalAtOnce(t *testing.T) {
	s := b.setup(UUID)
	agent, m := b.New(t, s)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := agent.Off(t.Context(), m); err != nil {
				t.Error(err)
			}
			if read, err := agent.Power(t.Context(), m); err != nil || read.Power != fencing.PowerOff {
				t.Errorf("read %+v, %v", read, err)
			}
		})
	}
	group.Wait()
}

// fault has the machine off all the while: what can't be read well must not pass for it.
func (b Backend) fault(t *testing.T, fault Fault) {
	for name, call := range calls {
		s := b.setup(UUID)
		s.Machine.SetState("Off")
		s.Fault = fault
		agent, m := b.New(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		if fault == Silent || fault == Drip {
			go func() {
				<-s.reached
				cancel()
			}()
		}
		read, err := call(ctx, agent, m)
		if err == nil || read.Power != fencing.PowerUnknown {
			t.Errorf("%s: %+v, %v; want an error and nothing known", name, read, err)
		}
		NoSecrets(t, err)
		cancel()
	}
}

func (b Backend) wrongMachine(t *testing.T) {
	for _, uuid := range []string{OtherUUID, "", "00000000-0000-0000-0000-000000000000"} {
		for name, call := range calls {
			s := b.setup(uuid)
			s.Machine.SetState("Off")
			s.Machine.SetAfterOff("Off")
			agent, m := b.New(t, s)
			read, err := call(t.Context(), agent, m)
			if err == nil || read.Power != fencing.PowerUnknown {
				t.Errorf("%s of a machine with UUID %q: %+v, %v; want an error", name, uuid, read, err)
			}
			if uuid == OtherUUID && !errors.Is(err, fencing.ErrWrongMachine) {
				t.Errorf("%s of another machine: %v; want ErrWrongMachine", name, err)
			}
			if n := s.Machine.Offs(); n != 0 {
				t.Errorf("%s: a machine with UUID %q was told to be off", name, uuid)
			}
		}
	}
}

func (b Backend) otherByteOrder(t *testing.T) {
	s := b.setup(UUIDSwapped)
	agent, m := b.New(t, s)
	if err := agent.Off(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if read := expect(t, agent, m, fencing.PowerOff); read.SystemUUID != UUIDSwapped {
		t.Errorf("it reads UUID %q, want it as the machine has it, %q", read.SystemUUID, UUIDSwapped)
	}
}

func (b Backend) configured(t *testing.T) {
	for _, uuid := range []string{OtherUUID, ""} {
		s := b.setup(uuid)
		s.Identity = v1alpha1.IdentityConfigured
		agent, m := b.New(t, s)
		if err := agent.Off(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if read := expect(t, agent, m, fencing.PowerOff); read.SystemUUID != uuid {
			t.Errorf("it reads UUID %q, want %q: a receipt tells it", read.SystemUUID, uuid)
		}
	}
}

// calls are both that an agent has.
var calls = map[string]func(context.Context, fencing.Agent, v1alpha1.FenceMachine) (fencing.Reading, error){
	"off": func(ctx context.Context, agent fencing.Agent, m v1alpha1.FenceMachine) (fencing.Reading, error) {
		return fencing.Reading{}, agent.Off(ctx, m)
	},
	"power": func(ctx context.Context, agent fencing.Agent, m v1alpha1.FenceMachine) (fencing.Reading, error) {
		return agent.Power(ctx, m)
	},
}

func expect(t *testing.T, agent fencing.Agent, m v1alpha1.FenceMachine, want fencing.Power) fencing.Reading {
	t.Helper()
	read, err := agent.Power(t.Context(), m)
	if err != nil || read.Power != want {
		t.Fatalf("read %+v, %v; want power %v", read, err, want)
	}
	return read
}

// NoSecrets fails the test if an error, or anything that it wraps, has a password in it, or more text than a status has room for.
func NoSecrets(t *testing.T, err error) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		for _, secret := range []string{Password, WrongPassword, Password[:6], WrongPassword[:6]} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("a secret in an error: %v", err)
			}
		}
		if len(err.Error()) > 1024 {
			t.Errorf("an error of %d bytes: %.200s", len(err.Error()), err)
		}
	}
}
