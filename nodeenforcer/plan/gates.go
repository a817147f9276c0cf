package plan

import (
	"k8s.io/apimachinery/pkg/util/version"
)

// The feature gates of the kubelet that decide who writes what.
const (
	gateMemoryQoS                = "MemoryQoS"
	gateQOSReserved              = "QOSReserved"
	gatePodLevelResources        = "PodLevelResources"
	gatePodLevelResourceManagers = "PodLevelResourceManagers"
	gateNoQuotaWithExclusiveCPUs = "DisableCPUQuotaWithExclusiveCPUs"
	gateCFSQuotaPeriod           = "CPUCFSQuotaPeriod"
)

// assumedMinor is the kubelet's minor version where nobody says it: that of the sources that this package follows.
const assumedMinor = 36

// gate is a feature gate's life, in minor versions; never: not yet.
type gate struct {
	name                 string
	beta, stable, fromOn uint
}

const never = 1 << 16

// gates: pkg/features/kube_features.go, 1.36.3; MemoryQoS as announced for 1.37. A gate of stage Deprecated counts as stable here:
// AllAlpha and AllBeta do not move it.
var gates = []gate{
	{gateMemoryQoS, 37, never, 37},
	{gateQOSReserved, never, never, never},
	{gatePodLevelResources, 34, never, 34},
	{gatePodLevelResourceManagers, never, never, never},
	{gateNoQuotaWithExclusiveCPUs, 33, 36, 33},
	{gateCFSQuotaPeriod, never, 36, 36},
}

// enabled says whether a feature gate of the kubelet is on: as its configuration says, by name, then by stage, else by default.
func (n Node) enabled(name string) bool {
	var set map[string]bool
	if n.Kubelet != nil {
		set = n.Kubelet.FeatureGates
	}
	if on, ok := set[name]; ok {
		return on
	}
	minor := n.minor()
	for _, g := range gates {
		if g.name != name {
			continue
		}
		if all, ok := set[g.stage(minor)]; ok {
			return all
		}
		return minor >= g.fromOn
	}
	return false
}

// stage is the name of the switch for all gates of the gate's stage.
func (g gate) stage(minor uint) string {
	switch {
	case minor >= g.stable:
		return ""
	case minor >= g.beta:
		return "AllBeta"
	default:
		return "AllAlpha"
	}
}

func (n Node) minor() uint {
	v, err := version.ParseGeneric(n.KubeletVersion)
	if err != nil || v.Major() != 1 {
		return assumedMinor
	}
	return v.Minor()
}
