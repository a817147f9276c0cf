package webhook

import (
	"io"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// The limits of what is logged of failed handshakes, which cost whoever reaches the port next to nothing.
const (
	handshakeLogEvery = 10 * time.Second
	handshakeLogBurst = 10
)

// handshakeError is how net/http begins to tell of a failed handshake (net/http/server.go serve, Go 1.26). The API server's own
// servers know it by the same words (k8s.io/apiserver/pkg/server/secure_serving.go tlsHandshakeErrorPrefix, 0.36.3).
const handshakeError = "http: TLS handshake error from "

// NewHandshakeLog registers a count of TLS handshakes that fail, and returns what the package log is to write to:
// controller-runtime gives its server no log of its own. What else is written there goes into the log as it is.
func NewHandshakeLog(registry prometheus.Registerer, log logr.Logger) io.Writer {
	l := &handshakeLog{log: log, limit: rate.NewLimiter(rate.Every(handshakeLogEvery), handshakeLogBurst), failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "podgrace_webhook_handshake_failures_total",
		Help: "TLS handshakes on the port for reviews that failed: of callers without a certificate that --client-ca-file asks for, or that trust another CA, or speak no TLS. The log has some of them, with the reason.",
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
		l.log.Info("from the standard library", "text", text)
		return len(line), nil
	}
	l.failures.Inc()
	if l.limit.Allow() {
		l.log.Info("a TLS handshake failed", "caller", caller)
	}
	return len(line), nil
}
