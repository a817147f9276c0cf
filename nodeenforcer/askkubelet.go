package nodeenforcer

import (
	"context"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// kubeletEvery is how often the kubelet is asked for its configuration: it only changes when it restarts. kubeletRetry is how soon
// it is asked again where it did not answer.
const (
	kubeletEvery = time.Minute
	kubeletRetry = 5 * time.Second
)

// askKubelet keeps the kubelet's configuration until the context ends. What it last said holds while it is away.
func (c *Cluster) askKubelet(ctx context.Context) {
	if c.kubelet == nil {
		return
	}
	for failed := false; ; {
		config, err := c.kubelet.Config(ctx)
		if err != nil && ctx.Err() == nil && !failed {
			c.log.Error(err, "the kubelet's configuration is not known; what it last said counts, or its defaults")
		}
		failed = err != nil
		c.answered(config)
		pause := kubeletEvery
		if failed {
			pause = kubeletRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-c.clock.After(pause):
		}
	}
}

// answered takes over the kubelet's configuration; nil: it did not answer.
func (c *Cluster) answered(config *kubeletconfigv1beta1.KubeletConfiguration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked && (config == nil || apiequality.Semantic.DeepEqual(config, c.config)) {
		return // no news
	}
	c.asked = true
	if config != nil {
		c.config = config
	}
	c.notify()
}

// guessed says whether the plan is by the kubelet's defaults although it was asked.
func (c *Cluster) guessed() bool { return c.kubelet != nil && c.config == nil }
