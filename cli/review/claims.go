package review

import (
	"reflect"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClaimOf is the claim that a StatefulSet's controller makes for one of its pods, TEMPLATE-SET-ORDINAL
// (pkg/controller/statefulset/stateful_set_utils.go getPersistentVolumeClaimName, 1.36.3). It is nil where no StatefulSet that is known would
// make one of that name, or two would make different ones: a name may be taken apart in several ways.
func (s *State) ClaimOf(key client.ObjectKey) *corev1.PersistentVolumeClaim {
	cut := strings.LastIndexByte(key.Name, '-')
	if cut < 0 {
		return nil
	}
	if n, err := strconv.ParseUint(key.Name[cut+1:], 10, 31); err != nil || strconv.FormatUint(n, 10) != key.Name[cut+1:] {
		return nil
	}
	var made *corev1.PersistentVolumeClaim
	for i, c := range key.Name[:cut] {
		if c != '-' {
			continue
		}
		claim := s.templateOfClaim(types.NamespacedName{Namespace: key.Namespace, Name: key.Name[i+1 : cut]}, key.Name[:i])
		switch {
		case claim == nil:
		case made != nil && !equality.Semantic.DeepEqual(made.Spec, claim.Spec):
			return nil
		default:
			made = claim
		}
	}
	if made != nil {
		made.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: made.Labels}
	}
	return made
}

// templateOfClaim is a copy of the StatefulSet's template of that name, or nil.
func (s *State) templateOfClaim(set types.NamespacedName, name string) *corev1.PersistentVolumeClaim {
	stored, there, err := s.kinds[reflect.TypeFor[*appsv1.StatefulSet]()].GetByKey(set.String())
	if err != nil || !there {
		return nil
	}
	templates := stored.(*appsv1.StatefulSet).Spec.VolumeClaimTemplates
	for i := range templates {
		if templates[i].Name == name {
			return templates[i].DeepCopy()
		}
	}
	return nil
}
