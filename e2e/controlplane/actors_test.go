package controlplane

import (
	"context"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/suite"
)

// actorsIn returns what the leader wrote into the match conditions of the removal guard: one expression, in every entry.
func actorsIn(ctx context.Context, s *suite.Suite) (string, error) {
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	if err := s.Client.Get(ctx, client.ObjectKey{Name: certs.ConfigurationName}, &configuration); err != nil {
		return "", err
	}
	found := map[string]bool{}
	for _, w := range configuration.Webhooks {
		if !strings.HasSuffix(w.Name, ".removal.podgrace.dev") || w.Name == "enforcer.removal.podgrace.dev" {
			continue
		}
		own := ""
		for _, c := range w.MatchConditions {
			if c.Name == "not-an-allowed-actor" {
				own = c.Expression
			}
		}
		found[own] = true
	}
	if len(found) != 1 {
		return "(differs between the entries)", nil
	}
	for expression := range found {
		return expression, nil
	}
	return "", nil
}

// An actor whom every policy names passes by match conditions: the API server does not even call, so that it passes while
// the webhook is away. When the policies are gone, so is the condition.
func TestAllowedActorsAreRendered(t *testing.T) {
	s := start(t)
	const actor = "system:serviceaccount:ops:repair"
	t.Run("rendered", func(t *testing.T) {
		pod := guarded(t, s)
		suite.Eventually(t, "the actor in the match conditions", func(ctx context.Context) (bool, error) {
			got, err := actorsIn(ctx, s)
			return got == `!(request.userInfo.username in ["`+actor+`"])`, err
		})
		repair := as(t, s, actor)
		suite.Eventually(t, "the condition in force", func(ctx context.Context) (bool, error) {
			before := calls(t, s)
			err := repair.Delete(ctx, pod, client.GracePeriodSeconds(0), client.DryRunAll)
			return calls(t, s) == before, err
		})
		judged := removals(t, s)
		if err := repair.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		if got := removals(t, s); got != judged {
			t.Errorf("the webhook judged it: %q, before %q", got, judged)
		}
	})
	suite.Eventually(t, "no actor in the match conditions", func(ctx context.Context) (bool, error) {
		got, err := actorsIn(ctx, s)
		return got == "", err
	})
}

// removals returns the webhook's own count of removals that it judged, without dry runs.
func removals(t *testing.T, s *suite.Suite) string {
	t.Helper()
	return counted(t, s, "podgrace_removals_total")
}

// calls returns its count of reviews of removals, dry runs too.
func calls(t *testing.T, s *suite.Suite) string {
	t.Helper()
	return counted(t, s, `controller_runtime_webhook_requests_total{code="200",webhook="/validate-removal"}`)
}

func counted(t *testing.T, s *suite.Suite, prefix string) string {
	t.Helper()
	text, err := s.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// A refusal is an Event of the pod, where whoever is on call next will look; a dry run leaves none.
func TestRefusalIsAnEvent(t *testing.T) {
	s := start(t)
	pod := guarded(t, s)
	events := func(ctx context.Context) (list eventsv1.EventList, err error) {
		kube, err := client.New(s.Config, client.Options{Scheme: eventScheme(t)})
		if err != nil {
			return list, err
		}
		return list, kube.List(ctx, &list, client.InNamespace(pod.Namespace))
	}
	wantRefused(t, s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0), client.DryRunAll))
	wantRefused(t, s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	suite.Eventually(t, "the Event", func(ctx context.Context) (bool, error) {
		list, err := events(ctx)
		n := 0
		for _, e := range list.Items {
			if e.Reason == "RemovalRefused" && e.Regarding.Name == pod.Name && strings.Contains(e.Note, "it is a pod of StatefulSet db") {
				n++
				if e.Series != nil {
					t.Errorf("the dry run was counted: %+v", e.Series)
				}
			}
		}
		return n == 1, err
	})
}
