package apiserver

import (
	_ "crypto/sha256" // without which a reference with a digest can't be read, as pkg/util/parsers has them
	_ "crypto/sha512"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
)

// defaultPod sets what a pod has beyond a template's defaults, and then these.
func defaultPod(pod *corev1.Pod) {
	spec := &pod.Spec
	requestsFromLimits(spec.Containers)
	requestsFromLimits(spec.InitContainers)
	defaultPodResources(pod)
	unset(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if spec.HostNetwork {
		hostPorts(spec.Containers)
		hostPorts(spec.InitContainers)
	}
	defaultPodSpec(spec)
	roundUpStatus(&pod.Status)
}

// defaultPodSpec sets what both a pod and a pod template get.
func defaultPodSpec(spec *corev1.PodSpec) {
	zero(&spec.DNSPolicy, corev1.DNSClusterFirst)
	zero(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	unset(&spec.SecurityContext, corev1.PodSecurityContext{})
	unset(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	zero(&spec.SchedulerName, corev1.DefaultSchedulerName)
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		defaultContainer((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	roundUp(spec.Overhead)
	if spec.Resources != nil {
		roundUp(spec.Resources.Limits)
		roundUp(spec.Resources.Requests)
	}
}

func defaultContainer(c *corev1.Container) {
	zero(&c.ImagePullPolicy, pullPolicy(c.Image))
	zero(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	zero(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		zero(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		defaultEnv(c.Env[i].ValueFrom)
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	defaultProbe(c.LivenessProbe)
	defaultProbe(c.ReadinessProbe)
	defaultProbe(c.StartupProbe)
	if c.Lifecycle != nil {
		defaultHook(c.Lifecycle.PostStart)
		defaultHook(c.Lifecycle.PreStop)
	}
}

func defaultEnv(from *corev1.EnvVarSource) {
	if from == nil {
		return
	}
	defaultFieldRef(from.FieldRef)
	if from.FileKeyRef != nil {
		unset(&from.FileKeyRef.Optional, false)
	}
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		zero(&ref.APIVersion, "v1")
	}
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	zero(&p.TimeoutSeconds, 1)
	zero(&p.PeriodSeconds, 10)
	zero(&p.SuccessThreshold, 1)
	zero(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		unset(&p.GRPC.Service, "")
	}
}

func defaultHook(h *corev1.LifecycleHandler) {
	if h != nil {
		defaultHTTPGet(h.HTTPGet)
	}
}

func defaultHTTPGet(get *corev1.HTTPGetAction) {
	if get != nil {
		zero(&get.Path, "/")
		zero(&get.Scheme, corev1.URISchemeHTTP)
	}
}

// hostPorts: a container in the node's network has its ports there.
func hostPorts(containers []corev1.Container) {
	for _, c := range containers {
		for i := range c.Ports {
			zero(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
}

// pullPolicy is Always where the image's tag is latest or left out (SetDefaults_Container, 1.36.3). A reference that can't
// be read has no tag.
func pullPolicy(image string) corev1.PullPolicy {
	if tag(image) == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// tag is the tag of an image: latest where there is neither tag nor digest, and empty where there is a digest only or the
// reference can't be read (pkg/util/parsers ParseImageName, 1.36.3).
func tag(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ""
	}
	if tagged, ok := reference.TagNameOnly(named).(reference.Tagged); ok {
		return tagged.Tag()
	}
	return ""
}
