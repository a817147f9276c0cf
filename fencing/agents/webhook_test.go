package agents_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/agents"
	"github.com/podgrace/podgrace/fencing/agents/agentstest"
)

func webhookSpec(url string, identity v1alpha1.FenceIdentity) v1alpha1.FenceAgentSpec {
	return v1alpha1.FenceAgentSpec{Type: v1alpha1.AgentWebhook, Identity: identity, Webhook: &v1alpha1.WebhookAgent{URL: url, Secret: "secret"}}
}

func TestWebhook(t *testing.T) {
	agentstest.Run(t, agentstest.Backend{
		Verifies: true,
		Faults:   append(agentstest.HTTPFaults, agentstest.Faults...),
		New: func(t *testing.T, s *agentstest.Setup) (fencing.Agent, v1alpha1.FenceMachine) {
			service := &agentstest.Service{Token: agentstest.Password, Machine: s.Machine, Before: s.Fault.Intercept(elsewhere(t), s.Reached)}
			url, ca := agentstest.Serve(t, service)
			secret := map[string][]byte{"token": []byte(s.Password + "\n"), "ca.crt": ca}
			return newAgent(t, webhookSpec(url+"/fence", s.Identity), secret), v1alpha1.FenceMachine{SystemUUID: agentstest.UUID}
		},
	})
}

// serviceBench is a service, and an agent that asks it.
func serviceBench(t *testing.T, identity v1alpha1.FenceIdentity) (*agentstest.Service, fencing.Agent) {
	service := &agentstest.Service{Token: agentstest.Password, Machine: agentstest.NewMachine(agentstest.UUID)}
	url, ca := agentstest.Serve(t, service)
	return service, newAgent(t, webhookSpec(url, identity), map[string][]byte{"token": []byte(agentstest.Password), "ca.crt": ca})
}

func TestWebhookRequests(t *testing.T) {
	service, agent := serviceBench(t, v1alpha1.IdentityVerified)
	m := v1alpha1.FenceMachine{SystemUUID: agentstest.UUID, ProviderID: "x://1", Address: "a", System: "s", Parameters: map[string]string{"k": "v"}}
	if err := agent.Off(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	requests := service.Requests()
	if len(requests) != 2 || requests[0].Action != agents.ActionPower || requests[1].Action != agents.ActionOff {
		t.Fatalf("it asked %+v; want the power, then off", requests)
	}
	if requests[0].UID == "" || requests[0].UID == requests[1].UID {
		t.Errorf("uids %q and %q", requests[0].UID, requests[1].UID)
	}
	want := agents.FenceRequest{APIVersion: "podgrace.dev/v1alpha1", Kind: "FenceRequest", UID: requests[1].UID, Action: agents.ActionOff, Machine: m}
	if diff := cmp.Diff(want, requests[1]); diff != "" {
		t.Error(diff)
	}
}

func TestWebhookPowers(t *testing.T) {
	for state, want := range map[string]fencing.Power{
		"On": fencing.PowerOn, "Off": fencing.PowerOff, "Gone": fencing.PowerGone, "stopping": fencing.PowerUnknown,
	} {
		service, agent := serviceBench(t, v1alpha1.IdentityVerified)
		service.Machine.SetState(state)
		read, err := agent.Power(t.Context(), v1alpha1.FenceMachine{SystemUUID: agentstest.UUID})
		if diff := cmp.Diff(fencing.Reading{Power: want, State: state, SystemUUID: agentstest.UUID}, read); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}

// What a service may answer that is well-formed, and no answer.
func TestWebhookNoAnswer(t *testing.T) {
	const good = `"apiVersion":"podgrace.dev/v1alpha1","kind":"FenceAnswer","systemUUID":"` + agentstest.UUID + `"`
	tests := map[string]struct{ body, words string }{
		"nothing":                 {"", "not one JSON value"},
		"null":                    {"null", "no FenceAnswer"},
		"a list":                  {"[]", "cannot unmarshal"},
		"another kind":            {`{"apiVersion":"podgrace.dev/v1alpha1","kind":"FenceRequest","uid":UID,"power":"Off"}`, "no FenceAnswer"},
		"another version":         {`{"apiVersion":"podgrace.dev/v2","kind":"FenceAnswer","uid":UID,"power":"Off"}`, "no FenceAnswer"},
		"another request's":       {`{` + good + `,"uid":"1","power":"Off"}`, `to the request with uid "1"`},
		"no request's":            {`{` + good + `,"power":"Off"}`, `to the request with uid ""`},
		"no power":                {`{` + good + `,"uid":UID,"state":"Off"}`, `has power ""`},
		"power in small letters":  {`{` + good + `,"uid":UID,"power":"off"}`, `has power "off"`},
		"power in another case":   {`{` + good + `,"uid":UID,"Power":"Off"}`, `unknown field "Power"`},
		"an unknown field":        {`{` + good + `,"uid":UID,"power":"Off","error":"it is not"}`, `unknown field "error"`},
		"two powers":              {`{` + good + `,"uid":UID,"power":"On","power":"Off"}`, `duplicate field "power"`},
		"two answers":             {`{` + good + `,"uid":UID,"power":"Off"}{}`, "not one JSON value"},
		"another machine":         {`{"apiVersion":"podgrace.dev/v1alpha1","kind":"FenceAnswer","uid":UID,"power":"Off","systemUUID":"` + agentstest.OtherUUID + `"}`, "another machine"},
		"no machine":              {`{"apiVersion":"podgrace.dev/v1alpha1","kind":"FenceAnswer","uid":UID,"power":"Off"}`, "tells no UUID"},
		"a secret":                {agentstest.Password, "not one JSON value"},
		"a secret as a field":     {`{"s3cr%t/&\"it's\" +1\\x":1}`, "[secret]"},
		"a field of 900 KiB":      {`{"` + strings.Repeat("a", 900<<10) + `":1}`, "unknown field"},
		"nested beyond all bound": {strings.Repeat("[", 1<<19), "not one JSON value"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			url, ca := agentstest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var request agents.FenceRequest
				if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
					t.Error(err)
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, strings.ReplaceAll(test.body, `"uid":UID`, fmt.Sprintf(`"uid":%q`, request.UID)))
			}))
			agent := newAgent(t, webhookSpec(url, v1alpha1.IdentityVerified), map[string][]byte{"token": []byte(agentstest.Password), "ca.crt": ca})
			read, err := agent.Power(t.Context(), v1alpha1.FenceMachine{SystemUUID: agentstest.UUID})
			if err == nil || !strings.Contains(err.Error(), test.words) || read.Power != fencing.PowerUnknown {
				t.Errorf("%+v, %v; want an error with %q", read, err, test.words)
			}
			agentstest.NoSecrets(t, err)
		})
	}
}

func TestWebhookStatuses(t *testing.T) {
	for _, status := range []int{201, 202, 203, 204, 206, 300, 301, 304, 400, 401, 404, 409, 429, 500, 503} {
		service, agent := serviceBench(t, v1alpha1.IdentityConfigured)
		inner := &agentstest.Service{Token: service.Token, Machine: service.Machine}
		service.Before = func(w http.ResponseWriter, r *http.Request) bool {
			inner.ServeHTTP(withStatus{w, status}, r) // the very answer that would count
			return true
		}
		service.Machine.SetState("Off")
		if read, err := agent.Power(t.Context(), v1alpha1.FenceMachine{ProviderID: "x://1"}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(status)) || read.Power != fencing.PowerUnknown {
			t.Errorf("%d: %+v, %v", status, read, err)
		}
	}
}

// withStatus answers with another status.
type withStatus struct {
	http.ResponseWriter
	status int
}

func (w withStatus) Write(p []byte) (int, error) {
	w.WriteHeader(w.status)
	return w.ResponseWriter.Write(p)
}

func TestWebhookConfiguration(t *testing.T) {
	for _, url := range []string{"http://example.com", "https://u:hunter2@example.com", "https://example.com/?a=b", "ftp://x", ""} {
		agent := &v1alpha1.FenceAgent{Spec: webhookSpec(url, v1alpha1.IdentityVerified)}
		if _, err := agents.New(agent, agents.Options{}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
	service, agent := serviceBench(t, v1alpha1.IdentityVerified)
	if _, err := agent.Power(t.Context(), v1alpha1.FenceMachine{ProviderID: "x://1"}); err == nil || len(service.Requests()) != 0 {
		t.Errorf("a machine without UUID is verified: %v, %+v", err, service.Requests())
	}
}
