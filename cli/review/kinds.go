package review

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubernetes "k8s.io/client-go/kubernetes/scheme"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/manifest"
)

// podless are kinds and groups that client-go does not have, and of which it is known that they make no pods.
var podless = map[schema.GroupKind]bool{
	{Group: v1alpha1.GroupVersion.Group, Kind: "PolicySuite"}: true, {Group: v1alpha1.GroupVersion.Group, Kind: "ReviewReport"}: true,
	{Group: v1alpha1.GroupVersion.Group, Kind: "PolicyDiff"}: true, {Group: v1alpha1.GroupVersion.Group, Kind: "NodePlan"}: true,
	{Kind: "Config"}: true, // a kubeconfig
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: true, {Group: "apiregistration.k8s.io", Kind: "APIService"}: true,
	{Group: "kustomize.config.k8s.io", Kind: "Kustomization"}: true, {Group: "kustomize.config.k8s.io", Kind: "Component"}: true,
	{Group: "admission.k8s.io", Kind: "AdmissionReview"}: true,
}

// podlessGroups have only kinds of which it is known that they make no pods themselves (November 2026). What a GitOps controller applies is reviewed as what it is.
var podlessGroups = []string{
	"acme.cert-manager.io", "cert-manager.io", "trust.cert-manager.io",
	"gateway.networking.k8s.io", "networking.istio.io", "security.istio.io", "telemetry.istio.io", "cilium.io", "crd.projectcalico.org", "projectcalico.org", "metallb.io", "traefik.io", "traefik.containo.us",
	"external-secrets.io", "generators.external-secrets.io", "bitnami.com", "secrets-store.csi.x-k8s.io",
	"kyverno.io", "policies.kyverno.io", "wgpolicyk8s.io", "templates.gatekeeper.sh", "constraints.gatekeeper.sh", "mutations.gatekeeper.sh",
	"source.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io", "image.toolkit.fluxcd.io", "notification.toolkit.fluxcd.io",
	"karpenter.sh", "karpenter.k8s.aws", "snapshot.storage.k8s.io", "autoscaling.k8s.io", "kueue.x-k8s.io", "scheduling.volcano.sh",
}

// podlessKinds are kinds without pods of groups that have others too.
var podlessKinds = []string{
	"Application.argoproj.io", "ApplicationSet.argoproj.io", "AppProject.argoproj.io", "AnalysisTemplate.argoproj.io", "ClusterAnalysisTemplate.argoproj.io",
	"ScaledObject.keda.sh", "TriggerAuthentication.keda.sh", "ClusterTriggerAuthentication.keda.sh",
	"ServiceMonitor.monitoring.coreos.com", "PodMonitor.monitoring.coreos.com", "PrometheusRule.monitoring.coreos.com", "Probe.monitoring.coreos.com", "ScrapeConfig.monitoring.coreos.com",
	"AlertmanagerConfig.monitoring.coreos.com", "GrafanaDashboard.grafana.integreatly.org", "GrafanaDatasource.grafana.integreatly.org", "GrafanaFolder.grafana.integreatly.org",
	"TriggerBinding.triggers.tekton.dev", "ClusterTriggerBinding.triggers.tekton.dev", "TriggerTemplate.triggers.tekton.dev", "Trigger.triggers.tekton.dev",
	"Backup.postgresql.cnpg.io", "ScheduledBackup.postgresql.cnpg.io", "Database.postgresql.cnpg.io", "ImageCatalog.postgresql.cnpg.io", "ClusterImageCatalog.postgresql.cnpg.io",
	"KafkaTopic.kafka.strimzi.io", "KafkaUser.kafka.strimzi.io", "KafkaConnector.kafka.strimzi.io", "KafkaRebalance.kafka.strimzi.io",
}

func makesNoPods(kind schema.GroupKind) bool {
	return podless[kind] || slices.Contains(podlessGroups, kind.Group) || slices.Contains(podlessKinds, kind.String())
}

// makingPods are the kinds of Kubernetes that make pods, or are some, whatever group they were in before.
var makingPods = []string{"Pod", "ReplicationController", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"}

// builtin reports whether a group is Kubernetes' own.
func builtin(group string) bool { return kubernetes.Scheme.IsGroupRegistered(group) }

// NotKnown is the kind of a document, with its group, where it is not known whether such objects make pods, as Rollout.example.com;
// empty: it is known.
func (s *State) NotKnown(d *manifest.Document) string {
	gvk := schema.FromAPIVersionAndKind(d.APIVersion, d.Kind)
	if s.scheme.Recognizes(gvk) || makesNoPods(gvk.GroupKind()) || s.podless[gvk.GroupKind()] {
		return ""
	}
	if _, ok := s.custom[gvk.GroupKind()]; ok {
		o, err := s.decodeCustom(d)
		if err != nil {
			return ""
		}
		if template, _, err := s.customPod(o, d.Template); err != nil || template != nil || borrowed(o) != nil || !s.given[gvk.GroupKind()] {
			return ""
		}
	} else if kubernetes.Scheme.Recognizes(gvk) && !slices.Contains(makingPods, d.Kind) {
		return ""
	}
	return gvk.GroupKind().String()
}

// NotKnown counts documents of which it is not known whether they make pods, by their kind.
type NotKnown map[string]int

// Count of the documents, by kind; nil where all are known.
func (s *State) Count(documents []*manifest.Document) NotKnown {
	var found NotKnown
	for _, d := range documents {
		if kind := s.NotKnown(d); kind != "" {
			if found == nil {
				found = NotKnown{}
			}
			found[kind]++
		}
	}
	return found
}

// shownKinds are named in a sentence; there may be hundreds.
const shownKinds = 10

// String is such as "3 Rollout.example.com, 1 Kafka.kafka.strimzi.io", the most frequent first.
func (n NotKnown) String() string {
	kinds := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(cmp.Compare(n[b], n[a]), strings.Compare(a, b)) })
	var parts []string
	for i, kind := range kinds {
		if i == shownKinds {
			parts = append(parts, fmt.Sprintf("%d more kinds", len(kinds)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d %s", n[kind], kind))
	}
	return strings.Join(parts, ", ")
}

// stable is a version whose kinds stay as long as it does.
var stable = regexp.MustCompile(`^v[0-9]+$`)

// misnamed says why the API server has no such kind: it is spelled otherwise, of another group, or no more. Nil also for what is merely
// unknown, as all custom kinds are, and for what a cluster has stored, perhaps of a later version.
func (s *State) misnamed(d *manifest.Document) error {
	gvk := schema.FromAPIVersionAndKind(d.APIVersion, d.Kind)
	if s.scheme.Recognizes(gvk) || makesNoPods(gvk.GroupKind()) {
		return nil
	}
	own := gvk.GroupVersion() == v1alpha1.GroupVersion // of other versions the policies' reader says more
	if kubernetes.Scheme.Recognizes(gvk) {
		return removed(gvk)
	}
	if !own && (!stable.MatchString(gvk.Version) || !kubernetes.Scheme.IsVersionRegistered(gvk.GroupVersion())) {
		return nil
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(d.JSON, &o); err != nil || stored(&o) {
		return nil
	}
	if meant := s.meant(gvk); meant != "" {
		return fmt.Errorf("%s has no kind %s; is it %s?", d.APIVersion, d.Kind, meant)
	}
	return fmt.Errorf("%s has no kind %s", d.APIVersion, d.Kind)
}

// removed says that the API server serves a workload's version no more: it says "no matches for kind".
func removed(gvk schema.GroupVersionKind) error {
	if !slices.Contains(makingPods, gvk.Kind) {
		return nil // who has these gets no other answer about pods
	}
	o, err := kubernetes.Scheme.New(gvk)
	if err != nil {
		return fmt.Errorf("make a %s: %w", gvk.Kind, err)
	}
	type replaced interface {
		APILifecycleRemoved() (major, minor int)
		APILifecycleReplacement() schema.GroupVersionKind
	}
	if r, ok := o.(replaced); ok {
		major, minor := r.APILifecycleRemoved()
		return fmt.Errorf("%s has no %s since Kubernetes %d.%d: it is of %s", gvk.GroupVersion(), gvk.Kind, major, minor, r.APILifecycleReplacement().GroupVersion())
	}
	return nil
}

// meant is a kind of the same name but for upper and lower case in any group, or of the same group with one letter more, less, other or
// swapped; empty: none.
func (s *State) meant(gvk schema.GroupVersionKind) string {
	var near []string
	for known := range kubernetes.Scheme.AllKnownTypes() {
		if stable.MatchString(known.Version) && (strings.EqualFold(known.Kind, gvk.Kind) || known.GroupVersion() == gvk.GroupVersion() && oneSlip(known.Kind, gvk.Kind)) {
			near = append(near, known.Kind+" of "+known.GroupVersion().String())
		}
	}
	for kind := range s.scheme.KnownTypes(v1alpha1.GroupVersion) {
		if gvk.Group == v1alpha1.GroupVersion.Group && (strings.EqualFold(kind, gvk.Kind) || oneSlip(kind, gvk.Kind)) {
			near = append(near, kind+" of "+v1alpha1.GroupVersion.String())
		}
	}
	slices.Sort(near)
	return strings.Join(slices.Compact(near), " or ")
}

// oneSlip reports whether two words differ by one letter that is added, left out or another, or by two that are swapped.
func oneSlip(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(b) && a[i] == b[i] {
		i++
	}
	switch {
	case a == b || len(a)-len(b) > 1:
		return false
	case len(a) > len(b):
		return a[i+1:] == b[i:]
	case a[i+1:] == b[i+1:]:
		return true
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}
