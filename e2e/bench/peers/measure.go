package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/reviews"
)

// round is what one side did in one turn.
type round struct {
	// done is how many pods, elapsed how long they took together, in seconds.
	done, elapsed float64
	// latency is the median of one, in milliseconds.
	latency float64
	// cpu is what the processes used that are counted, in seconds.
	cpu float64
	// told is what the API server says of the same pods.
	told told
}

// told is by the API server's own clock, in milliseconds a pod.
type told struct {
	// calls of webhooks: those of validating webhooks are made at once, and their times added all the same.
	calls float64
	// plugins are the four that ask webhooks and evaluate policies: what they took together, matching, conversions and patches included.
	plugins float64
	// policies are of it what ValidatingAdmissionPolicies took.
	policies float64
}

// creates are dry-run creates at one concurrency.
type creates struct {
	concurrency int
	// rounds by side, paired, without the first. Their CPU is the API server's and the side's own processes'.
	rounds map[string][]round
}

// outcome is what a run measured.
type outcome struct {
	sides   []*side
	creates []creates
	// replays are of the sides that have webhooks; their CPU is that of the side's own processes.
	replays map[string][]round
	// memory of the side's processes after that, in bytes.
	memory map[string]float64
}

// concurrencies of the creates.
var concurrencies = []int{1, 8}

// measure measures. All sides have to answer as before to the end.
func (l *laboratory) measure(ctx context.Context, o options) (outcome, error) {
	result := outcome{sides: l.sides, memory: map[string]float64{}}
	for _, concurrency := range concurrencies {
		c, err := l.measureCreates(ctx, o, concurrency)
		if err != nil {
			return result, err
		}
		result.creates = append(result.creates, c)
	}
	var asked []*side
	for _, s := range l.sides {
		if len(s.hooks) > 0 {
			asked = append(asked, s)
		}
	}
	var err error
	if result.replays, err = l.takeTurns(ctx, o, "replay", asked, func(ctx context.Context, s *side) (round, error) {
		return turn(ctx, o.duration, replayers, s.pids, s.replay)
	}); err != nil {
		return result, err
	}
	for _, s := range asked {
		for _, pid := range s.pids {
			m, err := measure.MemoryOf(pid)
			if err != nil {
				return result, err
			}
			result.memory[s.name] += m.Resident
		}
	}
	return result, l.same(ctx)
}

// replayers are how many replay at once.
const replayers = 8

func (l *laboratory) measureCreates(ctx context.Context, o options, concurrency int) (creates, error) {
	c := creates{concurrency: concurrency}
	server, err := l.APIServerPID()
	if err != nil {
		return c, err
	}
	before, err := l.told(ctx)
	if err != nil {
		return c, err
	}
	c.rounds, err = l.takeTurns(ctx, o, fmt.Sprintf("creates, %d at once", concurrency), l.sides, func(ctx context.Context, s *side) (round, error) {
		r, err := turn(ctx, o.duration, concurrency, append([]int{server}, s.pids...), func(ctx context.Context, _ int) error { return l.create(ctx, s) })
		if err != nil {
			return r, err
		}
		after, err := l.told(ctx)
		if err != nil {
			return r, err
		}
		// Sums of the same series in another order differ in their last digits.
		r.told = told{calls: max(0, after.calls-before.calls) / r.done, plugins: (after.plugins - before.plugins) / r.done, policies: (after.policies - before.policies) / r.done}
		before = after
		return r, nil
	})
	return c, err
}

// takeTurns lets the sides take turns. Who is first changes from round to round, so that a slow drift of the machine favours none.
func (l *laboratory) takeTurns(ctx context.Context, o options, what string, sides []*side, turn func(context.Context, *side) (round, error)) (map[string][]round, error) {
	rounds := map[string][]round{}
	for i := range o.rounds {
		first := i % len(sides)
		for _, s := range slices.Concat(sides[first:], sides[:first]) {
			r, err := turn(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", what, i+1, err)
			}
			if i > 0 {
				rounds[s.name] = append(rounds[s.name], r)
			}
		}
		if i > 0 {
			var line strings.Builder
			for _, s := range sides {
				fmt.Fprintf(&line, " %s %.2f", s.name, rounds[s.name][i-1].latency)
			}
			fmt.Fprintf(l.progress, "%s: round %d of %d, median ms:%s\n", what, i+1, o.rounds, &line)
		}
	}
	return rounds, nil
}

// turn has so many workers do something for a while, and reads what processes used meanwhile.
func turn(ctx context.Context, duration time.Duration, workers int, pids []int, do func(ctx context.Context, i int) error) (round, error) {
	before, err := used(pids)
	if err != nil {
		return round{}, err
	}
	latencies := make([][]time.Duration, workers)
	errs := make([]error, workers)
	begin := time.Now()
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; ; i++ {
				began := time.Now()
				if errs[w] = do(ctx, i); errs[w] != nil {
					return
				}
				now := time.Now()
				latencies[w] = append(latencies[w], now.Sub(began))
				if now.Sub(begin) > duration {
					return
				}
			}
		})
	}
	all.Wait()
	r := round{elapsed: time.Since(begin).Seconds()}
	if err := errors.Join(errs...); err != nil {
		return r, err
	}
	after, err := used(pids)
	if err != nil {
		return r, err
	}
	together := slices.Concat(latencies...)
	slices.Sort(together)
	r.done, r.cpu = float64(len(together)), (after - before).Seconds()
	r.latency = float64(measure.Percentile(together, 50)) / float64(time.Millisecond)
	return r, nil
}

// used is the CPU time of some processes.
func used(pids []int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		cpu, err := measure.CPU(pid)
		if err != nil {
			return 0, err
		}
		sum += cpu
	}
	return sum, nil
}

// replay asks a side's webhooks, one after the other, what the API server asked them about a recorded pod.
func (s *side) replay(ctx context.Context, i int) error {
	var answer bytes.Buffer
	for _, h := range s.hooks {
		if err := reviews.Ask(ctx, h.client, h.url, h.asked[i%len(h.asked)], &answer); err != nil {
			return fmt.Errorf("side %s: %w", s.name, err)
		}
		if err := h.glance(answer.Bytes()); err != nil {
			return fmt.Errorf("side %s: %w", s.name, err)
		}
	}
	return nil
}

var (
	allowed = []byte(`"allowed":true`)
	patched = []byte(`"patch":"`)
)

// glance reports whether an answer is one for a pod that the policy defaults. It costs next to nothing.
func (h *hook) glance(answer []byte) error {
	if !bytes.Contains(answer, allowed) || bytes.Contains(answer, patched) != h.mutating {
		return fmt.Errorf("webhook %s answered what it did not answer the API server: %s", h.name, answer)
	}
	return nil
}

// What the API server measures of admission: each call of a webhook, and each plugin with all that it does.
const (
	callMetric   = "apiserver_admission_webhook_admission_duration_seconds_sum"
	pluginMetric = "apiserver_admission_controller_admission_duration_seconds_sum"
)

// plugins are those by which anybody has a policy of his own. They alone differ from side to side.
var plugins = []string{"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", validatingPolicies, "ValidatingAdmissionWebhook"}

const validatingPolicies = "ValidatingAdmissionPolicy"

// told reads what the API server has measured since its start.
func (l *laboratory) told(ctx context.Context) (told, error) {
	text, err := l.clients.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return told{}, fmt.Errorf("read the API server's metrics: %w", err)
	}
	return readTold(text)
}

// readTold adds up creations. Whole families are cut out first: there are megabytes of others.
func readTold(metrics []byte) (told, error) {
	var lines strings.Builder
	for line := range bytes.Lines(metrics) {
		if bytes.HasPrefix(line, []byte(callMetric)) || bytes.HasPrefix(line, []byte(pluginMetric)) {
			lines.Write(line)
		}
	}
	var t told
	calls, err := measure.Series(lines.String(), callMetric)
	if err != nil {
		return t, err
	}
	for series, seconds := range calls {
		if strings.Contains(series, `operation="CREATE"`) {
			t.calls += seconds * 1000
		}
	}
	for _, p := range plugins {
		seconds, err := measure.Sum(lines.String(), pluginMetric+`{name="`+p+`",operation="CREATE"`)
		if err != nil {
			return t, err
		}
		t.plugins += seconds * 1000
		if p == validatingPolicies {
			t.policies = seconds * 1000
		}
	}
	return t, nil
}
