package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/measure"
)

// tick is how often all is scraped. The rules are told that a minute has passed: so `for: 15m` is 15 s and a range of 10m is 10 s, and the rules are those that users have, to the letter.
const tick = time.Second

// scrapeTimeout is how long a target may take to answer; a tick is longer then.
const scrapeTimeout = 2 * time.Second

// lifeScale is how much longer a certificate lives for the rules than here, and timeScale how much longer all else takes.
var (
	lifeScale = certs.DefaultTiming().Leaf.Seconds() / leafLife.Seconds()
	timeScale = time.Minute.Seconds() / tick.Seconds()
)

// words are the names in an expression. scraped is how those of metrics begin that are scraped; one with a colon is what other rules record.
var (
	words   = regexp.MustCompile(`[a-z_:0-9]+`)
	scraped = []string{"podgrace_", "apiserver_", "controller_runtime_", "leader_election_"}
)

// rulesFile is what users give to Prometheus, in the repository.
const rulesFile = "deploy/monitoring/rules.yaml"

// rule is one of the file's, as far as we look at it.
type rule struct {
	Alert string `json:"alert"`
	Expr  string `json:"expr"`
}

func readRules(text []byte) (all []rule, err error) {
	var file struct {
		Groups []struct {
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all, nil
}

// named are the metrics that rules name.
func named(rules []rule) (names map[string]bool) {
	names = map[string]bool{}
	for _, r := range rules {
		for _, word := range words.FindAllString(r.Expr, -1) {
			if !strings.Contains(word, ":") && slices.ContainsFunc(scraped, func(begin string) bool { return strings.HasPrefix(word, begin) }) {
				names[word] = true
			}
		}
	}
	return names
}

// recording is what was scraped: of each series a value a tick, in the notation of promtool's tests.
type recording struct {
	names map[string]bool

	mu      sync.Mutex
	ticks   int
	series  map[string][]string
	leading map[string]int // how many replicas of each job said at the last tick that they lead
	busy    []span         // ticks in which something was hit
	fires   []firing
	wakes   chan struct{} // closed at the next tick
}

// span is from one tick to another one; until the end of the recording, if it has no end.
type span struct{ from, to int }

// firing is what must be at a tick.
type firing struct {
	alert, drill string
	at           int
}

func newRecording(rules []rule) *recording {
	return &recording{names: named(rules), series: map[string][]string{}, wakes: make(chan struct{})}
}

// The tokens of promtool's notation for what is not there: Prometheus ends a series at once whose target does not answer.
const (
	missing = "_"
	stale   = "stale"
)

// target is one place that is scraped: its labels, and what it told; empty: nothing. The API server has no instance: whether it is up is its own cluster's affair.
type target struct{ job, instance, metrics string }

// labels are those that a scrape gives to all series.
func (t target) labels() string {
	if t.instance == "" {
		return fmt.Sprintf("job=%q", t.job)
	}
	return fmt.Sprintf("job=%q,instance=%q", t.job, t.instance)
}

// add has a tick's targets.
func (r *recording) add(now time.Time, targets []target) error {
	told, leading := map[string]string{}, map[string]int{}
	for _, t := range targets {
		if t.instance != "" {
			told["up{"+t.labels()+"}"] = map[bool]string{false: "0", true: "1"}[t.metrics != ""]
			is, err := leads(t.metrics)
			if err != nil {
				return err
			}
			leading[t.job] += map[bool]int{true: 1}[is]
		}
		for name, kept := range keep(t.metrics, r.names) {
			series, err := measure.Series(kept, name)
			if err != nil {
				return err
			}
			for s, v := range series {
				told[labelled(s, t.labels())] = strconv.FormatFloat(r.scaled(name, v, now), 'f', -1, 64)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leading = leading
	for s, v := range told {
		for len(r.series[s]) < r.ticks {
			r.series[s] = append(r.series[s], missing)
		}
		r.series[s] = append(r.series[s], v)
	}
	for s, values := range r.series {
		if len(values) > r.ticks {
			continue
		}
		token := missing
		if last := values[len(values)-1]; last != missing && last != stale {
			token = stale
		}
		r.series[s] = append(values, token)
	}
	r.ticks++
	close(r.wakes)
	r.wakes = make(chan struct{})
	return nil
}

// certificateEnds is the metric of when a certificate ends, which lives as long for the rules as it does by default.
const certificateEnds = "podgrace_webhook_certificate_expiration_timestamp_seconds"

// scaled is a value on the rules' clock, which began at 0 with the recording. A time that is 0 is none.
func (r *recording) scaled(name string, v float64, now time.Time) float64 {
	if !strings.HasSuffix(name, "_timestamp_seconds") || v == 0 {
		return v
	}
	scale := timeScale
	if name == certificateEnds {
		scale = lifeScale
	}
	left := v - float64(now.UnixMilli())/1000
	return math.Round(float64(r.now())*time.Minute.Seconds() + left*scale)
}

// now is the tick that is next.
func (r *recording) now() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ticks
}

// leaders are how many replicas of each job said at the last tick that they lead.
func (r *recording) leaders() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.leading)
}

// wait returns at a tick.
func (r *recording) wait(ctx context.Context, until int) {
	for ctx.Err() == nil {
		r.mu.Lock()
		now, next := r.ticks, r.wakes
		r.mu.Unlock()
		if now >= until {
			return
		}
		select {
		case <-ctx.Done():
		case <-next:
		}
	}
}

// keep are the lines of some metrics, by their names. Of the API server's they are few.
func keep(metrics string, names map[string]bool) map[string]string {
	kept := map[string]string{}
	for line := range strings.Lines(metrics) {
		end := strings.IndexAny(line, "{ ")
		if end > 0 && names[line[:end]] && (!strings.HasPrefix(line, "apiserver_") || strings.Contains(line, "podgrace.dev")) {
			kept[line[:end]] += line
		}
	}
	return kept
}

// labelled is a series with more labels.
func labelled(series, labels string) string {
	if name, own, has := strings.Cut(series, "{"); has {
		return name + "{" + labels + "," + own
	}
	return series + "{" + labels + "}"
}

// disturbed is told when something begins to be hit, and returns what is told when all is well again.
func (r *recording) disturbed() (well func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.busy)
	r.busy = append(r.busy, span{from: r.ticks, to: math.MaxInt})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.busy[i].to = r.ticks
	}
}

// expect notes which alerts must be firing after a drill that begins now.
func (r *recording) expect(d plan.Drill) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for alert, after := range d.Fires {
		r.fires = append(r.fires, firing{alert: alert, drill: d.Name, at: r.ticks + after})
	}
}

// never are the alerts that tell of what must not be, whatever is hit.
const never = "PodgraceFenceReceiptVoid|PodgraceVolumeHeldTwice"

// memory is for how many ticks after all was well a rule may still tell of what was: the longest range that is not an objective's is a quarter of an hour, and a rule is evaluated a tick later.
const memory = 17

// excepted are the alerts that may fire in a calm: those whose rules look back for hours, which say then what a storm was, and what is so in the laboratory all the while, whose API server calls the
// webhook at an address and not through its Service (podgrace.Options, CalledAt).
const excepted = "PodgraceErrorBudgetBurns.*|PodgraceNotRegistered"

// calms are the spans in which no alert may fire: nothing is hit, nor was for as long as rules remember.
func calms(busy []span, ticks int) (calm []span) {
	from := 0
	for _, b := range slices.Concat(busy, []span{{from: ticks, to: ticks}}) {
		if from < b.from {
			calm = append(calm, span{from: from, to: b.from - 1})
		}
		from = b.to
		if from != math.MaxInt {
			from += memory
		}
	}
	return calm
}

// ruleTest is a file of promtool's, as far as we write it. e2e/monitoring has types of its own for what it reads of such files: it is a module that needs neither this one nor the product, so that they
// would have one another's dependencies (Prometheus and its operator, or Kubernetes' client) for the sake of four structs. Prometheus itself exports none: its own are in promtool's package main.
type ruleTest struct {
	RuleFiles []string   `json:"rule_files"`
	Interval  string     `json:"evaluation_interval"`
	Tests     []ruleCase `json:"tests"`
}

type ruleCase struct {
	Interval string          `json:"interval"`
	Series   []ruleSeries    `json:"input_series"`
	Expect   []ruleCondition `json:"promql_expr_test"`
}

type ruleSeries struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

type ruleCondition struct {
	Expr    string       `json:"expr"`
	At      string       `json:"eval_time"`
	Samples []ruleSample `json:"exp_samples"`
}

type ruleSample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

// test is what Prometheus is to find in the recording.
func (r *recording) test(rules string) ruleTest {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := ruleCase{Interval: "1m"}
	for _, s := range slices.Sorted(maps.Keys(r.series)) {
		c.Series = append(c.Series, ruleSeries{Series: s, Values: notation(r.series[s])})
	}
	for _, f := range r.fires {
		c.Expect = append(c.Expect, ruleCondition{
			Expr: fmt.Sprintf(`count(ALERTS{alertname=%q, alertstate="firing"}) > bool 0`, f.alert), At: minutes(f.at), Samples: []ruleSample{{Labels: "{}", Value: 1}}})
	}
	silent := func(in span, which string) {
		c.Expect = append(c.Expect, ruleCondition{
			Expr: fmt.Sprintf(`sum by (alertname) (count_over_time(ALERTS{alertstate="firing", alertname%s}[%s]))`, which, minutes(in.to-in.from+1)), At: minutes(in.to)})
	}
	for _, calm := range calms(r.busy, r.ticks) {
		silent(calm, fmt.Sprintf("!~%q", excepted))
	}
	silent(span{from: 0, to: r.ticks - 1}, fmt.Sprintf("=~%q", never))
	return ruleTest{RuleFiles: []string{rules}, Interval: "1m", Tests: []ruleCase{c}}
}

func minutes(ticks int) string { return strconv.Itoa(ticks) + "m" }

// notation writes values as promtool reads them, what is repeated only once: `1x2` is three times 1, `_x2` twice nothing.
func notation(values []string) string {
	var tokens []string
	for i := 0; i < len(values); {
		n := 1
		for i+n < len(values) && values[i+n] == values[i] {
			n++
		}
		switch v := values[i]; {
		case n == 1:
			tokens = append(tokens, v)
		case v == missing:
			tokens = append(tokens, fmt.Sprintf("_x%d", n))
		default:
			tokens = append(tokens, fmt.Sprintf("%sx%d", v, n-1))
		}
		i += n
	}
	return strings.Join(tokens, " ")
}

// record begins to scrape, until the context ends.
func (l *lab) record(_, working context.Context) error {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, rulesFile))
	if err != nil {
		return fmt.Errorf("read the rules: %w", err)
	}
	if l.rules, err = readRules(text); err != nil {
		return err
	}
	l.recorded = newRecording(l.rules)
	kube, err := kubernetes.NewForConfig(l.Config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	l.working.Go(func() {
		ticker, led := time.NewTicker(tick), map[string]*leaders{}
		defer ticker.Stop()
		for working.Err() == nil {
			if err := l.recorded.add(time.Now(), l.scrape(working, kube)); err != nil {
				l.violated("metrics can't be read: %v", err)
			}
			for job, leading := range l.recorded.leaders() {
				if led[job] == nil {
					led[job] = &leaders{}
				}
				if atMost := l.together(job); led[job].more(leading, atMost) {
					l.violated("%d replicas of %s say that they lead, for more than %d s", leading, job, atMost)
				}
			}
			select {
			case <-working.Done():
			case <-ticker.C:
			}
		}
	})
	return nil
}

// scrape asks all replicas, and the API server, at once.
func (l *lab) scrape(ctx context.Context, kube kubernetes.Interface) []target {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	of := func(url string) func() (string, error) {
		return func() (string, error) { return measure.Metrics(ctx, url+"/metrics") }
	}
	var targets []target
	var ask []func() (string, error)
	for _, r := range l.replicas.all {
		targets, ask = append(targets, target{job: "podgrace-webhook", instance: fmt.Sprintf("replica-%d", r.index)}), append(ask, of(r.process().MetricsURL))
	}
	for _, w := range l.watchers {
		targets, ask = append(targets, target{job: "podgrace-" + w.program, instance: w.name}), append(ask, of(w.process().MetricsURL))
	}
	targets, ask = append(targets, target{job: "apiserver"}), append(ask, func() (string, error) {
		text, err := kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		return string(text), err
	})
	var asked sync.WaitGroup
	for i := range targets {
		asked.Go(func() {
			if text, err := ask[i](); err == nil {
				targets[i].metrics = text
			}
		})
	}
	asked.Wait()
	return targets
}

// stillness is how long nothing is done before an era, beyond what rules remember.
const stillness = 10 // ticks

// still returns after a time in which nothing is hit and no alert may fire.
func (l *lab) still(ctx context.Context) {
	began := l.recorded.now()
	if began > stillness {
		began = l.awaitLeaders(ctx) + memory
	}
	l.recorded.wait(ctx, began+stillness)
}

// awaitLeaders returns the tick at which each program has a leader again: a replica that was started again leads only once the lease that it finds was not renewed for 15 s, also where all else is well
// before, and alerts may tell of that.
func (l *lab) awaitLeaders(ctx context.Context) int {
	well := l.recorded.disturbed()
	defer well()
	for within := time.Now().Add(wellWithin); ctx.Err() == nil; l.recorded.wait(ctx, l.recorded.now()+1) {
		leading := l.recorded.leaders()
		none := slices.DeleteFunc(slices.Sorted(maps.Keys(leading)), func(job string) bool { return leading[job] > 0 })
		if len(none) == 0 {
			break
		}
		if time.Now().After(within) {
			l.violated("of %s no replica leads %s after all was well", strings.Join(none, " and "), wellWithin)
			break
		}
	}
	return l.recorded.now()
}

// askEvery is how often somebody asks in a drill.
const askEvery = 400 * time.Millisecond

// drill makes one, and returns when all is well again after it.
func (l *lab) drill(ctx context.Context, d plan.Drill, round int) error {
	l.say("drill %s", d.Name)
	well := l.recorded.disturbed()
	defer well()
	switch err := l.outlast(ctx, d, round); {
	case errors.Is(err, errNotMade): // nothing is expected of it
		l.counts.add("drills that could not be made: "+d.Name, 1)
		l.say("drill %s: %v", d.Name, err)
	case err != nil:
		return fmt.Errorf("drill %s: %w", d.Name, err)
	default:
		l.counts.add("drills, of "+d.Name, 1)
	}
	return l.calm(ctx)
}

// outlast has its fault last for as long as the drill does.
func (l *lab) outlast(ctx context.Context, d plan.Drill, round int) error {
	end := l.weather.begin(plan.Webhook)
	defer end()
	mend, err := l.beginDrill(ctx, d.Name, round)
	if err != nil {
		return err
	}
	l.recorded.expect(d)
	until := l.recorded.now() + d.Ticks
	asking, stop := context.WithCancel(ctx)
	var asked sync.WaitGroup
	if d.Name == plan.Outage {
		asked.Go(func() { l.askOn(asking) })
	}
	l.recorded.wait(ctx, until)
	stop()
	asked.Wait()
	return mend()
}

// askOn asks for what has to be judged, and makes pods, again and again.
func (l *lab) askOn(ctx context.Context) {
	for which := 0; ctx.Err() == nil; which++ {
		l.attack(ctx, plan.Operation{Do: plan.ForceProtected, Which: which})
		probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: guardedNamespace, Name: "probe"}, Spec: template("probe").Spec}
		if err := l.kube.Create(ctx, probe, client.DryRunAll); err != nil && ctx.Err() == nil {
			l.violated("a pod can't be made while the webhook is away: %v", err)
		}
		until(ctx, time.Now().Add(askEvery))
	}
}

// judgeAlerts has Prometheus' own program evaluate the rules over what was scraped: whether each alert was firing when it had to be, and none was in a calm. It returns what was looked at.
func (l *lab) judgeAlerts(ctx context.Context) (string, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return "", err
	}
	test := l.recorded.test(filepath.Join(root, rulesFile))
	text, err := yaml.Marshal(test)
	if err != nil {
		return "", fmt.Errorf("write what was scraped: %w", err)
	}
	file := filepath.Join(l.Dir, "alerts_test.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", fmt.Errorf("write what was scraped: %w", err)
	}
	// As e2e/monitoring runs it: without service discoveries, which are most of what would be compiled.
	promtool := cluster.Command{Dir: filepath.Join(root, "e2e", "monitoring"), Env: []string{"GOFLAGS=" + os.Getenv("GOFLAGS") + " -tags=remove_all_sd"}}
	if _, err := promtool.Run(ctx, "go", "tool", "promtool", "test", "rules", file); err != nil {
		l.violated("alerts, over %d ticks (a minute of eval_time each): %v", l.recorded.now(), err)
	}
	return l.recorded.summary(l.rules), nil
}

// summary is what was looked at, and which alerts were not.
func (r *recording) summary(rules []rule) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	fired := map[string]int{}
	for _, f := range r.fires {
		fired[f.alert]++
	}
	var not []string
	for _, of := range rules {
		if of.Alert != "" && fired[of.Alert] == 0 {
			not = append(not, of.Alert)
		}
	}
	still, all := 0, calms(r.busy, r.ticks)
	for _, c := range all {
		still += c.to - c.from + 1
	}
	return fmt.Sprintf("alerts, over %d scrapes: %d times one had to fire in a drill, of %s; none might in %d calms of %d scrapes\nnot made to fire: %s",
		r.ticks, len(r.fires), strings.Join(slices.Sorted(maps.Keys(fired)), ", "), len(all), still, strings.Join(not, ", "))
}
