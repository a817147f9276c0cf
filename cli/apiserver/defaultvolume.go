package apiserver

import (
	corev1 "k8s.io/api/core/v1"
)

const tokenSeconds = 3600 // SetDefaults_ServiceAccountTokenProjection

func defaultVolume(volume *corev1.Volume) {
	v := &volume.VolumeSource
	if *v == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.Image != nil {
		zero(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
	if v.HostPath != nil {
		unset(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Secret != nil {
		unset(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		unset(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		unset(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		defaultProjected(v.Projected)
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		defaultClaimSpec(&v.Ephemeral.VolumeClaimTemplate.Spec)
	}
	defaultDiskVolume(v)
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	unset(&p.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for _, source := range p.Sources {
		if source.DownwardAPI != nil {
			defaultDownward(source.DownwardAPI.Items)
		}
		if source.ServiceAccountToken != nil {
			unset(&source.ServiceAccountToken.ExpirationSeconds, tokenSeconds)
		}
	}
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

func defaultClaimSpec(spec *corev1.PersistentVolumeClaimSpec) {
	unset(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(spec.Resources.Limits)
	roundUp(spec.Resources.Requests)
}

// defaultDiskVolume is for the drivers of old that are still in the API.
func defaultDiskVolume(v *corev1.VolumeSource) {
	if v.ISCSI != nil {
		zero(&v.ISCSI.ISCSIInterface, "default")
	}
	if v.RBD != nil {
		zero(&v.RBD.RBDPool, "rbd")
		zero(&v.RBD.RadosUser, "admin")
		zero(&v.RBD.Keyring, "/etc/ceph/keyring")
	}
	if v.AzureDisk != nil {
		unset(&v.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		unset(&v.AzureDisk.FSType, "ext4")
		unset(&v.AzureDisk.ReadOnly, false)
		unset(&v.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
	}
	if v.ScaleIO != nil {
		zero(&v.ScaleIO.StorageMode, "ThinProvisioned")
		zero(&v.ScaleIO.FSType, "xfs")
	}
}
