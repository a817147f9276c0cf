package agents

import (
	"context"
	"maps"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/agents"
	"github.com/podgrace/podgrace/fencing/agents/agentstest"
)

// newExec is an agent that runs one of ClusterLabs' programs.
func newExec(t *testing.T, program string, parameters, secret map[string]string) fencing.Agent {
	t.Helper()
	clustertest.Require(t, Supported())
	object := &v1alpha1.FenceAgent{Spec: v1alpha1.FenceAgentSpec{
		Type: v1alpha1.AgentExec, Identity: v1alpha1.IdentityConfigured, Exec: &v1alpha1.ExecAgent{Program: program, Parameters: parameters, Secret: "secret"},
	}}
	agent, err := agents.New(object, agents.Options{Credentials: func(context.Context, string) (map[string][]byte, error) {
		values := map[string][]byte{}
		for key, value := range secret {
			values[key] = []byte(value)
		}
		return values, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

// with is a copy of a map with one more entry.
func with(m map[string]string, key, value string) map[string]string {
	m = maps.Clone(m)
	m[key] = value
	return m
}

func expectPower(t *testing.T, agent fencing.Agent, m v1alpha1.FenceMachine, want fencing.Power) {
	t.Helper()
	if read, err := agent.Power(t.Context(), m); err != nil || read.Power != want {
		t.Fatalf("read %+v, %v; want power %v", read, err, want)
	}
}

// expectFailure wants an error that tells no secret, of both calls.
func expectFailure(t *testing.T, agent fencing.Agent, m v1alpha1.FenceMachine, secret string) {
	t.Helper()
	read, err := agent.Power(t.Context(), m)
	if err == nil || read.Power != fencing.PowerUnknown {
		t.Errorf("read %+v, %v; want an error", read, err)
	}
	off := agent.Off(t.Context(), m)
	if off == nil {
		t.Error("off succeeds")
	}
	for _, err := range []error{err, off} {
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("a secret in %v", err)
		}
	}
	t.Logf("%v; %v", err, off)
}

var (
	redfishSecret     = map[string]string{"username": "fencer", "password": agentstest.Password}
	redfishParameters = map[string]string{"ssl_insecure": "1", "power_timeout": "2"}
)

// newBMC is a BMC of ours for their fence_redfish.
func newBMC(t *testing.T) (*agentstest.BMC, *agentstest.Machine, v1alpha1.FenceMachine) {
	t.Helper()
	machine := agentstest.NewMachine(agentstest.UUID)
	bmc := &agentstest.BMC{Username: redfishSecret["username"], Password: agentstest.Password, Systems: []agentstest.System{machine.System("1")}}
	address, _ := agentstest.Serve(t, bmc)
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return bmc, machine, v1alpha1.FenceMachine{SystemUUID: agentstest.UUID, Address: at.Hostname(), Parameters: map[string]string{"ipport": at.Port()}}
}

func TestFenceRedfish(t *testing.T) {
	agent := newExec(t, "fence_redfish", redfishParameters, redfishSecret)
	_, machine, m := newBMC(t)
	expectPower(t, agent, m, fencing.PowerOn)
	for range 2 {
		if err := agent.Off(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		expectPower(t, agent, m, fencing.PowerOff)
	}
	if machine.Offs() != 1 {
		t.Errorf("the machine was told to be off %d times; the second time it was off already", machine.Offs())
	}
	machine.SetState("On")
	expectPower(t, agent, m, fencing.PowerOn)
}

func TestFenceRedfishPowersOffForEver(t *testing.T) {
	agent := newExec(t, "fence_redfish", redfishParameters, redfishSecret)
	_, machine, m := newBMC(t)
	machine.SetAfterOff("PoweringOff")
	if err := agent.Off(t.Context(), m); err == nil {
		t.Error("off succeeds, though the machine never is")
	}
	if machine.Offs() == 0 {
		t.Error("the machine was not told to be off")
	}
	expectPower(t, agent, m, fencing.PowerOn) // which is how fence_redfish reads all but Off
}

func TestFenceRedfishFailures(t *testing.T) {
	for name, test := range map[string]struct{ parameters, secret map[string]string }{
		"wrong password":             {redfishParameters, with(redfishSecret, "password", agentstest.WrongPassword)},
		"an unknown authority":       {map[string]string{"power_timeout": "2"}, redfishSecret},
		"the password's name is odd": {redfishParameters, map[string]string{"username": "fencer", "pasword": agentstest.Password}}, // it repeats the line
	} {
		t.Run(name, func(t *testing.T) {
			agent := newExec(t, "fence_redfish", test.parameters, test.secret)
			_, machine, m := newBMC(t)
			machine.SetState("Off")
			for _, secret := range test.secret {
				if secret != "fencer" {
					expectFailure(t, agent, m, secret)
				}
			}
			if machine.Offs() != 0 {
				t.Error("the machine was told to be off")
			}
		})
	}
}

// fence_dummy writes the machine's power into a file.
func TestFenceDummy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "status")
	agent := newExec(t, "fence_dummy", map[string]string{"status_file": file}, nil)
	m := v1alpha1.FenceMachine{SystemUUID: agentstest.UUID}
	writeFile(t, file, "on")
	expectPower(t, agent, m, fencing.PowerOn)
	if err := agent.Off(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	expectPower(t, agent, m, fencing.PowerOff)
	writeFile(t, file, "paused")
	expectFailure(t, agent, m, "no secret")
}

// hang is how long a program that hangs is given.
const hang = 2 * time.Second

func TestFenceDummyHangs(t *testing.T) {
	agent := newExec(t, "fence_dummy", map[string]string{"delay": "86400"}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	if err := agent.Off(ctx, v1alpha1.FenceMachine{}); err == nil || ctx.Err() == nil {
		t.Errorf("off of what sleeps for a day: %v", err)
	}
}

func TestFenceIPMILAN(t *testing.T) {
	agent, bmc, m := newIPMI(t, ipmiPassword)
	expectPower(t, agent, m, fencing.PowerOn)
	if err := agent.Off(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	expectPower(t, agent, m, fencing.PowerOff)
	if got := bmc.orders(t); got != "set power 0" {
		t.Errorf("the machine was told %q", got)
	}
	bmc.write(t, "power", "1\n", 0o644) // somebody powers it on
	expectPower(t, agent, m, fencing.PowerOn)
}

// ipmiAgent is one that looks so many times whether a machine is off; "0": until it is. As many seconds each of its calls of ipmitool may take, before it kills that
// (fencing.py async_set_multi_power_fn and run_command, fence-agents 4.12): on a busy machine that could be one that was about to succeed.
func ipmiAgent(t *testing.T, password, powerTimeout string) fencing.Agent {
	t.Helper()
	return newExec(t, "fence_ipmilan", map[string]string{"lanplus": "1", "cipher": "3", "power_timeout": powerTimeout, "stonith_status_sleep": "0"},
		map[string]string{"username": ipmiUser, "password": password})
}

// newIPMI is a BMC with an agent that kills no call.
func newIPMI(t *testing.T, password string) (fencing.Agent, *ipmi, v1alpha1.FenceMachine) {
	t.Helper()
	agent := ipmiAgent(t, password, "0")
	bmc := startIPMI(t)
	return agent, bmc, v1alpha1.FenceMachine{SystemUUID: agentstest.UUID, Address: "127.0.0.1", Parameters: map[string]string{"ipport": bmc.port}}
}

func TestFenceIPMILANFailures(t *testing.T) {
	t.Run("the machine stays on", func(t *testing.T) {
		agent, bmc, m := newIPMI(t, ipmiPassword)
		bmc.write(t, "stuck", "", 0o644)
		if err := ipmiAgent(t, ipmiPassword, "20").Off(t.Context(), m); err == nil { // fence-agents' default: it is to give up by itself
			t.Error("off succeeds, though the machine never is")
		}
		if bmc.orders(t) == "" {
			t.Error("the machine was not told to be off")
		}
		expectPower(t, agent, m, fencing.PowerOn)
	})
	t.Run("wrong password", func(t *testing.T) {
		agent, bmc, m := newIPMI(t, "wr0ng%t&'x")
		bmc.write(t, "power", "0\n", 0o644)
		expectFailure(t, agent, m, "wr0ng%t")
		if got := bmc.orders(t); got != "" {
			t.Errorf("the machine was told %q", got)
		}
	})
	t.Run("nobody is there", func(t *testing.T) {
		_, _, m := newIPMI(t, ipmiPassword)
		m.Parameters = with(m.Parameters, "ipport", "9")                   // discard
		expectFailure(t, ipmiAgent(t, ipmiPassword, "3"), m, ipmiPassword) // no call succeeds here, and ipmitool alone takes half a minute to say so
	})
}
