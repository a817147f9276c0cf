package plan

import (
	"strconv"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// podIO is the contract's io weight, bounded. The kubelet writes none.
//
// v1 has other scales: that of BFQ, 1 to 1000 around 100, and that of CFQ, 10 to 1000 around 500 (kernels before 5.0). They are
// converted as systemd does (its BFQ_WEIGHT and cgroup_weight_io_to_blkio), so that 100 is the default everywhere.
func podIO(b *builder, m *member) []value {
	c := m.contract
	if c == nil || c.IO == nil {
		return nil
	}
	weight := int64(c.IO.Weight)
	if bound := int64(b.bounds.IOWeight); weight > bound {
		b.note(m, "io weight %d is lowered to %d: bounds.maxIOWeight", weight, bound)
		weight = bound
	}
	if b.node.Version == cgroupfile.V2 {
		return []value{{file: "io.weight", why: ContractIO, want: "default " + strconv.FormatInt(weight, 10)}}
	}
	return []value{
		{file: "blkio.bfq.weight", why: ContractIO, want: strconv.FormatInt(bfqWeight(weight), 10)},
		{file: "blkio.weight", why: ContractIO, want: strconv.FormatInt(min(max(weight*5, 10), 1000), 10)},
	}
}

func bfqWeight(weight int64) int64 {
	if weight <= 100 {
		return weight
	}
	return 100 + (weight-100)*900/9900
}

// pidsMax is the file of a limit of processes. 0 becomes 1, since systemd can't express it (libcontainer does so with both drivers).
func pidsMax(limit int64) value {
	return value{file: "pids.max", why: Always, want: strconv.FormatInt(max(limit, 1), 10)}
}

// podPIDs is podPidsLimit, if positive (pkg/kubelet/cm/pod_container_manager_linux.go EnsureExists, 1.36.3). Containers have none: the
// CRI has no field for it.
func podPIDs(b *builder, _ *member) []value {
	if b.set.podPIDs <= 0 {
		return nil
	}
	return []value{pidsMax(b.set.podPIDs)}
}
