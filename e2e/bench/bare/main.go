// Command bare is the least that a webhook can do: controller-runtime's server, one handler that decodes the pod and
// allows it. e2e/bench measures Podgrace's webhook against it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2/textlogger"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

// run serves until the context ends.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bare", flag.ContinueOnError)
	port := flags.Int("port", 0, "port on loopback for the reviews (HTTPS)")
	metricsAddress := flags.String("metrics-address", "", "address for /metrics")
	certDir := flags.String("cert-dir", "", "folder with tls.crt and tls.key")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctrllog.SetLogger(textlogger.NewLogger(textlogger.NewConfig())) // as cmd/webhook does
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	// With a manager controller-runtime registers this collector itself.
	if err := metrics.Registry.Register(collectors.NewGoCollector()); err != nil {
		return err
	}
	go serveMetrics(ctx, *metricsAddress)

	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: *port, CertDir: *certDir})
	server.Register("/", &admission.Webhook{Handler: allow{admission.NewDecoder(scheme)}})
	return server.Start(ctx)
}

// allow decodes the pod and allows it.
type allow struct{ decoder admission.Decoder }

// Handle is for admission.Handler.
func (a allow) Handle(_ context.Context, req admission.Request) admission.Response {
	var pod corev1.Pod
	if err := a.decoder.Decode(req, &pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	return admission.Allowed("")
}

func serveMetrics(ctx context.Context, address string) {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}))
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "bare: serve metrics:", err)
	}
}
