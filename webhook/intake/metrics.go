package intake

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/prometheus/client_golang/prometheus"
)

// NewServingMetrics registers this replica's readiness and the expiry of its certificate. certificate is called at each scrape, without a ClientHello.
func NewServingMetrics(registry prometheus.Registerer, ready func() bool, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) {
	registry.MustRegister(serving{ready, certificate})
}

type serving struct {
	ready       func() bool
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

var (
	readyDesc = prometheus.NewDesc("podgrace_webhook_ready",
		"1 where this replica's informers and policies have synced; 0: it judges nothing yet.", nil, nil)
	notAfterDesc = prometheus.NewDesc("podgrace_webhook_certificate_expiration_timestamp_seconds",
		"When the certificate that this replica serves with expires, in seconds since 1970. Missing while it has none.", nil, nil)
)

// Describe is for prometheus.Collector.
func (serving) Describe(ch chan<- *prometheus.Desc) {
	ch <- readyDesc
	ch <- notAfterDesc
}

// Collect is for prometheus.Collector.
func (s serving) Collect(ch chan<- prometheus.Metric) {
	ready := 0.0
	if s.ready() {
		ready = 1
	}
	ch <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, ready)
	if leaf := s.leaf(); leaf != nil {
		ch <- prometheus.MustNewConstMetric(notAfterDesc, prometheus.GaugeValue, float64(leaf.NotAfter.Unix()))
	}
}

// leaf is nil where there is no certificate yet.
func (s serving) leaf() *x509.Certificate {
	certificate, err := s.certificate(nil)
	switch {
	case err != nil || certificate == nil || len(certificate.Certificate) == 0:
		return nil
	case certificate.Leaf != nil:
		return certificate.Leaf
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		return nil
	}
	return leaf
}
