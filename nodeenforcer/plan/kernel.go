package plan

import "fmt"

// KernelParameter is one that the kubelet sets when it starts, or without which it does not start (protectKernelDefaults).
type KernelParameter struct {
	// Name as sysctl has it.
	Name string
	// Kubelets is the kubelet's value (setupKernelTunables in pkg/kubelet/cm/container_manager_linux.go, and k8s.io/component-helpers/node/util/sysctl, 1.36.3).
	Kubelets int64
	// otherwise is what another value does to pods.
	otherwise string
}

// KernelParameters are those that decide what the kernel does if memory runs out, or if it fails.
func KernelParameters() []KernelParameter {
	return []KernelParameter{
		{"vm.overcommit_memory", 1, "the kernel may refuse memory to a process within its limits"},
		{"vm.panic_on_oom", 0, "the node panics when memory runs out, where one process would have been killed"},
		{"kernel.panic", 10, "a node that panics restarts at another time, or stays down if it is 0"},
		{"kernel.panic_on_oops", 1, "a node goes on after a fault of its kernel, in an unknown state"},
	}
}

// noteKernel notes which of the kernel's parameters are not as the kubelet sets them. The kubelet looks at them only when it starts, so they were changed since.
func (b *builder) noteKernel() {
	for _, p := range KernelParameters() {
		is, known := b.node.Kernel[p.Name]
		if !known || is == p.Kubelets {
			continue
		}
		does := "the kubelet sets it when it starts"
		if k := b.node.Kubelet; k != nil && k.ProtectKernelDefaults {
			does = "the kubelet does not start again (protectKernelDefaults)"
		}
		b.notes = append(b.notes, Note{Kernel: true, Message: fmt.Sprintf("%s is %d, not %d: %s; %s", p.Name, is, p.Kubelets, p.otherwise, does)})
	}
}
