package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/tools/metrics"
)

// newRegistry has what every program of Kubernetes tells of itself: process, Go, and its requests to the API server.
func newRegistry() *prometheus.Registry {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rest_client_requests_total", Help: "Number of HTTP requests, partitioned by status code, method, and host.",
	}, []string{"code", "method", "host"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), requests)
	metrics.Register(metrics.RegisterOpts{RequestResult: counted{requests}})
	return registry
}

// counted is for client-go.
type counted struct{ requests *prometheus.CounterVec }

// Increment is for metrics.ResultMetric.
func (c counted) Increment(_ context.Context, code, method, host string) {
	c.requests.WithLabelValues(code, method, host).Inc()
}
