package review

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/policy"
)

// finder reads an object without a namespace into another; false: it is not known.
type finder func(name string, into client.Object) bool

// find is the finder of what the state has. Unlike a view it does not note what is unknown: no decision depends on it.
func (s *State) find(name string, into client.Object) bool {
	indexer := s.kinds[reflect.TypeOf(into)]
	if indexer == nil {
		return false
	}
	found, there, err := indexer.GetByKey(name)
	return err == nil && there && assign(into, found.(client.Object)) == nil
}

// finderOf reads what the reader has.
func finderOf(ctx context.Context, reader client.Reader) finder {
	if v, ok := reader.(*view); ok {
		return v.find
	}
	return func(name string, into client.Object) bool {
		return reader.Get(ctx, types.NamespacedName{Name: name}, into) == nil
	}
}

// ungated is the CSI driver of a claim for one node at a time whose volumes nobody attaches, so that nothing keeps a second node from mounting it; empty: it is none, or that is not known.
func (find finder) ungated(claim *corev1.PersistentVolumeClaim) string {
	if _, exclusive := policy.Exclusive(claim.Spec.AccessModes); !exclusive {
		return ""
	}
	var volume corev1.PersistentVolume
	var class storagev1.StorageClass
	name := ""
	switch {
	case claim.Spec.VolumeName != "" && find(claim.Spec.VolumeName, &volume):
		if volume.Spec.CSI != nil {
			name = volume.Spec.CSI.Driver
		}
	case claim.Spec.StorageClassName != nil && find(*claim.Spec.StorageClassName, &class):
		name = class.Provisioner
	}
	var driver storagev1.CSIDriver
	if name == "" || !find(name, &driver) || driver.Spec.AttachRequired == nil || *driver.Spec.AttachRequired {
		return ""
	}
	return name
}

// RemarkUngated tells of the claims that nothing gates, of the namespaces that were reviewed.
func (e *Engine) RemarkUngated(results []Result) []Remark {
	var remarks []Remark
	reviewed := map[string]bool{}
	for i := range results {
		reviewed[cmp.Or(results[i].Resource.Namespace, metav1.NamespaceDefault)] = true
	}
	tell := func(claim *corev1.PersistentVolumeClaim, namespace, name string) {
		if driver := finder(e.State.find).ungated(claim); driver != "" {
			remarks = append(remarks, Remark{Claim: namespace + "/" + name, Message: explain.Ungated(driver)})
		}
	}
	for _, c := range all[*corev1.PersistentVolumeClaim](e.State) {
		if reviewed[c.Namespace] {
			tell(c, c.Namespace, c.Name)
		}
	}
	for _, s := range all[*appsv1.StatefulSet](e.State) {
		for i := range s.Spec.VolumeClaimTemplates {
			if t := &s.Spec.VolumeClaimTemplates[i]; reviewed[s.Namespace] {
				tell(t, s.Namespace, fmt.Sprintf("%s-%s-0", t.Name, s.Name))
			}
		}
	}
	slices.SortFunc(remarks, func(a, b Remark) int { return strings.Compare(a.Claim, b.Claim) })
	return slices.Compact(remarks)
}

// ungatedOf are the claims that a pod names and nothing gates, with their drivers. Those of ephemeral volumes are of no other pod.
func ungatedOf(ctx context.Context, reader client.Reader, pod *corev1.Pod) map[string]string {
	var found map[string]string
	for _, name := range policy.ClaimNames(pod) {
		var claim corev1.PersistentVolumeClaim
		if err := reader.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, &claim); err != nil {
			continue // told elsewhere
		}
		if driver := finderOf(ctx, reader).ungated(&claim); driver != "" {
			if found == nil {
				found = map[string]string{}
			}
			found[name] = driver
		}
	}
	return found
}
