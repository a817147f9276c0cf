package agents_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/agents"
	"github.com/podgrace/podgrace/fencing/agents/agentstest"
)

// user of BMCs. It is no secret, but stands in a Secret.
const user = "fencer"

func newAgent(t testing.TB, spec v1alpha1.FenceAgentSpec, secret map[string][]byte) fencing.Agent {
	t.Helper()
	fenceAgent := &v1alpha1.FenceAgent{Spec: spec}
	fenceAgent.Name = "test"
	agent, err := agents.New(fenceAgent, agents.Options{Credentials: func(_ context.Context, name string) (map[string][]byte, error) {
		if name != "secret" {
			return nil, fmt.Errorf("no Secret %s", name)
		}
		return secret, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

func redfishSpec(identity v1alpha1.FenceIdentity) v1alpha1.FenceAgentSpec {
	return v1alpha1.FenceAgentSpec{Type: v1alpha1.AgentRedfish, Identity: identity, Redfish: &v1alpha1.RedfishAgent{Secret: "secret"}}
}

func redfishSecret(password string, ca []byte) map[string][]byte {
	return map[string][]byte{"username": []byte(user + "\n"), "password": []byte(password + "\n"), "ca.crt": ca}
}

func TestRedfish(t *testing.T) {
	agentstest.Run(t, agentstest.Backend{
		Verifies: true,
		Faults:   append(agentstest.HTTPFaults, agentstest.Faults...),
		New: func(t *testing.T, s *agentstest.Setup) (fencing.Agent, v1alpha1.FenceMachine) {
			bmc := &agentstest.BMC{Username: user, Password: agentstest.Password, Systems: []agentstest.System{s.Machine.System("1")}}
			bmc.Before = s.Fault.Intercept(elsewhere(t), s.Reached)
			url, ca := agentstest.Serve(t, bmc)
			return newAgent(t, redfishSpec(s.Identity), redfishSecret(s.Password, ca)), v1alpha1.FenceMachine{SystemUUID: agentstest.UUID, Address: url}
		},
	})
}

// elsewhere is a host at which nobody may be heard of.
func elsewhere(t *testing.T) string {
	url, _ := agentstest.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s went to another host, with Authorization %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	return url
}

// bench is a BMC with two systems, of which the second is the machine's.
type bench struct {
	*agentstest.BMC
	machine, neighbour *agentstest.Machine
	agent              fencing.Agent
	at                 v1alpha1.FenceMachine
}

func newBench(t *testing.T) *bench {
	b := &bench{machine: agentstest.NewMachine(agentstest.UUID), neighbour: agentstest.NewMachine(agentstest.OtherUUID)}
	b.BMC = &agentstest.BMC{Username: user, Password: agentstest.Password, Systems: []agentstest.System{b.neighbour.System("1"), b.machine.System("2")}}
	url, ca := agentstest.Serve(t, b.BMC)
	b.agent = newAgent(t, redfishSpec(v1alpha1.IdentityVerified), redfishSecret(agentstest.Password, ca))
	b.at = v1alpha1.FenceMachine{SystemUUID: agentstest.UUID, Address: url, System: "/redfish/v1/Systems/2"}
	return b
}

// refused expects that powering off is an error with these words, and that nothing was sent.
func (b *bench) refused(t *testing.T, words string) {
	t.Helper()
	err := b.agent.Off(t.Context(), b.at)
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%v; want an error with %q", err, words)
	}
	if b.machine.Offs()+b.neighbour.Offs() != 0 {
		t.Error("a machine was told to be off")
	}
	agentstest.NoSecrets(t, err)
	if strings.Contains(fmt.Sprint(err), "hunter2") {
		t.Errorf("a password in an error: %v", err)
	}
}

func TestRedfishOfSeveralSystems(t *testing.T) {
	b := newBench(t)
	if err := b.agent.Off(t.Context(), b.at); err != nil {
		t.Fatal(err)
	}
	if b.machine.Offs() != 1 || b.neighbour.Offs() != 0 {
		t.Errorf("%d orders for the machine, %d for its neighbour", b.machine.Offs(), b.neighbour.Offs())
	}
	for _, r := range b.Requests() {
		if r.Method == http.MethodPost && r.ResetType != "ForceOff" {
			t.Errorf("it sent %+v", r)
		}
		if strings.Contains(r.Path, "Sessions") {
			t.Errorf("it made a session: %+v", r)
		}
	}

	b = newBench(t)
	b.at.System = ""
	b.refused(t, "the BMC has 2 systems (/redfish/v1/Systems/1, /redfish/v1/Systems/2)")
	b.Systems = nil
	b.refused(t, "the BMC has 0 systems")
	b = newBench(t)
	b.at.System = "/redfish/v1/Systems/1"
	b.refused(t, "its UUID is "+agentstest.OtherUUID)
	b.at.System = "/redfish/v1/Systems/3"
	b.refused(t, "404")
}

func TestRedfishIsNotSentWhereItIsOff(t *testing.T) {
	b := newBench(t)
	b.machine.SetState("Off")
	if err := b.agent.Off(t.Context(), b.at); err != nil {
		t.Fatal(err)
	}
	if b.Posts() != 0 {
		t.Errorf("it sent %+v", b.Requests())
	}
}

func TestRedfishResetTypes(t *testing.T) {
	b := newBench(t)
	b.Systems[1].ResetTypes = []string{"On", "GracefulShutdown", "PushPowerButton", "ForceRestart"}
	b.refused(t, "its ResetTypes are On, GracefulShutdown, PushPowerButton, ForceRestart")
}

// What a BMC that is broken or in others' hands may tell of a machine.
func TestRedfishHostileSystem(t *testing.T) {
	other := elsewhere(t)
	reset := func(target string) map[string]any {
		return map[string]any{"#ComputerSystem.Reset": map[string]any{"target": target}}
	}
	tests := map[string]struct {
		edit  func(map[string]any)
		words string
	}{
		"another host's action":              {func(s map[string]any) { s["Actions"] = reset(other + "/x") }, ""},
		"an action that makes a user of us":  {func(s map[string]any) { s["Actions"] = reset("@" + strings.TrimPrefix(other, "https://") + "/x") }, "another host"},
		"an action that goes on in the host": {func(s map[string]any) { s["Actions"] = reset("0/x") }, ""},
		"the neighbour's action": {
			func(s map[string]any) { s["Actions"] = reset("/redfish/v1/Systems/1/Actions/ComputerSystem.Reset") }, "nothing is to be sent",
		},
		"the neighbour's, by a detour": {
			func(s map[string]any) {
				s["Actions"] = reset("/redfish/v1/Systems/2/Actions/../../1/Actions/ComputerSystem.Reset")
			}, "nothing is to be sent",
		},
		"the neighbour's, by a coded detour": {
			func(s map[string]any) {
				s["Actions"] = reset("/redfish/v1/Systems/2/Actions/%2e%2e/%2e%2e/1/Actions/ComputerSystem.Reset")
			}, "nothing is to be sent",
		},
		"what it can do is elsewhere": {
			func(s map[string]any) {
				s["Actions"] = map[string]any{"#ComputerSystem.Reset": map[string]any{
					"target": "/redfish/v1/Systems/2/Actions/ComputerSystem.Reset", "@Redfish.ActionInfo": "@" + strings.TrimPrefix(other, "https://") + "/x",
				}}
			}, "another host",
		},
		"no action":        {func(s map[string]any) { delete(s, "Actions") }, ""},
		"it is the other":  {func(s map[string]any) { s["@odata.id"] = "/redfish/v1/Systems/1" }, "says that it is"},
		"power of a type":  {func(s map[string]any) { s["PowerState"] = []string{"Off"} }, "ComputerSystem /redfish/v1/Systems/2"},
		"a UUID of a type": {func(s map[string]any) { s["UUID"] = 7 }, "ComputerSystem /redfish/v1/Systems/2"},
		"an endless UUID":  {func(s map[string]any) { s["UUID"] = strings.Repeat("a", 1<<19) }, "another machine"},
		"control characters": {
			func(s map[string]any) { s["UUID"] = "\x1b[2J\u202e##[error]" }, "another machine",
		},
		"nothing": {func(s map[string]any) { clear(s) }, "says that it is"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Edit = test.edit
			b.refused(t, test.words)
			if err := b.agent.Off(t.Context(), b.at); strings.ContainsAny(err.Error(), "\x1b\u202e\n") {
				t.Errorf("%q steers whoever reads it", err)
			}
		})
	}
}

// A reading goes into a receipt, whatever the BMC tells.
func TestRedfishReadingFitsAReceipt(t *testing.T) {
	b := newBench(t)
	b.agent = newAgent(t, redfishSpec(v1alpha1.IdentityConfigured), redfishSecret(agentstest.Password, caOf(t, b)))
	b.Edit = func(s map[string]any) {
		s["PowerState"] = strings.Repeat("\u00fc\n", 500)
		s["UUID"] = strings.Repeat("\x00", 500)
	}
	read, err := b.agent.Power(t.Context(), b.at)
	if err != nil || read.Power != fencing.PowerUnknown || len(read.State) > 64 || len(read.SystemUUID) > 64 || strings.ContainsAny(read.State+read.SystemUUID, "\n\x00") {
		t.Errorf("read %+v (%d, %d), %v", read, len(read.State), len(read.SystemUUID), err)
	}
}

// caOf moves a bench to another server, and is that one's authority.
func caOf(t *testing.T, b *bench) []byte {
	url, ca := agentstest.Serve(t, b.BMC)
	b.at.Address = url
	return ca
}

func TestRedfishVerifiesTheBMC(t *testing.T) {
	b := newBench(t)
	// All test servers have one certificate: the stranger's authorities are the system's.
	b.agent = newAgent(t, redfishSpec(v1alpha1.IdentityVerified), redfishSecret(agentstest.Password, nil))
	b.refused(t, "certificate")
	b.agent = newAgent(t, redfishSpec(v1alpha1.IdentityVerified), redfishSecret(agentstest.Password, []byte("none")))
	b.refused(t, "ca.crt of Secret secret has no certificate")
	if n := len(b.Requests()); n != 0 {
		t.Errorf("%d requests came through", n)
	}
	insecure := redfishSpec(v1alpha1.IdentityVerified)
	insecure.Redfish.InsecureSkipVerify = true
	b.agent = newAgent(t, insecure, redfishSecret(agentstest.Password, nil))
	if err := b.agent.Off(t.Context(), b.at); err != nil {
		t.Error(err)
	}
}

func TestRedfishConfiguration(t *testing.T) {
	b := newBench(t)
	good := b.at
	for address, words := range map[string]string{
		"":                                      "https URL",
		"192.0.2.7":                             "https URL",
		"http://192.0.2.7":                      "https URL",
		"https://":                              "https URL",
		"https://fencer:" + "hunter2@192.0.2.7": "no user or password",
		good.Address + "/redfish/v1":            "no path",
		good.Address + "?a=b":                   "no query",
		"https://192.0.2.7:%zz":                 "no URL",
	} {
		b.at.Address = address
		b.refused(t, words)
	}
	b.at = good
	for _, system := range []string{"redfish/v1/Systems/2", "/redfish/v1/Systems/../Systems/2", "/redfish/v1/Systems/2?x", "@192.0.2.1/2", "/redfish/v1/Systems/%32", "//192.0.2.1/2"} {
		b.at.System = system
		b.refused(t, "is no path")
	}
	b.at = good
	b.at.SystemUUID = ""
	b.refused(t, "no systemUUID of its own")
	b.at = good
	for words, secret := range map[string]map[string][]byte{
		"no username in":     {"password": []byte("x")},
		"no password in":     {"username": []byte("x"), "password": []byte("\n")},
		"more than one line": {"username": []byte("x"), "password": []byte("a\nb")},
		"colon":              {"username": []byte("a:b"), "password": []byte("x")},
	} {
		b.agent = newAgent(t, redfishSpec(v1alpha1.IdentityVerified), secret)
		b.refused(t, words)
	}
	if n := len(b.Requests()); n != 0 {
		t.Errorf("%d requests were made", n)
	}
	missing := redfishSpec(v1alpha1.IdentityVerified)
	missing.Redfish.Secret = "other"
	b.agent = newAgent(t, missing, nil)
	b.refused(t, "read Secret other: no Secret other")
}

// A BMC that repeats credentials in all forms that programs are wont to show them in.
func TestRedfishErrorsHaveNoSecrets(t *testing.T) {
	header := base64.StdEncoding.EncodeToString([]byte(user + ":" + agentstest.Password))
	b := newBench(t)
	b.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "" {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "%s %s %q", r.Header.Get("Authorization"), agentstest.Password, agentstest.Password)
		return true
	}
	err := b.agent.Off(t.Context(), b.at)
	agentstest.NoSecrets(t, err)
	if err == nil || strings.Contains(err.Error(), header) || !strings.Contains(err.Error(), "400: Basic [secret] [secret] ") {
		t.Errorf("%v", err)
	}
}

// Each answer that a BMC gives on the way to a reading may be anything at all.
func FuzzRedfish(f *testing.F) {
	system := `{"@odata.id":"/redfish/v1/Systems/1","UUID":"` + agentstest.UUID + `","PowerState":"Off"}`
	f.Add(`{"Systems":{"@odata.id":"/redfish/v1/Systems"}}`, `{"Members":[{"@odata.id":"/redfish/v1/Systems/1"}]}`, system)
	f.Add(`{"Systems":{"@odata.id":"@x"}}`, `{"Members":[{"@odata.id":null}],"Links":{"Members":[]}}`, strings.ReplaceAll(system, "Off", "PoweringOff"))
	f.Add(`[]`, `{"Members@odata.nextLink":"/"}`, `{"Actions":{"#ComputerSystem.Reset":{"target":""}},"@Message.ExtendedInfo":[{}]}`)
	var root, list, computer string
	mux := http.NewServeMux()
	tell := func(text *string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, *text)
		}
	}
	mux.HandleFunc("GET /redfish/v1/", tell(&root))
	mux.HandleFunc("GET /redfish/v1/Systems", tell(&list))
	mux.HandleFunc("GET /redfish/v1/Systems/1", tell(&computer))
	mux.HandleFunc("POST /", func(_ http.ResponseWriter, r *http.Request) { f.Errorf("%s was sent to", r.URL) })
	server := httptest.NewTLSServer(mux)
	f.Cleanup(server.Close)
	spec := redfishSpec(v1alpha1.IdentityVerified)
	spec.Redfish.InsecureSkipVerify = true
	agent := newAgent(f, spec, redfishSecret(agentstest.Password, nil))
	f.Fuzz(func(t *testing.T, a, b, c string) {
		root, list, computer = a, b, c
		read, err := agent.Power(t.Context(), v1alpha1.FenceMachine{SystemUUID: agentstest.UUID, Address: server.URL})
		if err != nil && read.Power != fencing.PowerUnknown {
			t.Errorf("read %+v, %v", read, err)
		}
		if read.Power == fencing.PowerOff && (read.State != "Off" || !strings.Contains(c, "Off") && !strings.Contains(c, `\u`)) {
			t.Errorf("%q is read as off", c)
		}
	})
}
