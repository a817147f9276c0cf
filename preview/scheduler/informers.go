package scheduler

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kinds are those whose objects plugins look up beside nodes and pods (their EventsToRegister and New in pkg/scheduler/framework/plugins, 1.36.3).
func Kinds() []client.Object {
	return []client.Object{
		&corev1.Namespace{}, &corev1.Service{}, &corev1.ReplicationController{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &policyv1.PodDisruptionBudget{},
		&corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &storagev1.StorageClass{}, &storagev1.CSINode{}, &storagev1.CSIDriver{}, &storagev1.CSIStorageCapacity{},
		&storagev1.VolumeAttachment{},
	}
}

func informerOf(f informers.SharedInformerFactory, o client.Object) cache.SharedIndexInformer {
	switch o.(type) {
	case *corev1.Namespace:
		return f.Core().V1().Namespaces().Informer()
	case *corev1.Node:
		return f.Core().V1().Nodes().Informer()
	case *corev1.Service:
		return f.Core().V1().Services().Informer()
	case *corev1.ReplicationController:
		return f.Core().V1().ReplicationControllers().Informer()
	case *appsv1.ReplicaSet:
		return f.Apps().V1().ReplicaSets().Informer()
	case *appsv1.StatefulSet:
		return f.Apps().V1().StatefulSets().Informer()
	case *policyv1.PodDisruptionBudget:
		return f.Policy().V1().PodDisruptionBudgets().Informer()
	}
	return volumeInformerOf(f, o)
}

func volumeInformerOf(f informers.SharedInformerFactory, o client.Object) cache.SharedIndexInformer {
	switch o.(type) {
	case *corev1.PersistentVolume:
		return f.Core().V1().PersistentVolumes().Informer()
	case *corev1.PersistentVolumeClaim:
		return f.Core().V1().PersistentVolumeClaims().Informer()
	case *storagev1.StorageClass:
		return f.Storage().V1().StorageClasses().Informer()
	case *storagev1.CSINode:
		return f.Storage().V1().CSINodes().Informer()
	case *storagev1.CSIDriver:
		return f.Storage().V1().CSIDrivers().Informer()
	case *storagev1.CSIStorageCapacity:
		return f.Storage().V1().CSIStorageCapacities().Informer()
	case *storagev1.VolumeAttachment:
		return f.Storage().V1().VolumeAttachments().Informer()
	}
	return nil
}
