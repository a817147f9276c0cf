package state

// What the tests of this package look at from outside, so that they can share a world with those of others.

// KubeletEvery is kubeletEvery.
const KubeletEvery = kubeletEvery

// Slim is slim.
var Slim = slim

// KnownPods is how many pods the API server has said so far.
func (c *Cluster) KnownPods() int { return len(c.pods.GetStore().List()) }

// Answered reports whether the API server has said all.
func (c *Cluster) Answered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.live()
	return known
}

// Limit how much of an answer is read.
func (k *Kubelet) Limit(bytes int64) { k.limit = bytes }
