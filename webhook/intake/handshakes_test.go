package intake_test

import (
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podgrace/podgrace/webhook/intake"
)

// Each handshake that fails is counted, and some are logged: whoever fails a thousand times fills no disk.
func TestHandshakeLog(t *testing.T) {
	registry := prometheus.NewRegistry()
	lines := make(chan string, 1000)
	log := funcr.New(func(_, line string) { lines <- line }, funcr.Options{})
	written := make(chan struct{}, 1000)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	to := intake.NewHandshakeLog(registry, log)
	server.Config.ErrorLog = stdlog.New(writer(func(line []byte) (int, error) {
		defer func() { written <- struct{}{} }()
		return to.Write(line)
	}), "", 0)
	server.StartTLS()
	defer server.Close()
	const attempts = 50
	for range attempts {
		r, err := server.Client().Get(strings.Replace(server.URL, "https:", "http:", 1)) // no TLS
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		<-written
	}
	if got := gathered(t, registry); got != attempts {
		t.Errorf("%v were counted", got)
	}
	if n := len(lines); n < 10 || n >= attempts { // the burst, and one each ten seconds
		t.Errorf("%d were logged", n)
	}
	if line := <-lines; !strings.Contains(line, `"TLS handshake failed" "caller"="127.0.0.1:`) || !strings.Contains(line, "client sent an HTTP request to an HTTPS server") {
		t.Errorf("logged: %s", line)
	}
}

// What else the standard library has to say is neither counted nor limited.
func TestOtherLinesOfTheStandardLibrary(t *testing.T) {
	registry := prometheus.NewRegistry()
	var lines []string
	log := stdlog.New(intake.NewHandshakeLog(registry, funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})), "", 0)
	for range 100 {
		log.Print("http: panic serving 127.0.0.1:1: oops\ngoroutine 1")
	}
	if got := gathered(t, registry); got != 0 {
		t.Errorf("%v were counted", got)
	}
	if len(lines) != 100 || !strings.Contains(lines[99], `"text"="http: panic serving 127.0.0.1:1: oops\ngoroutine 1"`) {
		t.Errorf("logged %d: %q", len(lines), lines[max(0, len(lines)-1):])
	}
}

// gathered is the count of failed handshakes.
func gathered(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	return families[0].Metric[0].GetCounter().GetValue()
}

type writer func([]byte) (int, error)

func (w writer) Write(line []byte) (int, error) { return w(line) }
