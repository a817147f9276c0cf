package deploy

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/pod-security-admission/api"
)

// webhookOf returns the webhook's Deployment as the chart makes it with values.
func webhookOf(t *testing.T, values ...string) (*appsv1.Deployment, []*unstructured.Unstructured) {
	t.Helper()
	all := variant{values: values}.templated(t, namespace)
	return typed[appsv1.Deployment](t, find(t, all, "Deployment", "podgrace-webhook")), all
}

// Wherever the webhook listens, whatever reaches it goes there: Service, probes, PodMonitor, NetworkPolicy.
func TestPorts(t *testing.T) {
	for _, tc := range []struct {
		values []string
		ports  map[string]int32
		args   []string
	}{
		{nil, map[string]int32{"https": 9443, "health": 8081, "metrics": 8080}, nil},
		{[]string{"webhook.ports.https=10250"}, map[string]int32{"https": 10250, "health": 8081, "metrics": 8080}, []string{"--port=10250"}},
		{
			[]string{"webhook.hostNetwork=true", "webhook.ports.https=19443", "webhook.ports.health=19444", "webhook.ports.metrics=19445"},
			map[string]int32{"https": 19443, "health": 19444, "metrics": 19445}, []string{"--port=19443", "--health-port=19444", "--metrics-port=19445"},
		},
	} {
		values := append(slices.Clone(tc.values), "monitoring.enabled=true")
		host := slices.Contains(values, "webhook.hostNetwork=true")
		if !host {
			values = append(values, apiServersOfDocs...)
		}
		d, all := webhookOf(t, values...)
		pod := d.Spec.Template.Spec
		container := pod.Containers[0]
		listens := map[string]int32{}
		for _, port := range container.Ports {
			listens[port.Name] = port.ContainerPort
			if want := map[bool]int32{true: port.ContainerPort}[host]; port.HostPort != want {
				t.Errorf("%v: host port %d, want %d", values, port.HostPort, want)
			}
		}
		if d := cmp.Diff(tc.ports, listens); d != "" {
			t.Errorf("%v: ports: %s", values, d)
		}
		if got := slices.DeleteFunc(slices.Clone(container.Args), func(arg string) bool { return !strings.Contains(arg, "port=") }); !slices.Equal(got, tc.args) {
			t.Errorf("%v: args %q", values, got)
		}
		reached := map[string]string{
			"the Service":    typed[corev1.Service](t, find(t, all, "Service", "podgrace-webhook")).Spec.Ports[0].TargetPort.String(),
			"liveness":       container.LivenessProbe.HTTPGet.Port.String(),
			"readiness":      container.ReadinessProbe.HTTPGet.Port.String(),
			"the PodMonitor": find(t, all, "PodMonitor", "podgrace-webhook").Object["spec"].(map[string]any)["podMetricsEndpoints"].([]any)[0].(map[string]any)["port"].(string),
		}
		if d := cmp.Diff(map[string]string{"the Service": "https", "liveness": "health", "readiness": "health", "the PodMonitor": "metrics"}, reached); d != "" {
			t.Errorf("%v: ports' names: %s", values, d)
		}
		if host {
			continue
		}
		ingress := policyOf(t, all).Spec.Ingress
		if !cmp.Equal(ingress[0].Ports, tcp(tc.ports["https"])) || !cmp.Equal(ingress[1].Ports, tcp(tc.ports["metrics"])) {
			t.Errorf("%v: the NetworkPolicy has %+v", values, ingress)
		}
	}
}

// On its nodes' network the webhook finds services, an update can end where no node is left with free ports, and the namespace's Pod
// Security level is the one that the notes name.
func TestHostNetwork(t *testing.T) {
	d, _ := webhookOf(t)
	if pod := d.Spec.Template.Spec; pod.HostNetwork || pod.DNSPolicy != "" || d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 {
		t.Errorf("by default: %v %q %v", pod.HostNetwork, pod.DNSPolicy, d.Spec.Strategy.RollingUpdate)
	}
	d, _ = webhookOf(t, "webhook.hostNetwork=true")
	if pod := d.Spec.Template.Spec; !pod.HostNetwork || pod.DNSPolicy != corev1.DNSClusterFirstWithHostNet || d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 1 {
		t.Errorf("with hostNetwork: %v %q %v", pod.HostNetwork, pod.DNSPolicy, d.Spec.Strategy.RollingUpdate)
	}
	if refused := levels(t, d.Spec.Template); refused[api.LevelBaseline] == "" || refused[api.LevelPrivileged] != "" {
		t.Errorf("Pod Security: %v", refused)
	}
	d, _ = webhookOf(t, "webhook.hostNetwork=true", "webhook.dnsPolicy=Default")
	if got := d.Spec.Template.Spec.DNSPolicy; got != corev1.DNSDefault {
		t.Errorf("dnsPolicy=Default: got %s", got)
	}
	const level = "pod-security.kubernetes.io/enforce=privileged"
	if text := notes(t, "v4.0.0", nil); strings.Contains(text, level) {
		t.Errorf("the notes:\n%s", text)
	}
	if text := notes(t, "v4.0.0", map[string]any{"webhook": map[string]any{"hostNetwork": true}}); !strings.Contains(text, level) {
		t.Errorf("the notes of a webhook on its nodes' network:\n%s", text)
	}
}

// What could not work is refused with what is wrong with it.
func TestRefusedReach(t *testing.T) {
	for values, want := range map[string]string{
		"webhook.ports.health=8080":                                        "must be three ports",
		"webhook.ports.https=8080,webhook.hostNetwork=true":                "must be three ports",
		"webhook.hostNetwork=true,webhook.ports.https=10250":               "webhook.ports.https: with webhook.hostNetwork port 10250 is the kubelet's",
		enforcing + ",webhook.hostNetwork=true,webhook.ports.health=10346": "webhook.ports.health: with webhook.hostNetwork port 10346",
		"webhook.hostNetwork=true," + strings.Join(apiServersOfDocs, ","):  "a NetworkPolicy does not hold for pods on their node's network",
	} {
		if _, err := helm(t, "template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry, "--set", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", values, err)
		}
	}
}
