package apiserver

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

func gives(g v1alpha1.GracePeriodSection) v1alpha1.PodPolicySpec {
	return v1alpha1.PodPolicySpec{GracePeriod: &g, AllowSkip: []v1alpha1.Section{v1alpha1.SectionGracePeriod}}
}

// The API server writes 30 where nothing was chosen.
func TestThirtyCountsAsUnset(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, gives(v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45)), MinSeconds: new(int64(10)), MaxSeconds: new(int64(300))}))
	for name, tc := range map[string]struct {
		change  func(*corev1.Pod)
		want    int64
		warning string
	}{
		"nothing": {func(*corev1.Pod) {}, 45, ""},
		"30":      {grace(30), 45, ""},
		"30, skipped": {func(p *corev1.Pod) {
			grace(30)(p)
			p.Annotations = map[string]string{v1alpha1.AnnotationSkip: "gracePeriod"}
		}, 30, ""},
		"between":           {grace(60), 60, ""},
		"below the minimum": {grace(3), 10, "is now 10, not 3"},
		"above the maximum": {grace(4000), 300, "is now 300, not 4000"},
		"negative":          {grace(-7), 10, "is now 10, not 1"},
	} {
		t.Run(name, func(t *testing.T) {
			p, warnings := mustCreate(t, s, newPod(ns, tc.change))
			if got := *p.Spec.TerminationGracePeriodSeconds; got != tc.want {
				t.Errorf("got %d s, want %d s", got, tc.want)
			}
			if tc.warning != "" {
				wantWarning(t, warnings, tc.warning)
			} else if len(warnings) > 0 {
				t.Errorf("unexpected warnings %q", warnings)
			}
			if err := s.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A failed probe stops its container with the probe's own grace period, if it has one: the limits hold for that too. Of a probe without
// one the API server writes nothing.
func TestGraceOfProbes(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, gives(v1alpha1.GracePeriodSection{MinSeconds: new(int64(10)), MaxSeconds: new(int64(60)), PreStopMarginSeconds: new(int64(5))}))
	probe := func(seconds int64) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}, TerminationGracePeriodSeconds: &seconds}
	}
	p, warnings := mustCreate(t, s, newPod(ns, func(p *corev1.Pod) {
		main := &p.Spec.Containers[0]
		main.LivenessProbe, main.StartupProbe = probe(3), probe(600)
		plain := probe(1)
		plain.TerminationGracePeriodSeconds = nil
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "plain", Image: main.Image, LivenessProbe: plain})
		p.Spec.InitContainers = []corev1.Container{{
			Name: "mesh", Image: main.Image, RestartPolicy: new(corev1.ContainerRestartPolicyAlways), LivenessProbe: probe(12),
			Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 20}}},
		}}
	}))
	wantWarning(t, warnings, "terminationGracePeriodSeconds of livenessProbe of container mesh is now 25, not 12: ")
	wantWarning(t, warnings, "; and 2 other probes' likewise")
	main := p.Spec.Containers[0]
	for what, tc := range map[string]struct {
		probe *corev1.Probe
		want  int64
	}{"liveness": {main.LivenessProbe, 10}, "startup": {main.StartupProbe, 60}, "sidecar": {p.Spec.InitContainers[0].LivenessProbe, 25}} {
		if got := *tc.probe.TerminationGracePeriodSeconds; got != tc.want {
			t.Errorf("%s: got %d s, want %d s", what, got, tc.want)
		}
	}
	if got := p.Spec.Containers[1].LivenessProbe.TerminationGracePeriodSeconds; got != nil {
		t.Errorf("a probe without a grace period of its own got %d s", *got)
	}
}

// The API server refuses a preStop sleep that is longer than the grace period, but only after the webhooks.
func TestPreStopLongerThanGrace(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	if err := s.Client.Create(t.Context(), newPod(ns, sleeps(0, 60)), client.DryRunAll); err == nil {
		t.Fatal("without a policy the API server should refuse the pod")
	}
	s.Policy(t, ns, gives(v1alpha1.GracePeriodSection{PreStopMarginSeconds: new(int64(5))}))
	p, warnings := mustCreate(t, s, newPod(ns, sleeps(0, 60)))
	if got := *p.Spec.TerminationGracePeriodSeconds; got != 65 {
		t.Errorf("got %d s, want 65 s", got)
	}
	wantWarning(t, warnings, "preStop of container main takes 60 s plus a margin of 5 s")
}

func TestPreStopLongerThanTheMaximum(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, gives(v1alpha1.GracePeriodSection{MaxSeconds: new(int64(20)), PreStopMarginSeconds: new(int64(5))}))
	err := s.Client.Create(t.Context(), newPod(ns, sleeps(0, 60), grace(90)))
	if err == nil || !strings.Contains(err.Error(), "preStop of container main sleeps 60 s") || !strings.Contains(err.Error(), "Shorten the sleep") {
		t.Errorf("want a refusal that says what to do, got %v", err)
	}
}

// A ReadWriteMany block device is exclusive where the policy says so: the webhook sees the volume mode of a claim.
func TestZeroGraceWithABlockDevice(t *testing.T) {
	s := shared.Get(t)
	for setting, want := range map[v1alpha1.BlockClaims]int64{v1alpha1.BlockClaimsExclusive: 30, "": 0} {
		ns := s.Namespace(t)
		s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{BlockClaims: setting}})
		s.Create(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "disk"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, VolumeMode: new(corev1.PersistentVolumeBlock),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}})
		p := newPod(ns, grace(0), func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}}}}
		})
		if err := s.Client.Create(t.Context(), p, client.DryRunAll); err != nil || *p.Spec.TerminationGracePeriodSeconds != want {
			t.Errorf("blockClaims %q: grace %v, %v; want %d", setting, *p.Spec.TerminationGracePeriodSeconds, err, want)
		}
	}
}

// With 0 every plain delete of the pod would be a force delete.
func TestZeroGraceOfAProtectedPod(t *testing.T) {
	s := shared.Get(t)
	for action, check := range map[v1alpha1.ZeroGraceAction]func(*testing.T, *corev1.Pod, []string, error){
		v1alpha1.ZeroGraceRaise: func(t *testing.T, p *corev1.Pod, warnings []string, err error) {
			if err != nil || *p.Spec.TerminationGracePeriodSeconds != 30 {
				t.Errorf("got %v s, %v; want 30 s", p.Spec.TerminationGracePeriodSeconds, err)
			}
			wantWarning(t, warnings, "is now 30, not 0")
		},
		v1alpha1.ZeroGraceDeny: func(t *testing.T, _ *corev1.Pod, _ []string, err error) {
			if err == nil || !strings.Contains(err.Error(), "terminationGracePeriodSeconds is 0") {
				t.Errorf("want a refusal, got %v", err)
			}
		},
		// Both webhooks say it, in the same words, and the API server passes it on once.
		v1alpha1.ZeroGraceWarn: func(t *testing.T, p *corev1.Pod, warnings []string, err error) {
			if err != nil || *p.Spec.TerminationGracePeriodSeconds != 0 {
				t.Errorf("got %v s, %v; want 0", p.Spec.TerminationGracePeriodSeconds, err)
			}
			if len(warnings) != 1 || !strings.Contains(warnings[0], "terminationGracePeriodSeconds is 0, so every delete of the pod is a force delete") {
				t.Errorf("warnings %q", warnings)
			}
		},
	} {
		t.Run(string(action), func(t *testing.T) {
			ns := s.Namespace(t)
			s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{Protect: v1alpha1.ProtectAll, ZeroGrace: action}})
			p := newPod(ns, grace(0))
			kube, warnings := s.Warned(t, "")
			err := kube.Create(t.Context(), p, client.DryRunAll)
			check(t, p, warnings.Take(), err)
		})
	}
}
