package statetest

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podgrace/podgrace/nodeenforcer/state"
)

// Source is one that knows what it is told, and keeps what it is to save.
type Source struct {
	changed chan struct{}

	mu    sync.Mutex
	Now   state.State
	Known bool
	saved []state.State
	fails error
}

// NewSource knows nothing yet.
func NewSource() *Source { return &Source{changed: make(chan struct{}, 1)} }

// State is for state.Source.
func (s *Source) State() (state.State, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Now, s.Known
}

// Changed is for state.Source.
func (s *Source) Changed() <-chan struct{} { return s.changed }

// Start is for state.Source.
func (s *Source) Start(context.Context) error { return nil }

// Save is for state.Saver.
func (s *Source) Save(state state.State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = append(s.saved, state)
	return s.fails
}

// Fail has saving fail from now on; nil: succeed.
func (s *Source) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

// Say makes it known, and news.
func (s *Source) Say(change func(*state.State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Known = true
	change(&s.Now)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Saved are the states that it was to save.
func (s *Source) Saved() []state.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.saved)
}

// Log are the lines of a log.
type Log struct {
	mu    sync.Mutex
	lines []string
}

// Write is for funcr.New.
func (l *Log) Write(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, prefix+args)
}

// Lines so far.
func (l *Log) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// Count of the lines that hold a text.
func (l *Log) Count(text string) (n int) {
	for _, line := range l.Lines() {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Until waits for something that another goroutine does.
func Until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(time.Minute); !holds(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

// Folder makes files, by name, and returns the folder. A name that ends in a slash is a folder.
func Folder(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// NodeOfServer is the node that the certificate of Answering names.
const NodeOfServer = "example.com"

// KubeletAt is a client of a test's kubelet. Nobody else is asked: an API server's address in the credentials does not matter.
func KubeletAt(t *testing.T, server *httptest.Server, ca string) *state.Kubelet {
	t.Helper()
	k, err := state.NewKubelet(server.Listener.Addr().String(), NodeOfServer, &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "secret"}, ca)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Answering is a TLS server.
func Answering(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that the test breaks off
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// TextFile is a file with a text, which goes with the test.
func TextFile(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Sensed are the files of a machine with 8 GiB, of both versions.
func Sensed() (proc, v1, v2 map[string]string) {
	proc = map[string]string{
		"meminfo": "MemTotal:        8388608 kB\nMemFree:         1 kB\n", "loadavg": "7.87 8.07 7.43 5/600 12345\n",
		"sys/kernel/pid_max": "1000\n", "sys/kernel/threads-max": "2000\n",
	}
	v2 = map[string]string{"memory.stat": "anon 1073741824\nfile 3221225472\nkernel 99\nfile_mapped 5\ninactive_anon 7\ninactive_file 1073741824\n"}
	v1 = map[string]string{
		"memory/memory.stat":           "cache 1\ninactive_file 5\ntotal_cache 1\ntotal_inactive_file 1073741824\n",
		"memory/memory.usage_in_bytes": "4294967296\n",
	}
	return proc, v1, v2
}

// Recorded are the Events that were Recorded, as text.
type Recorded []string

// Eventf keeps it.
func (r *Recorded) Eventf(about, _ runtime.Object, kind, reason, action, note string, args ...any) {
	*r = append(*r, fmt.Sprintf("%T %s %s %s: %s", about, kind, reason, action, fmt.Sprintf(note, args...)))
}

// Gathered are the metrics of a round, as name{labels} value; of a histogram the number of observations.
func Gathered(t *testing.T, registry *prometheus.Registry) (lines []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels strings.Builder
			for _, l := range m.GetLabel() {
				fmt.Fprintf(&labels, " %s=%q", l.GetName(), l.GetValue())
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			lines = append(lines, fmt.Sprint(f.GetName(), labels.String(), " ", value))
		}
	}
	slices.Sort(lines)
	return lines
}
