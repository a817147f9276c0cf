package policy

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Storage says what a pod is protected for, where that is its volumes alone: the names of the PersistentVolumes of its claims. Where a node can't write to these any more, whatever
// runs of the pod there harms nothing that it is protected for. But says why it is not so: there is more at stake, or a volume that nobody can take away from the node or that
// is not known. Volumes that the pod mounts to read alone, and by a claim for readers alone, do not count.
func (r Removal) Storage(pod *corev1.Pod, claims Claims) (volumes []string, but string) {
	if r.Unknown {
		return nil, "the policies could not be read"
	}
	if but := (Protection{}).identity(pod); but != "" {
		return nil, but
	}
	for level := &r; level != nil; level = level.Laxer {
		switch {
		case !level.protects():
		case level.Protect.All:
			return nil, "its namespace's policies protect all pods"
		default:
			if but := level.Protect.identity(pod); but != "" {
				return nil, but
			}
		}
	}
	for i := range pod.Spec.Volumes {
		volume, but := revocable(&pod.Spec.Volumes[i], claims)
		if but != "" {
			return nil, but
		}
		if volume != "" && !slices.Contains(volumes, volume) {
			volumes = append(volumes, volume)
		}
	}
	if len(volumes) == 0 {
		return nil, "it has no claim whose volume could be taken away"
	}
	return volumes, ""
}

// revocable is the PersistentVolume behind a pod's volume; empty: nothing outside of the pod is written to by it, or but says why it can't be taken away.
func revocable(v *corev1.Volume, claims Claims) (volume, but string) {
	switch s := &v.VolumeSource; {
	case s.PersistentVolumeClaim != nil:
		name := s.PersistentVolumeClaim.ClaimName
		switch claim, known := claims[name]; {
		case !known || claim.Volume == "" || claim.Recreated:
			return "", fmt.Sprintf("the volume of its claim %s is not known", name)
		// The access mode alone keeps nobody from writing: a driver is told the first one that the PersistentVolume has, which may have more than the claim asks for, and NFS none
		// (pkg/volume/csi/csi_mounter.go SetUpAt, pkg/volume/nfs, 1.36.3). What stands in the pod does.
		case s.PersistentVolumeClaim.ReadOnly && len(claim.Modes) > 0 && !slices.ContainsFunc(claim.Modes, func(m corev1.PersistentVolumeAccessMode) bool { return m != corev1.ReadOnlyMany }):
			return "", ""
		default:
			return claim.Volume, ""
		}
	case s.EmptyDir != nil, s.ConfigMap != nil, s.Secret != nil, s.DownwardAPI != nil, s.Projected != nil, s.Image != nil:
		return "", ""
	}
	return "", fmt.Sprintf("its volume %s is no claim's, so that it may still write there", v.Name)
}
