package partition

import (
	"strings"
	"testing"
	"time"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

func TestReport(t *testing.T) {
	alone := &side{name: "Kubernetes alone", notReady: 47 * time.Second, terminating: 348 * time.Second, watched: 600 * time.Second}
	person := &side{name: "a person", notReady: 45 * time.Second, order: 45 * time.Second, evidence: 46 * time.Second, gone: 60 * time.Second, runs: 62 * time.Second}
	var out strings.Builder
	if err := report(&out, alone, person, person); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{"Kubernetes alone 47.0 348.0 - - - never: not in 600 -", "a person 45.0 - 45.0 46.0 60.0 62.0 17.0"} {
		if got := strings.Join(strings.Fields(lines[3+i]), " "); got != want {
			t.Errorf("got %q, want %q, in\n%s", got, want, out.String())
		}
	}
}

// The words below the table are about what the example says.
func TestExamplePolicy(t *testing.T) {
	p, err := examplePolicy()
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Spec; s.SilentFor.Duration != 90*time.Second || s.JustifiedBy.Patience.Duration != 2*time.Minute || s.Agents[0].Name != "rack-1" || s.Release != v1alpha1.ReleasePodsAndTaint {
		t.Errorf("the example: %+v", s)
	}
}

func TestValidate(t *testing.T) {
	if err := (&options{alone: time.Minute}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (&options{}).Validate(); err == nil || !strings.Contains(err.Error(), "-alone") {
		t.Errorf("got %v", err)
	}
}
