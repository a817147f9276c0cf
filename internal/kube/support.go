package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// OldestMinor is the oldest 1.x of API servers and kubelets. Before 1.33 a kubelet shows its configuration only to who has nodes/proxy, by which one execs into any pod: the
// feature gate KubeletFineGrainedAuthz is alpha and off in 1.32 (pkg/features/kube_features.go).
const OldestMinor = 33

// TooOld says why something of a version is too old; empty: it is not, or the version says nothing.
func TooOld(what, is string) string {
	v, err := version.ParseGeneric(is)
	if err != nil || v.AtLeast(version.MajorMinor(1, OldestMinor)) {
		return ""
	}
	return fmt.Sprintf("%s is of Kubernetes %s, and Podgrace works with 1.%d and newer", what, is, OldestMinor)
}
