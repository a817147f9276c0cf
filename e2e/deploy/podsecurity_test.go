package deploy

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// levels evaluates a pod template by Kubernetes' own code, and returns the levels that admit it.
func levels(t *testing.T, template corev1.PodTemplateSpec) map[api.Level]string {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	refusals := map[api.Level]string{}
	for _, level := range []api.Level{api.LevelPrivileged, api.LevelBaseline, api.LevelRestricted} {
		result := policy.AggregateCheckResults(evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &template.ObjectMeta, &template.Spec))
		if !result.Allowed {
			refusals[level] = result.ForbiddenDetail()
		}
	}
	return refusals
}

func typed[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, into, true); err != nil {
		t.Fatalf("%s: %v", key(o), err)
	}
	return into
}

// Pods of podgrace-system keep the Pod Security level restricted in every variant, and the namespace enforces it. Only the node enforcer needs privileged, and has a namespace of its own at that
// level. Without it nothing is root and nothing of the host is mounted.
func TestPodSecurity(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			all := v.kustomized(t)
			enforced := map[string]string{}
			for _, o := range all {
				if o.GetKind() == "Namespace" {
					enforced[o.GetName()] = o.GetLabels()["pod-security.kubernetes.io/enforce"]
				}
			}
			want := map[string]string{namespace: string(api.LevelRestricted)}
			if slices.ContainsFunc(v.components, func(c string) bool { return strings.HasPrefix(c, "nodeenforcer") }) {
				want[nodeNamespace] = string(api.LevelPrivileged)
			}
			delete(enforced, "podgrace-fencing") // for Secrets alone
			if d := cmp.Diff(want, enforced); d != "" {
				t.Errorf("namespaces by the level that they enforce: %s", d)
			}
			for _, o := range slices.Concat(all, v.templated(t, namespace)) {
				switch o.GetKind() {
				case "Deployment":
					if refusals := levels(t, typed[appsv1.Deployment](t, o).Spec.Template); len(refusals) > 0 || o.GetNamespace() != namespace {
						t.Errorf("%s: %v", key(o), refusals)
					}
				case "DaemonSet":
					if refusals := levels(t, typed[appsv1.DaemonSet](t, o).Spec.Template); refusals[api.LevelBaseline] == "" || o.GetNamespace() != nodeNamespace || want[nodeNamespace] == "" {
						t.Errorf("%s: is it admitted by baseline? %v", key(o), refusals)
					}
				}
			}
		})
	}
}

// Webhook, fencer and volume lock run as their image's user, which is not root, and name none: OpenShift gives each namespace a range of its own, and
// refuses others.
func TestNoFixedUser(t *testing.T) {
	all := variant{overlay: "selfmanaged", components: []string{"fencer", "volumelock"}}.kustomized(t)
	for _, name := range []string{"podgrace-webhook", "podgrace-fencer", "podgrace-volumelock"} {
		pod := typed[appsv1.Deployment](t, find(t, all, "Deployment", name)).Spec.Template.Spec
		for _, user := range []*int64{pod.SecurityContext.RunAsUser, pod.SecurityContext.RunAsGroup, pod.SecurityContext.FSGroup, pod.Containers[0].SecurityContext.RunAsUser, pod.Containers[0].SecurityContext.RunAsGroup} {
			if user != nil {
				t.Errorf("%s has a user or group of its own: %d", name, *user)
			}
		}
		if !*pod.SecurityContext.RunAsNonRoot {
			t.Errorf("%s may be root", name)
		}
	}
	dockerfile, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	// By its number: the kubelet can't tell whether a name is root's, and starts no such container.
	for _, target := range []string{"webhook", "fencer", "volumelock", "fencer-agents"} {
		_, stage, _ := strings.Cut(string(dockerfile), " AS "+target+"\n")
		stage, _, _ = strings.Cut(stage, "\nFROM ")
		if !strings.Contains(stage, "\nUSER 65532:65532\n") {
			t.Errorf("the image %s has no user by number:\n%s", target, stage)
		}
	}
}

// The evaluation is one that refuses.
func TestLevelsRefuse(t *testing.T) {
	got := levels(t, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{HostPID: true, Containers: []corev1.Container{{Name: "c"}}}})
	if got[api.LevelBaseline] == "" || got[api.LevelRestricted] == "" || got[api.LevelPrivileged] != "" {
		t.Errorf("got %v", got)
	}
}

// What a webhook needs not to be missed: two replicas that are kept apart, none of which is taken away before another has come.
func TestWebhookIsNotMissed(t *testing.T) {
	d := typed[appsv1.Deployment](t, find(t, variants[0].kustomized(t), "Deployment", "podgrace-webhook"))
	pod := d.Spec.Template.Spec
	container := pod.Containers[0]
	if *d.Spec.Replicas < 2 || d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 || d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue() < 1 {
		t.Errorf("replicas %d, strategy %v", *d.Spec.Replicas, d.Spec.Strategy.RollingUpdate)
	}
	if pod.PriorityClassName != "system-cluster-critical" || len(pod.TopologySpreadConstraints) != 2 {
		t.Errorf("class %s, spread %v", pod.PriorityClassName, pod.TopologySpreadConstraints)
	}
	// --shutdown-delay, and then the program takes up to 30 s for what is under way (controller-runtime's GracefulShutdownTimeout). A hook before it would use up the time in which
	// API servers are asked to close their connections.
	if container.Lifecycle != nil || *pod.TerminationGracePeriodSeconds < 30+30 {
		t.Errorf("lifecycle %v, %d s", container.Lifecycle, *pod.TerminationGracePeriodSeconds)
	}
	if container.ReadinessProbe != nil && container.ReadinessProbe.TimeoutSeconds < 5 {
		t.Errorf("on a node without CPU to spare no replica would be asked: %v", container.ReadinessProbe)
	}
	if container.LivenessProbe == nil || container.ReadinessProbe == nil || container.Resources.Requests == nil || container.Resources.Limits.Memory().IsZero() {
		t.Error("probes or resources are missing")
	}
	if !*container.SecurityContext.ReadOnlyRootFilesystem {
		t.Error("the root can be written")
	}
}
