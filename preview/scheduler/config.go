package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

// Config is the configuration of a scheduler: its profiles, each for the pods that name it. nil is the default one.
type Config struct {
	of *config.KubeSchedulerConfiguration
}

// ReadConfig reads what kube-scheduler gets with --config. It returns an error if kube-scheduler would not start with it: it decodes and validates as kube-scheduler does (loadConfig in
// cmd/kube-scheduler/app/options/configfile.go and Validate in options.go, 1.36.3), and makes the plugins of each profile.
func ReadConfig(ctx context.Context, text []byte) (*Config, error) {
	o, kind, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	of, ok := o.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("it is a %s of %s, not a KubeSchedulerConfiguration", kind.Kind, kind.GroupVersion())
	}
	of.APIVersion = kind.GroupVersion().String() // which the conversion leaves out, and the validation reads
	if err := validation.ValidateKubeSchedulerConfiguration(of); err != nil {
		return nil, err
	}
	c := &Config{of}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, p := range of.Profiles {
		if _, err := New(ctx, Cluster{Config: c, SchedulerName: p.SchedulerName}); err != nil {
			return nil, fmt.Errorf("profile %s: %w (only the plugins of Kubernetes itself can be asked)", p.SchedulerName, err)
		}
	}
	return c, nil
}

// configuration is that of a Config.
func (c *Config) configuration() (*config.KubeSchedulerConfiguration, error) {
	if c != nil {
		return c.of, nil
	}
	of, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("make the scheduler's default configuration: %w", err)
	}
	return of, nil
}

// SchedulerNames are the names that pods select a profile by, in their order.
func (c *Config) SchedulerNames() []string {
	if c == nil {
		return []string{corev1.DefaultSchedulerName}
	}
	names := make([]string, 0, len(c.of.Profiles))
	for _, p := range c.of.Profiles {
		names = append(names, p.SchedulerName)
	}
	return names
}

// Has reports whether a pod with this schedulerName has a profile.
func (c *Config) Has(schedulerName string) bool {
	return slices.Contains(c.SchedulerNames(), cmp.Or(schedulerName, corev1.DefaultSchedulerName))
}

// Extenders is how many HTTP extenders are configured. None of them is asked.
func (c *Config) Extenders() int {
	if c == nil {
		return 0
	}
	return len(c.of.Extenders)
}

// ScoresAll reports whether the scheduler of a profile looks at all nodes (percentageOfNodesToScore, numFeasibleNodesToFind in pkg/scheduler/schedule_one.go, 1.36.3).
func (c *Config) ScoresAll(schedulerName string) bool {
	if c == nil {
		return false
	}
	percentage := c.of.PercentageOfNodesToScore
	if p := profileOf(c.of, schedulerName); p != nil && p.PercentageOfNodesToScore != nil {
		percentage = p.PercentageOfNodesToScore
	}
	return percentage != nil && *percentage >= 100
}

// profileOf is the profile for a schedulerName; nil: there is none.
func profileOf(of *config.KubeSchedulerConfiguration, schedulerName string) *config.KubeSchedulerProfile {
	i := slices.IndexFunc(of.Profiles, func(p config.KubeSchedulerProfile) bool {
		return p.SchedulerName == cmp.Or(schedulerName, corev1.DefaultSchedulerName)
	})
	if i < 0 {
		return nil
	}
	return &of.Profiles[i]
}

// argsOf are the arguments of a plugin in a profile; nil: it has none.
func argsOf(profile *config.KubeSchedulerProfile, plugin string) runtime.Object {
	for _, c := range profile.PluginConfig {
		if c.Name == plugin {
			return c.Args
		}
	}
	return nil
}
