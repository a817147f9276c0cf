package plan_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// What a PodPolicy's status foretells is what is planned: of a pod on which nothing else bears, each field comes to what enforcement.Under says of it.
func TestPlanIsAsForetold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		protections := rapid.SampledFrom([]v1alpha1.MemoryProtection{v1alpha1.MemoryProtectionNone, v1alpha1.MemoryProtectionLow, v1alpha1.MemoryProtectionMin})
		e := &v1alpha1.Enforcement{
			Memory: &v1alpha1.MemoryEnforcement{Protection: protections.Draw(t, "protection")},
			CPU:    &v1alpha1.WeightEnforcement{Weight: rapid.Int32Range(1, 10000).Draw(t, "cpu")},
			IO:     &v1alpha1.WeightEnforcement{Weight: rapid.Int32Range(1, 10000).Draw(t, "io")},
		}
		policy := &v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune}
		if rapid.Bool().Draw(t, "bounded") {
			policy.Bounds = &v1alpha1.EnforcementBounds{
				MaxProtection: protections.Draw(t, "maxProtection"), MaxProtectedMemoryPercent: new(rapid.SampledFrom([]int32{0, 80}).Draw(t, "maxProtectedMemoryPercent")),
				MaxCPUWeight: new(rapid.Int32Range(1, 10000).Draw(t, "maxCPUWeight")), MaxIOWeight: new(rapid.Int32Range(1, 10000).Draw(t, "maxIOWeight")),
			}
		}
		text := fmt.Sprintf(`{"memory":{"protection":%q},"cpu":{"weight":%d},"io":{"weight":%d}}`, e.Memory.Protection, e.CPU.Weight, e.IO.Weight)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid", Annotations: map[string]string{v1alpha1.AnnotationEnforcement: text}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi"), corev1.ResourceCPU: resource.MustParse("100m")},
			}}}},
		}
		tree := plan.Build(plan.Node{Version: cgroupfile.V2, Driver: plan.Systemd, Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourceCPU: resource.MustParse("4")}}, policy, []*corev1.Pod{pod})
		var files map[string]plan.Value
		for _, g := range tree.Groups {
			if g.Level == plan.LevelPod {
				files = g.Files
			}
		}
		const request = "67108864"
		for _, o := range enforcement.Under(e, policy) {
			want := map[string]string{}
			switch o.Field {
			case "memory.protection":
				want = map[string]string{"memory.low": "0", "memory.min": "0"}
				switch v1alpha1.MemoryProtection(o.Got) {
				case v1alpha1.MemoryProtectionLow:
					want["memory.low"] = request
				case v1alpha1.MemoryProtectionMin:
					want["memory.min"] = request
				case v1alpha1.MemoryProtectionNone:
				}
			case "cpu.weight":
				want["cpu.weight"] = o.Got
			case "io.weight":
				want["io.weight"] = "default " + o.Got
			}
			for file, value := range want {
				if have := files[file].Want; have != value {
					t.Fatalf("%s: %+v is foretold, and %s is planned as %q, not %q", text, o, file, have, value)
				}
			}
		}
	})
}
