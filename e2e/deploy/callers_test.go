package deploy

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// policyOf is the one NetworkPolicy, which nobody has without asking for it.
func policyOf(t *testing.T, all []*unstructured.Unstructured) *networkingv1.NetworkPolicy {
	t.Helper()
	return typed[networkingv1.NetworkPolicy](t, find(t, all, "NetworkPolicy", "podgrace-webhook"))
}

func tcp(port int32) []networkingv1.NetworkPolicyPort {
	return []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(port))}}
}

func namespaced(name string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}}
}

// The values that docs/install.md shows let in whom they say, to the webhook's pods and by no other port; an empty list is nobody, and not
// everybody.
func TestNetworkPolicy(t *testing.T) {
	text, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, values, found := strings.Cut(string(text), "```yaml\nnetworkPolicy:\n")
	if !found {
		t.Fatal("docs/install.md has no values of the NetworkPolicy")
	}
	values, _, _ = strings.Cut("networkPolicy:\n"+values, "```")
	file := t.TempDir() + "/values.yaml"
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	render := func(args ...string) []*unstructured.Unstructured {
		t.Helper()
		out, err := helm(t, append([]string{"template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return objects(t, []byte(out))
	}
	apiServers := networkingv1.NetworkPolicyIngressRule{Ports: tcp(9443), From: []networkingv1.NetworkPolicyPeer{
		{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.10/32"}}, {IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.11/32"}},
	}}
	all := render("--values", file)
	policy := policyOf(t, all)
	want := networkingv1.NetworkPolicySpec{
		PodSelector: *typed[appsv1.Deployment](t, find(t, all, "Deployment", "podgrace-webhook")).Spec.Selector,
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{apiServers, {Ports: tcp(8080), From: []networkingv1.NetworkPolicyPeer{namespaced("monitoring")}}},
	}
	if d := cmp.Diff(want, policy.Spec); d != "" {
		t.Error(d)
	}
	if got := policyOf(t, render("--values", file, "--set-json", "networkPolicy.prometheus=[]")).Spec.Ingress; !cmp.Equal(got, want.Ingress[:1]) {
		t.Errorf("without Prometheus: %+v", got)
	}
	for _, o := range render() {
		if o.GetKind() == "NetworkPolicy" {
			t.Error("it is there unasked")
		}
	}
}

// Until somebody says where API servers call from, the component is no NetworkPolicy that the API server takes: one that lets
// nobody in would cut the webhook off.
func TestNetworkPolicyWantsAPatch(t *testing.T) {
	s := shared.Get(t)
	for _, o := range readFiles(t, manifests+"/components/network-policy/networkpolicy.yaml") {
		err := s.Client.Create(t.Context(), o, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), `spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "WHERE-API-SERVERS-CALL-FROM"`) {
			t.Errorf("got %v", err)
		}
	}
}

// The flag's file is in what is mounted, whichever the values name, beside the serving certificate where that is mounted too.
func TestClientCAIsMounted(t *testing.T) {
	for _, tc := range []struct {
		values []string
		args   []string
		source corev1.VolumeSource
	}{
		{
			[]string{"webhook.clientCA.configMap=ca"},
			[]string{"--cert-mode=self-managed", "--client-ca-file=/client-ca/ca.crt"},
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "ca"}}},
		},
		{
			[]string{"webhook.clientCA.secret=ca", "webhook.clientCA.key=tls.crt", "webhook.clientCA.allowedNames={a,b.example.com}", "webhook.verbosity=2"},
			[]string{"--cert-mode=self-managed", "--client-ca-file=/client-ca/tls.crt", "--client-allowed-names=a,b.example.com", "--v=2"},
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "ca"}},
		},
		{
			[]string{"webhook.clientCA.secret=ca", "certificates.mode=cert-manager"},
			[]string{"--cert-mode=files", "--cert-dir=/tls", "--client-ca-file=/client-ca/ca.crt"},
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "ca"}},
		},
	} {
		pod := typed[appsv1.Deployment](t, find(t, variant{values: tc.values}.templated(t, namespace), "Deployment", "podgrace-webhook")).Spec.Template.Spec
		if d := cmp.Diff(tc.args, pod.Containers[0].Args); d != "" {
			t.Errorf("%v: %s", tc.values, d)
		}
		mount := corev1.VolumeMount{Name: "client-ca", MountPath: "/client-ca", ReadOnly: true}
		if !slices.Contains(pod.Containers[0].VolumeMounts, mount) || len(pod.Containers[0].VolumeMounts) != len(pod.Volumes) {
			t.Errorf("%v: mounts %v of %v", tc.values, pod.Containers[0].VolumeMounts, pod.Volumes)
		}
		at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "client-ca" })
		if at < 0 || !cmp.Equal(pod.Volumes[at].VolumeSource, tc.source) {
			t.Errorf("%v: volumes %v", tc.values, pod.Volumes)
		}
	}
}
