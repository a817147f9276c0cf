package scheduler

import (
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/preview/scheduler/schedulertest"
)

func TestRelease(t *testing.T) {
	for text, want := range map[string]string{
		"1.36": "", "v1.36.3": "", "1.36+": "", "v1.34.2-gke.100": "gates are those of Kubernetes 1.34", "1.33": "1.33", "1.40": "newer",
		"1.32": "too old", "2.0": "no version of Kubernetes", "latest": "no version of Kubernetes", "": "no version of Kubernetes",
	} {
		r, err := ReleaseOf(text)
		said := r.Remark()
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, want) || want == "" && said != "" {
			t.Errorf("%q: %q, want %q", text, said, want)
		}
	}
}

// Opportunistic batching came on with 1.35 (pkg/features/kube_features.go, 1.36.3).
func TestEmulate(t *testing.T) {
	t.Cleanup(func() {
		if err := Current.Emulate(); err != nil {
			t.Error(err)
		}
	})
	for text, want := range map[string]bool{"1.34": false, "1.36": true, "1.39": true} {
		r, err := ReleaseOf(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Emulate(); err != nil {
			t.Fatal(err)
		}
		if got := utilfeature.DefaultFeatureGate.Enabled(features.OpportunisticBatching); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
		if v := judge(t, contradiction(), schedulertest.SpreadPod("web-new")); v.Outcome != scheduling.Nowhere {
			t.Errorf("%s: %s", text, v.Outcome)
		}
	}
}
