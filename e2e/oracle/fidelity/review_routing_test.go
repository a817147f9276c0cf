package fidelity

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	apiwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

func documents(t *testing.T, text []byte) (all [][]byte) {
	t.Helper()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, document)
	}
}

// called says which paths the API server calls, and which webhooks it refuses the request for.
func (r *router) called(t *rapid.T, c *routeCase, hooks []apiwebhook.WebhookAccessor) (paths, refused []string) {
	r.right, r.idle = c.Right, c.Idle
	attributes := attributesOf(c)
	for _, h := range hooks {
		invocation, err := r.webhook.ShouldCallHook(context.Background(), h, attributes, r.interfaces, versions{attributes, r.interfaces})
		if err != nil {
			refused = append(refused, h.GetName())
		}
		if invocation == nil {
			continue
		}
		if path := *h.GetClientConfig().Service.Path; !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths, refused
}

// TestFidelityReviewCalls: the review calls the paths that the API server's own dispatcher of webhooks would, and refuses what
// that refuses without a call.
func TestFidelityReviewCalls(t *testing.T) {
	t.Parallel()
	server := newRouter(t)
	type policies struct{ actors, idle bool }
	reviews := map[policies]*apiserver.Webhooks{}
	for _, p := range []policies{{}, {actors: true}, {idle: true}, {actors: true, idle: true}} {
		var actors []string
		if p.actors {
			actors = []string{userRepair.Username}
		}
		w, err := apiserver.NewWebhooks(inForce(p.idle, actors...), policy.ExemptIn("podgrace-system"))
		if err != nil {
			t.Fatal(err)
		}
		reviews[p] = w
	}
	wanted := draw.Shares{"/validate-removal": 10, "/mutate-evictions": 2, "/validate-workloads": 2, "no call": 25}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := routeCases.Draw(t, "case")
		w := reviews[policies{c.Actors != nil, c.Idle}]
		for _, phase := range []struct {
			hooks []apiwebhook.WebhookAccessor
			calls func(context.Context, apiserver.Request) (apiserver.Calls, error)
		}{{server.mutating, w.Mutating}, {server.validating[c.Actors != nil], w.Validating}} {
			paths, refused := server.called(t, c, phase.hooks)
			got, err := phase.calls(context.Background(), c.reviewed(t))
			if err != nil {
				t.Fatalf("the review fails: %v", err)
			}
			var denied []string
			for _, d := range got.Denials {
				denied = append(denied, d.Policy)
			}
			if !slices.Equal(paths, got.Paths) || !slices.Equal(refused, denied) {
				t.Fatalf("the API server calls %v and refuses for %v; the review calls %v and refuses for %v", paths, refused, got.Paths, denied)
			}
			for _, p := range paths {
				counts.Add(p)
			}
			if len(paths) == 0 {
				counts.Add("no call")
			}
		}
	})
}

// TestFidelityReviewPolicies: the review refuses by an admission policy what the API server's own plugin refuses, with the same
// words.
func TestFidelityReviewPolicies(t *testing.T) {
	t.Parallel()
	server := newRouter(t)
	reviews := map[bool]*apiserver.Policies{} // by whether the guard is idle
	for _, idle := range []bool{false, true} {
		policies, err := apiserver.NewPolicies(inForce(idle), policy.ExemptIn("podgrace-system"))
		if err != nil {
			t.Fatal(err)
		}
		reviews[idle] = policies
	}
	wanted := draw.Shares{"enforcement.podgrace.dev": 0.5, "zero-grace.podgrace.dev": 0.5, "confirm-force-delete.podgrace.dev": 0.5, "confirm-off.podgrace.dev": 0.5, "half-done-status.podgrace.dev": 0.1, "half-done-delete.podgrace.dev": 0.1, "allowed": 30}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := routeCases.Draw(t, "case")
		refusal := server.judge(t, c)
		denials, _, err := reviews[c.Idle].Validate(context.Background(), c.reviewed(t))
		if err != nil {
			t.Fatalf("the review fails: %v", err)
		}
		if (refusal == nil) != (len(denials) == 0) {
			t.Fatalf("the API server says %v, the review %+v", refusal, denials)
		}
		if refusal == nil {
			counts.Add("allowed")
			return
		}
		if !slices.ContainsFunc(denials, func(d apiserver.Denial) bool {
			counts.Add(d.Policy)
			return strings.Contains(refusal.Error(), "'"+d.Policy+"' with binding") && strings.HasSuffix(refusal.Error(), "denied request: "+d.Message)
		}) {
			t.Fatalf("the API server says %v, the review %+v", refusal, denials)
		}
	})
}

func (r *router) judge(t *rapid.T, c *routeCase) error {
	r.right, r.idle = c.Right, c.Idle
	var policies []any
	for _, p := range c.Policies {
		policies = append(policies, runtime.Object(p))
	}
	if err := r.podPolicy.Replace(policies, ""); err != nil {
		t.Fatalf("filling the parameters: %v", err)
	}
	return r.dispatcher.Dispatch(context.Background(), attributesOf(c), r.interfaces, r.policies)
}
