// Command bare is the least that a webhook can do: controller-runtime's server, one handler that decodes the pod and
// allows it; with --defaults it gives each pod the same fields, as a webhook that somebody writes for one policy. e2e/bench and
// e2e/bench/peers measure others against it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
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

	"github.com/podgrace/podgrace/e2e/program"
)

func main() {
	var port int
	var metricsAddress, certDir, defaults string
	flags := func(f *flag.FlagSet) {
		f.IntVar(&port, "port", 0, "port on loopback for the reviews (HTTPS)")
		f.StringVar(&metricsAddress, "metrics-address", "", "address for /metrics")
		f.StringVar(&certDir, "cert-dir", "", "folder with tls.crt and tls.key")
		f.StringVar(&defaults, "defaults", "", "a PodSpec in JSON, of which a pod gets the grace period, class, priority and spread constraints if it has no class; empty: nothing")
	}
	program.Main("bare", flags, func(ctx context.Context) error { return run(ctx, port, metricsAddress, certDir, defaults) })
}

// run serves until the context ends.
func run(ctx context.Context, port int, metricsAddress, certDir, defaults string) error {
	ctrllog.SetLogger(textlogger.NewLogger(textlogger.NewConfig())) // as cmd/webhook does
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	// With a manager controller-runtime registers this collector itself.
	if err := metrics.Registry.Register(collectors.NewGoCollector()); err != nil {
		return err
	}
	go serveMetrics(ctx, metricsAddress)

	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: certDir})
	decoder := admission.NewDecoder(scheme)
	var handler admission.Handler = allow{decoder}
	if defaults != "" {
		give := give{decoder: decoder}
		if err := json.Unmarshal([]byte(defaults), &give.defaults); err != nil {
			return fmt.Errorf("--defaults: %w", err)
		}
		handler = give
	}
	server.Register("/", &admission.Webhook{Handler: handler})
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

// give gives a pod defaults, by a patch that is computed as everybody does who uses controller-runtime: of the whole pod before and after.
type give struct {
	decoder  admission.Decoder
	defaults corev1.PodSpec
}

// Handle is for admission.Handler.
func (g give) Handle(_ context.Context, req admission.Request) admission.Response {
	var pod corev1.Pod
	if err := g.decoder.Decode(req, &pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if pod.Spec.PriorityClassName != "" {
		return admission.Allowed("")
	}
	pod.Spec.PriorityClassName, pod.Spec.Priority = g.defaults.PriorityClassName, g.defaults.Priority
	pod.Spec.TerminationGracePeriodSeconds, pod.Spec.TopologySpreadConstraints = g.defaults.TerminationGracePeriodSeconds, g.defaults.TopologySpreadConstraints
	after, err := json.Marshal(&pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, after)
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
