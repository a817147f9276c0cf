package agents

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	kjson "sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
)

// FenceRequest is what a fence webhook is asked: a POST of it as JSON to FenceAgent.spec.webhook.url, with the token of the Secret as bearer token.
//
// The contract: the service answers 200 with a FenceAnswer, within the time that the policy gives the agent. Any other status, a redirect, another content type than
// application/json, an unknown or repeated field, more than 1 MiB and anything after the JSON are no answer, and the machine's power is unknown. Both actions may be
// repeated at any time. Off begins to power the machine off, hard and without a restart, and may answer before it is; the fencer asks for the power until it is off.
// It never asks to power a machine on. Where the agent's identity is Verified, Power is asked before Off, and Off is sent only if it told the machine's UUID.
type FenceRequest struct {
	// APIVersion is podgrace.dev/v1alpha1, Kind FenceRequest.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// UID is another one in each request. The answer repeats it: so an answer from a cache, or one that fits any question, is none.
	UID string `json:"uid"`
	// Action is Off or Power.
	Action FenceAction `json:"action"`
	// Machine as the agent's list has it, or as its Node tells if the agent has no list.
	Machine v1alpha1.FenceMachine `json:"machine"`
}

// FenceAction is what a fence webhook is to do.
type FenceAction string

// What a fence webhook is asked to do.
const (
	ActionOff   FenceAction = "Off"
	ActionPower FenceAction = "Power"
)

// FenceAnswer is what a fence webhook answers to both actions.
type FenceAnswer struct {
	// APIVersion is podgrace.dev/v1alpha1, Kind FenceAnswer.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// UID of the request.
	UID string `json:"uid"`
	// Power is On, Off, Gone (terminated for good, so that it can't be powered on again) or Unknown; on the way to being off it is not Off.
	Power string `json:"power"`
	// State is the service's own word for it, for people.
	State string `json:"state,omitempty"`
	// SystemUUID that the machine has, as whoever powers it off knows it, and not as the request said. It may be absent where the agent's identity is Configured.
	SystemUUID string `json:"systemUUID,omitempty"`
}

// The kinds of the webhook's contract.
const (
	KindFenceRequest = "FenceRequest"
	KindFenceAnswer  = "FenceAnswer"
)

var powers = map[string]fencing.Power{"On": fencing.PowerOn, "Off": fencing.PowerOff, "Gone": fencing.PowerGone, "Unknown": fencing.PowerUnknown}

// webhook asks a service of the user's.
type webhook struct {
	spec        v1alpha1.WebhookAgent
	url         *url.URL
	identity    v1alpha1.FenceIdentity
	credentials Credentials
}

func newWebhook(spec v1alpha1.WebhookAgent, identity v1alpha1.FenceIdentity, credentials Credentials) (fencing.Agent, error) {
	base, err := baseURL(spec.URL)
	if err != nil {
		return nil, err
	}
	return &webhook{spec: spec, url: base, identity: identity, credentials: credentials}, nil
}

// Off asks for the power first where the machine is to be verified: the service that powers off is the one that tells.
func (w *webhook) Off(ctx context.Context, m v1alpha1.FenceMachine) error {
	if w.identity != v1alpha1.IdentityConfigured {
		if _, err := w.ask(ctx, m, ActionPower); err != nil {
			return err
		}
	}
	_, err := w.ask(ctx, m, ActionOff)
	return err
}

// Power asks for the power.
func (w *webhook) Power(ctx context.Context, m v1alpha1.FenceMachine) (fencing.Reading, error) {
	return w.ask(ctx, m, ActionPower)
}

func (w *webhook) ask(ctx context.Context, m v1alpha1.FenceMachine, action FenceAction) (fencing.Reading, error) {
	var scrub scrubber
	read, err := func() (fencing.Reading, error) {
		if err := verifiable(w.identity, m); err != nil {
			return fencing.Reading{}, err
		}
		secret, err := w.credentials.read(ctx, w.spec.Secret)
		if err != nil {
			return fencing.Reading{}, err
		}
		scrub = secret.scrubber()
		request := FenceRequest{APIVersion: v1alpha1.GroupVersion.String(), Kind: KindFenceRequest, UID: rand.Text(), Action: action, Machine: m}
		body, err := w.post(ctx, secret, request)
		if err != nil {
			return fencing.Reading{}, err
		}
		answer, err := parseAnswer(body, request.UID)
		if err != nil {
			return fencing.Reading{}, err
		}
		if err := identify(w.identity, m, answer.SystemUUID); err != nil {
			return fencing.Reading{}, err
		}
		return reading(powers[answer.Power], answer.State, answer.SystemUUID), nil
	}()
	return read, scrub.wrap(err, "ask %s for %s of machine %s%s", w.url, action, m.SystemUUID, m.ProviderID)
}

// post sends a request. Only 200 is an answer.
func (w *webhook) post(ctx context.Context, secret secret, request FenceRequest) ([]byte, error) {
	token, err := secret.text("token")
	if err != nil {
		return nil, err
	}
	config, err := secret.tlsConfig(false)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url.String(), bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	client := newClient(w.url, config, func(path string) bool { return path == req.URL.Path })
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s: %s", resp.Status, short(string(body), maxError/2))
	}
	return body, isJSON(resp.Header, body)
}

// parseAnswer takes only what is an answer to the request, to the letter: field names too, which encoding/json takes in any case, the last one winning.
func parseAnswer(body []byte, uid string) (FenceAnswer, error) {
	var answer FenceAnswer
	unknown, err := kjson.UnmarshalStrict(body, &answer)
	if err = errors.Join(append(unknown, err)...); err != nil {
		return FenceAnswer{}, fmt.Errorf("its answer: %w", err)
	}
	if answer.APIVersion != v1alpha1.GroupVersion.String() || answer.Kind != KindFenceAnswer {
		return FenceAnswer{}, fmt.Errorf("its answer is a %q of %q, and no FenceAnswer of %s", answer.Kind, answer.APIVersion, v1alpha1.GroupVersion)
	}
	if answer.UID != uid {
		return FenceAnswer{}, fmt.Errorf("its answer is to the request with uid %q, and this one's is %q", answer.UID, uid)
	}
	if _, known := powers[answer.Power]; !known {
		return FenceAnswer{}, fmt.Errorf("its answer has power %q, and it must be On, Off, Gone or Unknown", answer.Power)
	}
	return answer, nil
}
