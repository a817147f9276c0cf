package plan

import "path"

// Daemon is a process of the host that the kubelet places. The enforcer writes nothing of it.
type Daemon struct {
	// Name is kubelet, or host for all processes in the root cgroup that are not the kernel's.
	Name string
	// Path is the cgroup that the kubelet moves it to; empty: it stays where it was started.
	Path string
	// OOMScoreAdj that the kubelet gives it; nil: none.
	OOMScoreAdj *int
}

// kubeletOOMScoreAdj is the default of oomScoreAdj (pkg/kubelet/qos/policy.go, 1.36.3).
const kubeletOOMScoreAdj = -999

// daemons are what the kubelet's configuration says of itself and of the host's processes (setupNode in pkg/kubelet/cm/container_manager_linux.go, 1.36.3; it does so
// when it starts, and every five minutes). The container runtime is not among them: its unit and its own configuration decide.
func (b *builder) daemons() (all []Daemon) {
	k := b.node.Kubelet
	if k == nil {
		return nil
	}
	score := kubeletOOMScoreAdj
	if k.OOMScoreAdj != nil {
		score = int(*k.OOMScoreAdj)
	}
	kubelet := Daemon{Name: "kubelet", OOMScoreAdj: &score}
	if k.KubeletCgroups != "" {
		kubelet.Path = path.Clean("/" + k.KubeletCgroups)
	}
	all = append(all, kubelet)
	if at := path.Clean("/" + k.SystemCgroups); at != "/" {
		all = append(all, Daemon{Name: "host", Path: at})
	}
	return all
}
