package nodeenforcer

import (
	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// disk says whether a signal is about a file system, whose use by pods only the kubelet knows.
func disk(signal v1alpha1.EvictionSignal) bool {
	switch signal {
	case v1alpha1.SignalNodeFsAvailable, v1alpha1.SignalNodeFsInodesFree, v1alpha1.SignalImageFsAvailable, v1alpha1.SignalImageFsInodesFree:
		return true
	}
	return false
}

// usageOf reads from its cgroup what a pod uses: bytes of memory, or processes.
func usageOf(tree cgroup.Reader, path string, signal v1alpha1.EvictionSignal) (int64, error) {
	if signal == v1alpha1.SignalPIDAvailable {
		return cgroup.ReadPIDs(tree, path)
	}
	m, err := cgroup.ReadMemory(tree, path)
	if err != nil {
		return 0, err
	}
	return m.WorkingSet(), nil
}
