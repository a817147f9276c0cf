package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Trimmed is an informer that keeps of each object of its kind what keep returns. Readers get the stored objects without a copy, and must not change them. Other things, such as tombstones, stay as they are.
func Trimmed[In, Out any](keep func(In) Out) cache.ByObject {
	return cache.ByObject{UnsafeDisableDeepCopy: new(true), Transform: func(in any) (any, error) {
		if o, ok := in.(In); ok {
			return keep(o), nil
		}
		return in, nil
	}}
}

// Identity is what of an object's metadata tells it from others.
func Identity(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion}
}
