package webhook

import (
	"strings"
	"testing"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
)

// TestRuns measures nothing: both comparisons run to their end, and no answer is wrong on the way, so that they can be had when somebody needs the figures.
func TestRuns(t *testing.T) {
	_, unmet := cluster.Binaries(t.Context(), t.Output(), cluster.Options{}.Programs()...)
	clustertest.Require(t, unmet)
	tiny := comparison{small: size{nodes: 3, namespaces: 2, pods: 6}, large: size{nodes: 6, namespaces: 4, pods: 24}}
	for name, test := range map[string]struct {
		sizes bool
		rows  []string
	}{
		"beside a bare webhook":     {false, []string{"requests per second", "CPU per 1,000 requests, ms", "RSS, MiB"}},
		"in two clusters of a size": {true, []string{"constraints: soft", "constraints: hard", "One more replica"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := run(t.Context(), options{rounds: 2, duration: 100 * time.Millisecond, concurrency: 2, sizes: test.sizes}, tiny, &out, t.Output()); err != nil {
				t.Fatal(err)
			}
			for _, row := range test.rows {
				if !strings.Contains(out.String(), row) {
					t.Errorf("no %q in:\n%s", row, out.String())
				}
			}
		})
	}
}
