package fencing

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/podgrace/podgrace/fencing/controller"
)

// hurry is how many times as fast as real time the fencers' clock runs. So do heartbeats come, and so soon is a node without one not ready (nodeGrace): all that the fencer compares stays in proportion.
const (
	hurry     = 5
	nodeGrace = 50 * time.Second / hurry
)

// fastClock is a clock that runs hurry times as fast as real time. A test can move it besides, its monotonic reading too: the fencer can't tell that from time that passed.
type fastClock struct {
	began time.Time
	by    atomic.Int64
}

var _ clock.WithTicker = (*fastClock)(nil)

func newFastClock() *fastClock { return &fastClock{began: time.Now()} }

func (c *fastClock) Now() time.Time {
	return c.began.Add(passed(c.began, time.Now()) + time.Duration(c.by.Load()))
}

func (c *fastClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (*fastClock) After(d time.Duration) <-chan time.Time { return time.After(d / hurry) }
func (*fastClock) Tick(d time.Duration) <-chan time.Time  { return time.Tick(d / hurry) }
func (*fastClock) Sleep(d time.Duration)                  { <-time.After(d / hurry) }
func (*fastClock) NewTimer(d time.Duration) clock.Timer   { return clock.RealClock{}.NewTimer(d / hurry) }
func (*fastClock) NewTicker(d time.Duration) clock.Ticker {
	return clock.RealClock{}.NewTicker(d / hurry)
}

// jump moves the clock, and returns the real time.
func (c *fastClock) jump(by time.Duration) time.Time {
	c.by.Add(int64(by))
	return time.Now()
}

// passed is what passes from one real time to another by a clock that does not jump.
func passed(from, to time.Time) time.Duration { return hurry * to.Sub(from) }

// fencer is one that runs in this process, by the test's clock, as the program does but for its flags and the election of a leader.
type fencer struct {
	metrics *prometheus.Registry
	log     string

	killed atomic.Bool
	cancel context.CancelFunc
	ended  func() error // waits for its end
}

// startFencer starts another fencer; the one before has ended.
func (l *lab) startFencer(t *testing.T) {
	t.Helper()
	l.startFencerWith(t, l.fencerConfig(t))
}

// startFencerWith is startFencer for one that reaches the API server in a way of its own.
func (l *lab) startFencerWith(t *testing.T, way *rest.Config) {
	t.Helper()
	f := &fencer{metrics: prometheus.NewRegistry(), log: filepath.Join(t.TempDir(), "fencer.log")}
	way = rest.CopyConfig(way)
	way.QPS = -1
	way.Wrap(func(next http.RoundTripper) http.RoundTripper { return mortal{fencer: f, next: next} })
	logFile, err := os.Create(f.log)
	if err != nil {
		t.Fatal(err)
	}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(logFile)))
	mgr, err := ctrl.NewManager(way, ctrl.Options{
		Scheme: controller.NewScheme(), Cache: controller.CacheOptions(), Logger: logger, BaseContext: func() context.Context { return ctrl.LoggerInto(context.Background(), logger) },
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.Pod{}}}}, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range controller.Watched() {
		if _, err := mgr.GetCache().GetInformer(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	book := &controller.AddressBook{Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Clock: l.clock}
	if err := errors.Join(mgr.Add(book), mgr.Add(&controller.Fencer{
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Live: mgr.GetAPIReader(),
		Agents: controller.LiveAgents{Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Namespace: "podgrace-fencing"}, Addresses: book,
		Recorder: mgr.GetEventRecorder("podgrace-fencer"), Metrics: controller.NewMetrics(f.metrics), Clock: l.clock,
		Namespace: "podgrace-system", Identity: t.Name(),
	})); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	f.ended = sync.OnceValue(func() error { return errors.Join(<-done, logFile.Close()) })
	l.fencer = f
	t.Cleanup(func() {
		f.cancel()
		if err := f.ended(); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(f.log); t.Failed() && err == nil {
			t.Logf("a fencer's log:\n%s", text)
		}
	})
}

// kill ends it as SIGKILL does, as far as anything but this process can tell: from now on it asks the API server for nothing, whatever it would still do, and what was asked for is given up.
func (f *fencer) kill() error {
	f.killed.Store(true)
	f.cancel()
	return f.ended()
}

// mortal passes a fencer's requests on until it is killed.
type mortal struct {
	*fencer
	next http.RoundTripper
}

var errKilled = errors.New("this fencer was killed")

func (m mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.killed.Load() {
		return nil, errKilled
	}
	return m.next.RoundTrip(r)
}

// rounds returns how many rounds of the fencer read and wrote everything.
func (f *fencer) rounds() (n float64, err error) {
	families, err := f.metrics.Gather()
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "podgrace_fencer_rounds_total" && m.GetLabel()[0].GetValue() == "ok" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n, err
}
