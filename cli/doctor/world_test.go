package doctor

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/deploy"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/controllers"
)

var now = time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)

// authority is a CA that ends after so long.
func authority(t *testing.T, ends time.Duration) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(ends), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// read takes the documents of a manifest that are of a kind.
func read[T any](t *testing.T, text []byte, kind string) (all []*T) {
	t.Helper()
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(document, &meta); err != nil {
			t.Fatal(err)
		}
		if meta.Kind != kind {
			continue
		}
		into := new(T)
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			t.Fatal(err)
		}
		all = append(all, into)
	}
	if len(all) == 0 {
		t.Fatalf("no %s", kind)
	}
	return all
}

func file(t *testing.T, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "deploy"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// node is one of kubeadm's.
func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{"kubeadm.alpha.kubernetes.io/cri-socket": "unix:///run/containerd/containerd.sock"}},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", OSImage: "Debian GNU/Linux 13 (trixie)", ContainerRuntimeVersion: "containerd://2.1.4", OperatingSystem: "linux", Architecture: "amd64"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "192.0.2.1"}},
		},
	}
}

// bare is a cluster of kubeadm's without Podgrace, in which nothing is to be said.
func bare() *Snapshot {
	s := &Snapshot{Now: now, OwnNamespace: DefaultNamespace, CLI: "v0.1.0", Server: "v1.36.3", Groups: []string{"apps"}, Unread: map[Source]string{Kubelets: NotAsked}}
	for _, name := range []string{"node-1", "node-2"} {
		s.Add(node(name))
	}
	s.Add(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager-node-1", Labels: map[string]string{"component": "kube-controller-manager"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Command: []string{"kube-controller-manager", "--disable-force-detach-on-timeout=true"}}}},
	})
	return s
}

// namespaceOf is the Namespace that a folder of deploy makes, as the API server labels it.
func namespaceOf(t *testing.T, folder string) *corev1.Namespace {
	t.Helper()
	namespace := read[corev1.Namespace](t, file(t, folder, "namespace.yaml"), "Namespace")[0]
	namespace.Labels[corev1.LabelMetadataName] = namespace.Name
	return namespace
}

// healthy is the same cluster with Podgrace as the manifests install it, and a policy that denies.
func healthy(t *testing.T) *Snapshot {
	t.Helper()
	s := bare()
	add := func(objects ...runtime.Object) {
		for _, o := range objects {
			if !s.Add(o) {
				t.Fatalf("%T is not looked at", o)
			}
		}
	}
	ca := authority(t, 365*24*time.Hour)
	mutating := read[admissionregistrationv1.MutatingWebhookConfiguration](t, deploy.WebhookConfigurations, "MutatingWebhookConfiguration")[0]
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].ClientConfig.CABundle = ca
	}
	validating := read[admissionregistrationv1.ValidatingWebhookConfiguration](t, deploy.WebhookConfigurations, "ValidatingWebhookConfiguration")[0]
	for i := range validating.Webhooks {
		w := &validating.Webhooks[i]
		w.ClientConfig.CABundle = ca
		if w.NamespaceSelector == nil {
			w.NamespaceSelector = &metav1.LabelSelector{} // as the API server writes it
		}
	}
	controllers.RenderActors(validating, policy.Removal{Names: []string{"p"}, ForceDelete: v1alpha1.RemovalDeny, AllowedActors: []string{"system:serviceaccount:karpenter:karpenter", `"quoted"`}})
	add(mutating, validating)
	for _, text := range [][]byte{deploy.AdmissionPolicies, deploy.FencingPolicies} {
		for _, p := range read[admissionregistrationv1.ValidatingAdmissionPolicy](t, text, "ValidatingAdmissionPolicy") {
			add(p)
		}
		for _, b := range read[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, text, "ValidatingAdmissionPolicyBinding") {
			add(b)
		}
	}
	for _, crd := range shippedDefinitions() {
		add(crd.DeepCopy())
	}
	d := read[appsv1.Deployment](t, file(t, "webhook", "deployment.yaml"), "Deployment")[0]
	d.Spec.Template.Spec.Containers[0].Image = "registry.example.com/podgrace/webhook:v0.1.0"
	d.Status = appsv1.DeploymentStatus{Replicas: 2, AvailableReplicas: 2, ReadyReplicas: 2}
	set := read[appsv1.DaemonSet](t, file(t, "nodeenforcer", "daemonset.yaml"), "DaemonSet")[0]
	set.Spec.Template.Spec.Containers[0].Image = "registry.example.com/podgrace/nodeenforcer:v0.1.0"
	set.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, NumberReady: 2}
	quota := read[corev1.ResourceQuota](t, file(t, "webhook", "quota.yaml"), "ResourceQuota")[0]
	add(d, set, quota, read[corev1.ResourceQuota](t, file(t, "nodeenforcer", "quota.yaml"), "ResourceQuota")[0], read[policyv1.PodDisruptionBudget](t, file(t, "webhook", "deployment.yaml"), "PodDisruptionBudget")[0])
	for _, r := range read[rbacv1.Role](t, file(t, "webhook", "rbac.yaml"), "Role") {
		if r.Name == InForce {
			r.Rules = controllers.Asked{Admissions: true, Removals: true, Nodes: true, Guarded: controllers.Closed{All: true}}.Rules()
			add(r)
		}
	}
	for _, b := range read[rbacv1.RoleBinding](t, file(t, "webhook", "rbac.yaml"), "RoleBinding") {
		if b.Name == InForce {
			add(b)
		}
	}
	for _, on := range []string{"node-1", "node-2"} {
		add(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: webhookName + "-" + on, Labels: map[string]string{"app.kubernetes.io/name": webhookName}},
			Spec:       corev1.PodSpec{NodeName: on},
		})
	}
	add(
		namespaceOf(t, "base"), namespaceOf(t, "nodeenforcer"),
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: LeaseName}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: now.Add(-2 * time.Second)}}},
		&v1alpha1.PodPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "stateful"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectStateful}},
			Status: v1alpha1.PodPolicyStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}},
		},
	)
	return s
}
