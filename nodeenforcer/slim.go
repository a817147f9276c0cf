package nodeenforcer

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// slimPod drops what takes room and what we must not store: environments hold secrets. Of volumes those are left that can fill the disk.
func slimPod(o any) (any, error) {
	p, isPod := o.(*corev1.Pod)
	if !isPod {
		return o, nil
	}
	p.ManagedFields = nil
	delete(p.Annotations, corev1.LastAppliedConfigAnnotation) // the environment is in it once more
	p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return !onDisk(&v) })
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Env, c.EnvFrom, c.VolumeMounts, c.VolumeDevices, c.Command, c.Args = nil, nil, nil, nil, nil, nil
		}
	}
	for i := range p.Spec.EphemeralContainers {
		c := &p.Spec.EphemeralContainers[i].EphemeralContainerCommon
		c.Env, c.EnvFrom, c.VolumeMounts, c.VolumeDevices, c.Command, c.Args = nil, nil, nil, nil, nil, nil
	}
	return p, nil
}
