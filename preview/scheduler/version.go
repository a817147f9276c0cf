package scheduler

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// Version is that of the scheduler whose code this is.
const Version = "kube-scheduler 1.36.3"

// minor of Version, and how many minors before it have gates that this code still knows (KEP-4330, compatibility versions: emulated up to three minors back).
const (
	minor    = 36
	emulates = 3
)

// Release is a minor release of Kubernetes whose feature gates are in force.
type Release struct{ minor uint }

// Current is that of Version.
var Current = Release{minor}

// ReleaseOf reads a version as clusters tell it, such as 1.34, v1.34.2 or 1.34+. One that is too old for this code is an error; of one that is newer the gates are those of Version.
func ReleaseOf(text string) (Release, error) {
	v, err := version.ParseGeneric(text)
	if err != nil || v.Major() != 1 {
		return Release{}, fmt.Errorf("%q is no version of Kubernetes, such as 1.%d", text, minor)
	}
	if v.Minor() < minor-emulates {
		return Release{}, fmt.Errorf("kubernetes 1.%d is too old: %s knows the feature gates of 1.%d to 1.%d", v.Minor(), Version, minor-emulates, minor)
	}
	return Release{v.Minor()}, nil
}

// Emulate puts the release's feature gates in force for the whole process. It is for its begin: what was made before has the gates that were in force then.
func (r Release) Emulate() error {
	if err := utilfeature.DefaultMutableFeatureGate.SetEmulationVersion(version.MajorMinor(1, min(r.minor, minor))); err != nil {
		return fmt.Errorf("set the feature gates of Kubernetes 1.%d: %w", r.minor, err)
	}
	return nil
}

// Remark is how much the scheduler of the release may differ from this one; empty: it is this one.
func (r Release) Remark() string {
	switch {
	case r.minor > minor:
		return fmt.Sprintf("The cluster is of Kubernetes 1.%d, which is newer: what its scheduler does otherwise is not known here.", r.minor)
	case r.minor < minor:
		return fmt.Sprintf("The feature gates are those of Kubernetes 1.%d, at their defaults; the code is newer than the cluster's.", r.minor)
	}
	return ""
}
