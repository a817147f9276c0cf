package adoption

import (
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sign is a label or annotation by which one sees who keeps an object as it is.
type sign struct {
	key string
	// owner in words, of the value; help says what is to be set there.
	owner, help string
}

// signs in their order: one of a kind of owner is enough.
var signs = []sign{
	{"meta.helm.sh/release-name", "Helm release %s", helm},
	{"argocd.argoproj.io/tracking-id", "Argo CD application %s", "set attachRequired: true where the application renders it, or have it ignore the CSIDriver (ignoreDifferences with RespectIgnoreDifferences)"},
	{"argocd.argoproj.io/instance", "Argo CD application %s", "set attachRequired: true where the application renders it, or have it ignore the CSIDriver (ignoreDifferences with RespectIgnoreDifferences)"},
	{"helm.toolkit.fluxcd.io/name", "Flux HelmRelease %s", "set the chart's value for attachRequired, or patch it in spec.postRenderers"},
	{"kustomize.toolkit.fluxcd.io/name", "Flux Kustomization %s", "set attachRequired: true in what it applies, or patch it in spec.patches"},
	{"olm.owner", "the operator %s (Operator Lifecycle Manager)", "set attachRequired in the operator's own resource"},
	{"addonmanager.kubernetes.io/mode", "the cluster's addon manager (%s)", "take the driver out of the provider's add-ons, and install it yourself"},
	{"objectset.rio.cattle.io/id", "k3s or RKE2 (%s)", "set attachRequired: true in the manifest of their server's folder"},
}

const helm = "set the chart's value for attachRequired to true, or patch it with --post-renderer where the chart has none, as that of csi-driver-nfs: with the old value the next helm upgrade fails, and one with --force puts the old CSIDriver back"

// people are the managers of fields by which persons write.
var people = []string{"kubectl", "before-first-apply", "Mozilla", "k9s", "node-fetch", "podgrace"}

// owner is somebody who would put the old CSIDriver back.
type owner struct{ who, help string }

// ownersOf says who keeps a CSIDriver as it is, as far as it shows.
func ownersOf(d *storagev1.CSIDriver) (all []owner) {
	for _, r := range d.OwnerReferences {
		all = append(all, owner{fmt.Sprintf("%s %s (ownerReferences)", r.Kind, r.Name), "set attachRequired there, as its documentation says; who owns it makes it anew, or deletes it with itself"})
	}
	for _, s := range signs {
		value, found := d.Annotations[s.key]
		if label, ok := d.Labels[s.key]; ok {
			value, found = label, true
		}
		who := fmt.Sprintf(s.owner, value)
		if found && !slices.ContainsFunc(all, func(o owner) bool { return o.who == who }) {
			all = append(all, owner{who, s.help})
		}
	}
	if by := d.Labels["app.kubernetes.io/managed-by"]; by != "" && len(all) == 0 {
		help := "set attachRequired: true there"
		if by == "Helm" {
			help = helm
		}
		all = append(all, owner{by + " (label app.kubernetes.io/managed-by)", help})
	}
	if len(all) > 0 {
		return all
	}
	var managers []string
	for _, m := range d.ManagedFields {
		if m.Subresource == "" && !slices.ContainsFunc(people, func(p string) bool { return strings.HasPrefix(m.Manager, p) }) && !slices.Contains(managers, m.Manager) && writesSpec(m) {
			managers = append(managers, m.Manager)
			all = append(all, owner{fmt.Sprintf("the program %q, which wrote its spec (managedFields)", m.Manager), "set attachRequired: true there, if it is one that keeps the object as it wants it"})
		}
	}
	return all
}

func writesSpec(m metav1.ManagedFieldsEntry) bool {
	return m.FieldsV1 != nil && strings.Contains(m.FieldsV1.GetRawString(), `"f:spec"`)
}
