package version

import "github.com/prometheus/client_golang/prometheus"

// NewMetric registers podgrace_build_info.
func NewMetric(registry prometheus.Registerer, i Info) {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "podgrace_build_info", Help: "Always 1. Its labels are the version of this program, as its --version prints it, and that of Go.",
	}, []string{"version", "go_version"})
	info.WithLabelValues(i.Version, i.Go).Set(1)
	registry.MustRegister(info)
}
