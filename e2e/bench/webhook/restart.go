package webhook

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/measure"
	podgraceinstall "github.com/podgrace/podgrace/e2e/podgrace"
)

// restarted is what the start of one more replica costs.
type restarted struct {
	in    string
	ready time.Duration // until /readyz
	// apiServer is the processor time that the API server spent meanwhile, and until the replica had answered every review.
	apiServer time.Duration
	memory    measure.Memory
}

// readyWithin is the goal for a replica in the large cluster.
const readyWithin = 30 * time.Second

// restart starts one more replica, as an update of the Deployment does, with the policies and constraints that are in force.
func restart(ctx context.Context, c *cluster.Cluster, like *side, reviews []review) (r restarted, err error) {
	before, err := apiServerSpent(ctx, c)
	if err != nil {
		return r, err
	}
	begin := time.Now()
	w, err := podgraceinstall.Start(ctx, c, filepath.Join(c.Dir, "bin", "webhook"), podgraceinstall.Options{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	r.in, r.ready = like.name, time.Since(begin)
	another := &side{name: "another replica in " + like.name, url: w.URL, patched: true, client: like.client}
	if err := another.waitAnswers(ctx, reviews); err != nil {
		return r, err
	}
	after, err := apiServerSpent(ctx, c)
	if err != nil {
		return r, err
	}
	r.apiServer = after - before
	r.memory, err = measure.MemoryOf(w.PID)
	return r, err
}

// apiServerSpent is the processor time of the API server since its start.
func apiServerSpent(ctx context.Context, c *cluster.Cluster) (time.Duration, error) {
	kube, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return 0, fmt.Errorf("make a client: %w", err)
	}
	text, err := kube.Discovery().RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return 0, fmt.Errorf("read the API server's metrics: %w", err)
	}
	seconds, err := measure.Sum(string(text), "process_cpu_seconds_total")
	if err == nil && seconds == 0 {
		err = errors.New("the API server does not tell its processor time")
	}
	return time.Duration(seconds * float64(time.Second)), err
}

func reportRestarts(all []restarted) string {
	var text strings.Builder
	fmt.Fprint(&text, "\nOne more replica: from its start until it is ready, and what the API server spends until it has answered each review once.\n\n")
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\tready, s\tgoal\t\tAPI server's CPU, s\tRSS, MiB\t")
	for _, r := range all {
		bound := goal{atMost: readyWithin.Seconds(), unit: " s"}
		fmt.Fprintf(table, "%s\t%.1f\t%s\t%s\t%.1f\t%.1f\t\n", r.in, r.ready.Seconds(), bound, bound.verdict(r.ready.Seconds()), r.apiServer.Seconds(), r.memory.Resident/mib)
	}
	_ = table.Flush() // into memory
	return text.String()
}
