package intake

import (
	"io"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// Logging of failed handshakes is rate-limited: whoever reaches the port can cause as many as he likes.
const (
	handshakeLogEvery = 10 * time.Second
	handshakeLogBurst = 10
)

// handshakeError is the prefix of net/http's message about a failed handshake (net/http/server.go serve, Go 1.26). The API server's own
// servers know it by the same words (k8s.io/apiserver/pkg/server/secure_serving.go tlsHandshakeErrorPrefix, 0.36.3).
const handshakeError = "http: TLS handshake error from "

// NewHandshakeLog registers a counter of failed TLS handshakes, and returns the writer that package log is to write to, since controller-runtime
// sets no ErrorLog on its server. All other lines are logged as they are.
func NewHandshakeLog(registry prometheus.Registerer, log logr.Logger) io.Writer {
	l := &handshakeLog{log: log, limit: rate.NewLimiter(rate.Every(handshakeLogEvery), handshakeLogBurst), failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "podgrace_webhook_handshake_failures_total",
		Help: "Failed TLS handshakes on the webhook's port: the caller has no client certificate that --client-ca-file requires, trusts another CA, or speaks no TLS. Some of them are logged, with the reason.",
	})}
	registry.MustRegister(l.failures)
	return l
}

type handshakeLog struct {
	log      logr.Logger
	limit    *rate.Limiter
	failures prometheus.Counter
}

// Write takes one line, as package log writes it.
func (l *handshakeLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	caller, ok := strings.CutPrefix(text, handshakeError)
	if !ok {
		l.log.Info("standard library log", "text", text)
		return len(line), nil
	}
	l.failures.Inc()
	if l.limit.Allow() {
		l.log.Info("TLS handshake failed", "caller", caller)
	}
	return len(line), nil
}
