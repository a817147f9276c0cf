package fidelity

import (
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// drawPod makes a plain pod as a user or a controller sends it: names, labels, annotations, owners and one container.
func drawPod(s draw.Source) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod", Labels: draw.Labels(s, 9), OwnerReferences: drawOwners(s)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example/app"}}},
	}
	if s.Chance(6) {
		pod.Name, pod.GenerateName = "", "pod-"
	}
	annotate(s, 3, pod, v1alpha1.AnnotationSkip, "priority", "topologySpread", "gracePeriod", "priority, topologySpread,gracePeriod", "nothing", "", ",")
	annotate(s, 3, pod, v1alpha1.AnnotationEnforcement, "{}", `{"oom":{"rank":50}}`, `{"eviction":{"order":50}}`, "", "no JSON")
	annotate(s, 3, pod, "example.org/note", "~1 / \"quoted\"")
	return pod
}

func annotate(s draw.Source, of16 int, pod *corev1.Pod, key string, values ...string) {
	if !s.Chance(of16) {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[key] = draw.Pick(s, values...)
}

// addPriority writes the triple as users do, sometimes against the rules.
func addPriority(s draw.Source, pod *corev1.Pod, bold int) {
	if s.Chance(5) {
		pod.Spec.PriorityClassName = draw.Pick(s, classNames...)
		if s.Rarely() {
			pod.Spec.PriorityClassName = absentClass
		}
	}
	pod.Spec.Priority = draw.Maybe[int32](s, bold, 0, 1000)
	pod.Spec.PreemptionPolicy = draw.Maybe(s, bold, corev1.PreemptLowerPriority, corev1.PreemptNever)
}

// enrich gives the pod everything that touches what Podgrace changes, and what the API server's validation compares with
// that. Most of it is valid.
func enrich(s draw.Source, pod *corev1.Pod) {
	spec := &pod.Spec
	spec.TerminationGracePeriodSeconds = draw.Maybe[int64](s, 11, 30, 30, 0, 0, 0, 1, 5, 20, 29, 31, 60, 120, 3600, 604800, 700000, -7)
	grace := int64(30)
	if g := spec.TerminationGracePeriodSeconds; g != nil {
		grace = max(*g, 0)
	}
	spec.RestartPolicy = draw.Pick(s, "", corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	addContainer(s, &spec.Containers[0], grace, true)
	if s.Chance(4) {
		spec.Containers = append(spec.Containers, corev1.Container{Name: "proxy", Image: "example/proxy"})
		addContainer(s, &spec.Containers[1], grace, true)
	}
	for i := range s.Below(3) * s.Bits(1) {
		c := corev1.Container{Name: fmt.Sprintf("init%d", i), Image: "example/init"}
		sidecar := s.Chance(9)
		if sidecar {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		addContainer(s, &c, grace, sidecar)
		spec.InitContainers = append(spec.InitContainers, c)
	}
	addVolumes(s, spec)
	addPlacement(s, spec)
	if s.Chance(2) {
		addOwnSpread(s, spec)
	}
	addPriority(s, pod, 1)
	if s.Chance(1) {
		annotate(s, 16, pod, corev1.MirrorPodAnnotationKey, "8f0c")
	}
}

// addContainer adds hooks and probes; an init container that is no sidecar may have none.
func addContainer(s draw.Source, c *corev1.Container, grace int64, longRunning bool) {
	if s.Chance(5) {
		quantities := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
		c.Resources.Requests = quantities
		if s.Chance(8) {
			c.Resources.Limits = quantities
		}
	}
	if !longRunning && !s.Rarely() {
		return
	}
	if s.Chance(7) {
		c.Lifecycle = &corev1.Lifecycle{PreStop: drawHook(s, grace)}
	}
	if s.Chance(2) {
		if c.Lifecycle == nil {
			c.Lifecycle = &corev1.Lifecycle{}
		}
		c.Lifecycle.PostStart = drawHook(s, grace)
	}
	if s.Chance(3) {
		c.LivenessProbe = drawProbe(s, true)
	}
	if s.Chance(2) {
		c.StartupProbe = drawProbe(s, true)
	}
	if s.Chance(2) {
		c.ReadinessProbe = drawProbe(s, s.Rarely())
	}
}

func drawHook(s draw.Source, grace int64) *corev1.LifecycleHandler {
	seconds := draw.Pick[int64](s, 5, 1, 10, 20, 25, 30, 60, 0, 604800, 604801)
	if s.Chance(12) {
		seconds = min(seconds, grace) // as the API server wants it
	}
	switch s.Below(8) {
	case 0:
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sleep", fmt.Sprint(seconds)}}}
	case 1:
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", fmt.Sprintf("exec sleep %ds", seconds)}}}
	case 2:
		return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/stop", Port: intstr.FromInt32(8080)}}
	case 3:
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"drain"}}}
	}
	return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}
}

func drawProbe(s draw.Source, withGrace bool) *corev1.Probe {
	p := &corev1.Probe{ProbeHandler: draw.Pick(s,
		corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}},
		corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}},
		corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}})}
	if withGrace {
		p.TerminationGracePeriodSeconds = draw.Maybe[int64](s, 7, 60, 5, 30, 3600)
	}
	return p
}

var claims = policy.Claims{
	"once":  {Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
	"many":  {Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}},
	"empty": {},
}

func addVolumes(s draw.Source, spec *corev1.PodSpec) {
	for _, name := range draw.Some(s, 2, "once", "many", "unknown") {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	if s.Chance(1) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
		}}}})
	}
}

func addPlacement(s draw.Source, spec *corev1.PodSpec) {
	if s.Chance(4) {
		draw.AddNodeAffinity(s, spec)
	}
	spec.Tolerations = draw.Tolerations(s)
	if s.Chance(2) {
		term := corev1.PodAffinityTerm{TopologyKey: draw.Pick(s, draw.TopologyKeys...), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}, MatchLabelKeys: draw.Some(s, 6, draw.RevisionKey)}
		if spec.Affinity == nil {
			spec.Affinity = &corev1.Affinity{}
		}
		spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
	}
	switch s.Below(16) {
	case 15:
		spec.NodeName = "n0"
	case 14:
		spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.org/wait"}}
	case 13:
		spec.OS = &corev1.PodOS{Name: draw.Pick(s, corev1.Linux, corev1.Windows)}
	case 12:
		spec.HostNetwork = true
	}
}

func addOwnSpread(s draw.Source, spec *corev1.PodSpec) {
	c := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: draw.Pick(s, draw.TopologyKeys...), WhenUnsatisfiable: draw.Pick(s, corev1.ScheduleAnyway, corev1.DoNotSchedule)}
	if s.Chance(12) {
		c.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
		c.MatchLabelKeys = draw.Some(s, 6, draw.RevisionKey)
	}
	spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, c)
}

// request is a pod at the webhook.
func request(pod *corev1.Pod, user authenticationv1.UserInfo) policy.Request {
	return policy.Request{Pod: pod, Namespace: policy.Namespace{Name: namespace, Labels: map[string]string{"team": "a"}}, User: user}
}
