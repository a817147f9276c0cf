package deploy

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"

	"github.com/podgrace/podgrace/e2e/podgrace"
)

// testPod is what helm test creates.
func testPod(t *testing.T, values ...string) *corev1.Pod {
	t.Helper()
	out, err := helm(t, append([]string{"template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry}, set(values)...)...)
	if err != nil {
		t.Fatal(err)
	}
	return typed[corev1.Pod](t, find(t, objects(t, []byte(out)), "Pod", "podgrace-test"))
}

// The pod of helm test is admitted at the level restricted, gets no review that the Service has for the webhook, and runs the image that the webhook does.
func TestPodOfHelmTest(t *testing.T) {
	pod := testPod(t, "webhook.hostNetwork=true", "images.pullSecrets={one}", "certificates.mode=cert-manager", "webhook.extraArgs={--port=1}")
	if pod.Annotations["helm.sh/hook"] != "test" {
		t.Errorf("annotations %v", pod.Annotations)
	}
	if refused := levels(t, corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}); len(refused) > 0 {
		t.Errorf("refused: %v", refused[api.LevelRestricted])
	}
	d, all := webhookOf(t)
	selector := typed[corev1.Service](t, find(t, all, "Service", "podgrace-webhook")).Spec.Selector
	for label, value := range selector {
		if pod.Labels[label] == value {
			t.Errorf("the Service selects it by %s", label)
		}
	}
	webhook := d.Spec.Template.Spec
	if got := pod.Spec; got.Containers[0].Image != webhook.Containers[0].Image || got.ServiceAccountName != webhook.ServiceAccountName || got.ImagePullSecrets[0].Name != "one" || got.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("got %+v", got)
	}
}

// What that pod runs tells a cluster whose API server reaches the webhook from one in which it does not.
func TestHelmTest(t *testing.T) {
	s := shared.Get(t)
	program, err := podgrace.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context, config string) (string, error) {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, program, append(testPod(t).Spec.Containers[0].Args, "--kubeconfig", config)...)
		cmd.Stderr = &out
		err := cmd.Run()
		return out.String(), err
	}
	account := []string{"system:serviceaccount:" + namespace + ":podgrace-webhook", "system:serviceaccounts", "system:serviceaccounts:" + namespace}
	config, err := s.KubeconfigFor(account[0], account[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := ask(t.Context(), config); err != nil || !strings.Contains(out, "a replica has answered") {
		t.Errorf("it runs: %v %s", err, out)
	}
	config, err = s.KubeconfigFor("system:serviceaccount:"+namespace+":somebody", account[1:]...) // the API server calls nobody about him
	if err != nil {
		t.Fatal(err)
	}
	if out, err := ask(t.Context(), config); err == nil || !strings.Contains(out, "got no answer from any replica") {
		t.Errorf("nobody answers: %v %s", err, out)
	}
}
