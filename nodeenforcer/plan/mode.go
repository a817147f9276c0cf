package plan

import "github.com/podgrace/podgrace/api/v1alpha1"

// Writes says whether a mode writes what has this owner: Observe nothing, Tune what nobody else writes, Repair all. A mode that
// is not known writes nothing.
func Writes(mode v1alpha1.NodeMode, owner Owner) bool {
	switch mode {
	case v1alpha1.NodeModeRepair:
		return true
	case v1alpha1.NodeModeTune:
		return owner == Nobody
	default:
		return false
	}
}

// withholds is the reason why a mode does not write; empty where it does.
func withholds(mode v1alpha1.NodeMode, owner Owner) Why {
	switch {
	case Writes(mode, owner):
		return ""
	case mode == v1alpha1.NodeModeTune:
		return WhyOwned
	default:
		return WhyObserve
	}
}
