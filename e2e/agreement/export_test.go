package agreement

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
)

// All that a cluster has, as kubectl get -o yaml prints it, is reviewed with the same words with the cluster and without it.
func TestReviewOfAnExport(t *testing.T) {
	s := shared.Get(t)
	if err := s.AddNode(t.Context(), "of-the-export", nil); err != nil {
		t.Fatal(err)
	}
	ns, spared := s.Namespace(t), s.Namespace(t)
	stored(t, s, ns, "p", bound("of-the-export"))
	s.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db-0"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "db", appsv1.StatefulSetPodNameLabel: "db-0"}, Ports: []corev1.ServicePort{{Port: 80}},
	}})
	s.Create(t, stopped(ns, "web", 10))
	s.Create(t, stopped(spared, "web", 10))
	template := stopped(ns, "db", 10).Spec.Template
	byOperator := metav1.ObjectMeta{Namespace: ns, Name: "db", OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "Database", Name: "db", UID: "1", Controller: new(true)}}}
	s.Create(t, &appsv1.StatefulSet{ObjectMeta: byOperator, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template}})
	s.Create(t, &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "old"}, Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(0)), Template: &template}})
	job := template.DeepCopy()
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	s.Create(t, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "job"}, Spec: batchv1.JobSpec{Suspend: new(true), Template: *job}})

	policies := policyFile(t, &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "exported"}, Spec: v1alpha1.PodPolicySpec{
		Match: &v1alpha1.PodMatch{NamespaceSelector: &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{spared}},
		}}},
		GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(20))},
		TopologySpread: &v1alpha1.TopologySpreadSection{
			OnInfeasible: v1alpha1.InfeasibleSoften,
			Constraints:  []v1alpha1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule}},
			OwnerRules:   []v1alpha1.OwnerRule{{APIGroup: "batch", Kind: "Job", LabelKeys: []string{"job-name"}}},
		},
		Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll},
	}})
	// Of other tests nothing: pods may outlive their nodes, claims and classes for a while, which an export can't know to be no more.
	file := export(t, s, func(o metav1.Object) bool {
		if _, ok := o.(*corev1.Node); ok {
			return o.GetName() == "of-the-export"
		}
		return slices.Contains([]string{"", ns, spared, corev1.NamespaceNodeLease}, o.GetNamespace())
	})
	podgrace := build(t)
	kubeconfig, err := s.KubeconfigFor("cli", masters)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		question []string
		says     string
	}{
		"create":       {nil, "the topology spread constraints spread nothing"},
		"force delete": {[]string{"--operation", "delete", "--grace-period", "0"}, "may still run on of-the-export"},
		"evict":        {[]string{"--operation", "evict", "--grace-period", "0"}, "may still run on of-the-export"},
	} {
		t.Run(name, func(t *testing.T) {
			args := slices.Concat([]string{"review", "-f", file, "--policy", policies, "-o", "json", "--fail-on", "never"}, test.question)
			liveCode, live := run(t, podgrace, "", append(args, "--kubeconfig", kubeconfig)...)
			code, offline := run(t, podgrace, "", args...)
			if !strings.Contains(live, test.says) {
				t.Errorf("does not say %q:\n%s", test.says, live)
			}
			if diff := cmp.Diff(elapsed.ReplaceAllString(live, ""), elapsed.ReplaceAllString(offline, "")); diff != "" || code != liveCode || code != 0 {
				t.Errorf("exit %d with the cluster, %d without (-with +without):\n%s", liveCode, code, diff)
			}
		})
	}
}

// elapsed is how long something was ago when it was asked.
var elapsed = regexp.MustCompile(`, [0-9hms.]+ ago`)

// export is a file with all that reviews read and judge of the cluster, as far as it is chosen.
func export(t *testing.T, s *suite.Suite, chosen func(metav1.Object) bool) string {
	t.Helper()
	var items []runtime.Object
	for list, kind := range map[client.ObjectList]schema.GroupVersionKind{
		&corev1.NamespaceList{}: corev1.SchemeGroupVersion.WithKind("Namespace"), &corev1.NodeList{}: corev1.SchemeGroupVersion.WithKind("Node"),
		&corev1.PodList{}: corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.ServiceList{}: corev1.SchemeGroupVersion.WithKind("Service"),
		&corev1.PersistentVolumeClaimList{}: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
		&corev1.ReplicationControllerList{}: corev1.SchemeGroupVersion.WithKind("ReplicationController"),
		&coordinationv1.LeaseList{}:         coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		&schedulingv1.PriorityClassList{}:   schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"),
		&appsv1.DeploymentList{}:            appsv1.SchemeGroupVersion.WithKind("Deployment"), &appsv1.ReplicaSetList{}: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		&appsv1.StatefulSetList{}: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), &appsv1.DaemonSetList{}: appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
		&batchv1.JobList{}: batchv1.SchemeGroupVersion.WithKind("Job"), &batchv1.CronJobList{}: batchv1.SchemeGroupVersion.WithKind("CronJob"),
	} {
		if err := s.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error {
			m, err := meta.Accessor(o)
			if err != nil {
				return err
			}
			if !chosen(m) {
				return nil
			}
			o.GetObjectKind().SetGroupVersionKind(kind) // items of a list have none
			items = append(items, o)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "export.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
