package peers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/program"
)

// Main measures, by the flags of the command line.
func Main() {
	var o options
	program.Main("bench peers", o.AddFlags, func(ctx context.Context) error {
		if err := o.Validate(); err != nil {
			return err
		}
		return run(ctx, o, os.Stdout, os.Stderr)
	})
}

type options struct {
	rounds   int
	duration time.Duration
	peers    bool
}

// AddFlags declares the flags with their defaults.
func (o *options) AddFlags(f *flag.FlagSet) {
	f.IntVar(&o.rounds, "rounds", 13, "rounds of each measurement; the first is not counted")
	f.DurationVar(&o.duration, "duration", 400*time.Millisecond, "how long one side has in one round")
	f.BoolVar(&o.peers, "peers", true, "measure Kyverno and Gatekeeper as well, each of which is built once")
}

// Validate says all that is wrong with the options.
func (o *options) Validate() error {
	errs := []error{program.Positive("duration", o.duration)}
	if o.rounds < 2 {
		errs = append(errs, fmt.Errorf("-rounds: %d: the first is not counted, so that it takes 2 at least", o.rounds))
	}
	return errors.Join(errs...)
}

// asToServices has the API server speak HTTP/1.1 to webhooks on loopback too, as it speaks to those behind a Service and at any other URL
// (k8s.io/apiserver/pkg/util/webhook/client.go hookClientConfig; the variable is that of k8s.io/apimachinery/pkg/util/net/http.go SetTransportDefaults, 0.36.3). HTTP/2
// takes both ends longer for one small request.
const asToServices = "DISABLE_HTTP2=true"

// run compares and prints. A goal that is not met is no error; a run that proves nothing is.
func run(ctx context.Context, o options, out, progress io.Writer) (err error) {
	starts, err := builders(ctx, o, progress)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Log: progress, APIServerEnvironment: []string{asToServices}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	l, err := newLaboratory(ctx, c, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	for _, start := range starts {
		if err := start(ctx, l); err != nil {
			return err
		}
	}
	if err := l.ready(ctx); err != nil {
		return err
	}
	result, err := l.measure(ctx, o)
	if err != nil {
		return fmt.Errorf("this run is void: %w", err)
	}
	version, err := l.serverVersion()
	if err != nil {
		return err
	}
	fmt.Fprint(out, report(o, version, result))
	return nil
}

// builders are how the sides come into the laboratory, in their order. What must be built before is built here: a cluster that waits for it would only
// take processors from it.
func builders(ctx context.Context, o options, progress io.Writer) ([]func(context.Context, *laboratory) error, error) {
	starts := []func(context.Context, *laboratory) error{startNothing, startInProcess, startBare, startPodgrace}
	if !o.peers {
		return starts, nil
	}
	for _, p := range []struct {
		cluster.Peer
		start func(context.Context, *laboratory, cluster.Built) error
	}{{kyverno, startKyverno}, {gatekeeper, startGatekeeper}} {
		built, err := p.Build(ctx, progress)
		if err != nil {
			return nil, err
		}
		starts = append(starts, func(ctx context.Context, l *laboratory) error { return p.start(ctx, l, built) })
	}
	return starts, nil
}
