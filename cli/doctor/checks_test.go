package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/deploy"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/enforcement"
	"github.com/podgrace/podgrace/volumelock"
	"github.com/podgrace/podgrace/webhook/controllers"
)

func karpenter() *appsv1.Deployment {
	return deployment("karpenter", "karpenter", "public.ecr.aws/karpenter/controller:1.8.1@sha256:0")
}

func deployment(namespace, name, image string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		ServiceAccountName: name, Containers: []corev1.Container{{Name: "main", Image: image}},
	}}}}
}

func daemonSet(name string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2}}
}

// change is what is wrong with a cluster in which all was well.
type change func(*Snapshot)

func server(version string) change { return func(s *Snapshot) { s.Server = version } }

func nodes(f func(*corev1.Node)) change {
	return func(s *Snapshot) {
		for i := range s.Nodes {
			f(&s.Nodes[i])
		}
	}
}

func osImage(name string) change {
	return nodes(func(n *corev1.Node) { n.Status.NodeInfo.OSImage = name })
}

func labelNodes(key, value string) change {
	return nodes(func(n *corev1.Node) { n.Labels[key] = value })
}

func group(name string) change { return func(s *Snapshot) { s.Groups = append(s.Groups, name) } }

func has(object runtime.Object) change { return func(s *Snapshot) { s.Add(object) } }

// locks installs the volume lock with flags, and its policies for the drivers that these name.
func locks(flags ...string) change {
	return func(s *Snapshot) {
		d := deployment(DefaultNamespace, volumeLockName, "x")
		d.Spec.Template.Spec.Containers[0].Args, d.Status.AvailableReplicas = flags, 1
		s.Add(d)
		for _, document := range documents(deploy.VolumeLockPolicies, DefaultNamespace) {
			var p admissionregistrationv1.ValidatingAdmissionPolicy
			var b admissionregistrationv1.ValidatingAdmissionPolicyBinding
			if yaml.Unmarshal(document, &p) == nil && p.Kind == "ValidatingAdmissionPolicy" {
				renderGated(&p, gatedDrivers(d))
				s.Add(&p)
			} else if yaml.Unmarshal(document, &b) == nil {
				s.Add(&b)
			}
		}
	}
}

// undefined takes the definitions of these kinds away.
func undefined(kinds ...string) change {
	return func(s *Snapshot) {
		s.CRDs = slices.DeleteFunc(s.CRDs, func(c apiextensionsv1.CustomResourceDefinition) bool {
			return slices.Contains(kinds, c.Spec.Names.Plural)
		})
	}
}

// held has a node hold a volume of a driver.
func held(driver string) change {
	return func(s *Snapshot) { s.Add(&v1alpha1.VolumeLock{Spec: v1alpha1.VolumeLockSpec{Driver: driver}}) }
}

// gate has kubelets wait for nfs.csi.k8s.io, or not, and it be adopted.
func gate(waits bool) change {
	return csiDriver("nfs.csi.k8s.io", waits, volumelock.AdoptedMark("u"))
}

func csiDriver(name string, waits bool, mark string) change {
	return func(s *Snapshot) {
		s.Add(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", Annotations: map[string]string{v1alpha1.AnnotationGated: mark}}, Spec: storagev1.CSIDriverSpec{AttachRequired: &waits}})
	}
}

// attacher is a Deployment with an external-attacher of a driver.
func attacher(driver string) *appsv1.Deployment {
	d := deployment("csi", driver, "registry.k8s.io/sig-storage/csi-attacher:v4.10.0")
	d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "driver", Args: []string{"--drivername=" + driver}})
	return d
}

func kubelet(c kubeletconfigv1beta1.KubeletConfiguration) change {
	return func(s *Snapshot) {
		delete(s.Unread, Kubelets)
		s.Kubelets = map[string]*kubeletconfigv1beta1.KubeletConfiguration{"node-1": &c, "node-2": &c}
	}
}

func policySpec(spec v1alpha1.PodPolicySpec) change {
	return func(s *Snapshot) {
		s.PodPolicies = append(s.PodPolicies, v1alpha1.PodPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: spec,
			Status: v1alpha1.PodPolicyStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}},
		})
	}
}

// hostNetwork has the webhook on its nodes' network.
func hostNetwork(s *Snapshot) { s.webhook().Spec.Template.Spec.HostNetwork = true }

// earlierEnforcer has the node enforcer where an earlier version installed it.
func earlierEnforcer(s *Snapshot) { s.enforcer().Namespace = DefaultNamespace }

func noEnforcer(s *Snapshot) {
	s.DaemonSets = slices.DeleteFunc(s.DaemonSets, func(d appsv1.DaemonSet) bool { return d.Name == enforcerName })
}

// leftOnNodes is what an enforcer writes into its Node.
var leftOnNodes = nodes(func(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: enforcement.TaintPressure, Value: "memory", Effect: corev1.TaintEffectNoSchedule})
	for _, kind := range enforcement.NodeConditions {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: enforcement.ReasonObserveOnly})
	}
})

func container(s *Snapshot) *corev1.Container {
	return &s.Deployments[0].Spec.Template.Spec.Containers[0]
}

// excludes has the API server leave out more namespaces, as the chart does, and the webhook if it is told as well.
func excludes(told bool, patterns ...string) change {
	return func(s *Snapshot) {
		exempt, err := policy.ExemptIn(s.OwnNamespace).Excluding(patterns...)
		if err != nil {
			panic(err)
		}
		controllers.RenderExempt(&s.Mutating[0], exempt)
		controllers.RenderExempt(&s.Validating[0], exempt)
		for i := range s.AdmissionPolicies {
			controllers.RenderExempt(&s.AdmissionPolicies[i], exempt)
		}
		if told {
			container(s).Args = append(container(s).Args, "--exclude-namespaces="+strings.Join(patterns, ","))
		}
	}
}

// The entries that hold limits, and which conditions they have where limits fail closed (webhook/controllers holds those against chart and component).
const (
	podLimits      = "pods.validate.podgrace.dev"
	podGroupLimits = "pod-groups.validate.podgrace.dev"
)

// failClosed has an entry do so, with these match conditions.
func failClosed(name string, conditions ...string) change {
	return validating(name, func(w *admissionregistrationv1.ValidatingWebhook) {
		w.FailurePolicy = new(admissionregistrationv1.Fail)
		for _, c := range controllers.LimitsClosed(podLimits, DefaultNamespace) {
			if slices.Contains(conditions, c.Name) {
				w.MatchConditions = append(w.MatchConditions, c)
			}
		}
		if len(conditions) > 0 {
			w.MatchConditions = slices.DeleteFunc(w.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool { return c.Name == controllers.InForceCondition })
		}
	})
}

// armLimits is what the leader does.
func armLimits(s *Snapshot) {
	s.Roles[0].Rules = controllers.Asked{Admissions: true, Limits: true}.Rules()
}

// wait sets the timeout of those that validate.
func wait(seconds int32) change {
	return func(s *Snapshot) {
		for i := range s.Validating[0].Webhooks {
			if !waitsLess(s.Validating[0].Webhooks[i].Name) {
				s.Validating[0].Webhooks[i].TimeoutSeconds = &seconds
			}
		}
	}
}

func gone(s *Snapshot) { // a namespace that was deleted
	s.Deployments, s.Pods, s.Budgets, s.Quotas, s.Leases, s.Roles, s.RoleBindings, s.Namespace = nil, nil, nil, nil, nil, nil, nil, nil
	noEnforcer(s)
}

// validating changes one webhook of the guard.
func validating(name string, f func(*admissionregistrationv1.ValidatingWebhook)) change {
	return func(s *Snapshot) {
		for i := range s.Validating[0].Webhooks {
			if w := &s.Validating[0].Webhooks[i]; w.Name == name {
				f(w)
			}
		}
	}
}

const nodeRoad = "node.removal.podgrace.dev"

// Each check, with what it is about and with what is like that and is fine. A finding is written SEVERITY CHECK: a part of what it says.
func TestFindings(t *testing.T) {
	systemd := kubeletconfigv1beta1.KubeletConfiguration{CgroupDriver: "systemd"}
	with := func(f func(*kubeletconfigv1beta1.KubeletConfiguration)) kubeletconfigv1beta1.KubeletConfiguration {
		c := systemd
		f(&c)
		return c
	}
	found := map[string]bool{}
	for name, test := range map[string]struct {
		bare    bool
		changes []change
		want    []string
	}{
		"an old server":         {true, []change{server("v1.32.9"), nodes(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.32.9" })}, []string{"error kubernetes-version: older than 1.33", "warning kubelet-skew: older than 1.33"}},
		"the oldest server":     {true, []change{server("v1.33.0"), nodes(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.33.0" })}, nil},
		"a newer server":        {true, []change{server("v1.37.0")}, []string{"note kubernetes-version: newer than 1.36"}},
		"no version":            {true, []change{server("")}, []string{"warning kubernetes-version: can't be read"}},
		"a newer kubelet":       {true, []change{nodes(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.37.0" })}, []string{"error kubelet-skew: newer than the API server"}},
		"a very old kubelet":    {true, []change{nodes(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.32.0" })}, []string{"warning kubelet-skew: more than 3 minor"}},
		"an older kubelet":      {true, []change{nodes(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.33.0" })}, nil},
		"a kubelet unknown":     {true, []change{nodes(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "" })}, []string{"note kubelet-skew: not told its version"}},
		"OpenShift, before":     {true, []change{group("config.openshift.io")}, []string{"note openshift: SecurityContextConstraints"}},
		"OpenShift, refused":    {false, []change{group("config.openshift.io"), func(s *Snapshot) { s.DaemonSets[0].Status.NumberReady = 0 }}, []string{"error openshift: no pod of it is ready", "error node-enforcer: none of 2 pods"}},
		"OpenShift, runs":       {false, []change{group("config.openshift.io")}, nil},
		"Autopilot, before":     {true, []change{group("auto.gke.io"), nodes(func(n *corev1.Node) { n.Name = "gk3-" + n.Name })}, []string{"note cloud-actors: GKE Autopilot"}},
		"Autopilot, without":    {false, []change{group("auto.gke.io"), nodes(func(n *corev1.Node) { n.Name = "gk3-" + n.Name }), noEnforcer}, []string{"warning cloud-actors: GKE Autopilot"}},
		"Autopilot, with":       {false, []change{group("auto.gke.io"), nodes(func(n *corev1.Node) { n.Name = "gk3-" + n.Name })}, []string{"error autopilot: hostPID", "warning cloud-actors: GKE Autopilot"}},
		"a Windows node":        {false, []change{func(s *Snapshot) { s.Nodes[1].Status.NodeInfo.OperatingSystem = "windows" }}, []string{"note nodes-without-enforcer: windows"}},
		"Fargate":               {false, []change{func(s *Snapshot) { s.Nodes[1].Labels["eks.amazonaws.com/compute-type"] = "fargate" }}, []string{"note nodes-without-enforcer: EKS Fargate"}},
		"a virtual node":        {false, []change{func(s *Snapshot) { s.Nodes[1].Labels["type"] = "virtual-kubelet" }}, []string{"note nodes-without-enforcer: virtual-kubelet"}},
		"arm64":                 {false, []change{func(s *Snapshot) { s.Nodes[1].Status.NodeInfo.Architecture = "arm64" }}, []string{"note architectures: of arm64"}},
		"a fencer that is away": {false, []change{has(deployment(DefaultNamespace, fencerName, "x"))}, []string{"warning fencer: none is fenced"}},
		"a volume lock that is away, and its policies": {false, []change{has(deployment(DefaultNamespace, volumeLockName, "x"))}, []string{"warning volume-lock: wait", "note volume-lock-drivers: gates no driver", "error admission-policies: volume-locks.podgrace.dev, volume-attachments.podgrace.dev"}},
		"a volume lock":                         {false, []change{locks("--drivers=nfs.csi.k8s.io"), held("nfs.csi.k8s.io"), gate(true)}, nil},
		"a volume lock, by two flags":           {false, []change{locks("--drivers", "nfs.csi.k8s.io"), held("nfs.csi.k8s.io"), gate(true)}, nil},
		"volumes held, and no volume lock":      {false, []change{held("nfs.csi.k8s.io")}, []string{"error volume-lock: 1 volume is held"}},
		"volumes held, before":                  {true, []change{held("nfs.csi.k8s.io")}, []string{"error volume-lock: it is not there"}},
		"volumes held, and it is away":          {false, []change{locks("--drivers=nfs.csi.k8s.io"), gate(true), held("nfs.csi.k8s.io"), func(s *Snapshot) { s.deployment(volumeLockName).Status.AvailableReplicas = 0 }}, []string{"error volume-lock: 1 volume is held"}},
		"volumes held of a driver that left":    {false, []change{locks("--drivers=nfs.csi.k8s.io"), gate(true), held("iscsi.csi.k8s.io")}, []string{"error volume-lock: does not gate it"}},
		"a driver that kubelets don't wait for": {false, []change{locks("--drivers=nfs.csi.k8s.io"), gate(false), held("nfs.csi.k8s.io")}, []string{"error volume-lock-drivers: attachRequired: false"}},
		"a driver that was left":                {false, []change{locks("--drivers=nfs.csi.k8s.io"), gate(false), held("other.csi.k8s.io")}, []string{"error volume-lock: does not gate it", "warning volume-lock-drivers: No node holds a volume of it"}},
		"a driver that is being adopted": {false, []change{locks("--drivers=nfs.csi.k8s.io"), csiDriver("nfs.csi.k8s.io", true, volumelock.AdoptingMark("u")), func(s *Snapshot) {
			s.CSIDrivers[0].CreationTimestamp = metav1.NewTime(s.Now.Add(-3 * time.Hour))
		}}, []string{"error volume-lock-drivers: the CSIDriver was made 3h ago"}},
		"a driver that is not there":          {false, []change{locks("--drivers=nfs.csi.k8s.io")}, []string{"warning volume-lock-drivers: there is no CSIDriver of that name"}},
		"a driver that is deleted while held": {false, []change{locks("--drivers=nfs.csi.k8s.io"), held("nfs.csi.k8s.io")}, []string{"error volume-lock-drivers: 1 of its volumes is held: an adoption was interrupted"}},
		"a driver that was not adopted":       {false, []change{locks("--drivers=nfs.csi.k8s.io"), csiDriver("nfs.csi.k8s.io", true, ""), held("nfs.csi.k8s.io")}, []string{"error volume-lock-drivers: was not adopted"}},
		"a driver that is a copy":             {false, []change{locks("--drivers=nfs.csi.k8s.io"), csiDriver("nfs.csi.k8s.io", true, volumelock.AdoptedMark("before")), held("nfs.csi.k8s.io")}, []string{"error volume-lock-drivers: was not adopted itself"}},
		"a driver with an attacher": {false, []change{locks("--drivers=nfs.csi.k8s.io"), gate(true), func(s *Snapshot) {
			s.Add(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1", Finalizers: []string{"external-attacher/nfs-csi-k8s-io"}}, Spec: storagev1.VolumeAttachmentSpec{Attacher: "nfs.csi.k8s.io"}})
		}}, []string{"error volume-lock-drivers: has an attacher of its own"}},
		"a driver with a Deployment's attacher": {false, []change{locks("--drivers=nfs.csi.k8s.io"), gate(true), has(attacher("nfs.csi.k8s.io")), has(attacher("nfs.csi.k8s.io.example"))}, []string{"warning volume-lock-drivers: two attachers of one driver"}},
		"a policy of other drivers": {false, []change{locks("--drivers=nfs.csi.k8s.io,iscsi.csi.k8s.io"), gate(true), func(s *Snapshot) {
			csiDriver("iscsi.csi.k8s.io", true, volumelock.AdoptedMark("u"))(s)
			for i := range s.AdmissionPolicies {
				renderGated(&s.AdmissionPolicies[i], []string{"nfs.csi.k8s.io"})
			}
		}}, []string{"warning admission-policies: not as this version"}},
		"fencing's policies gone": {false, []change{func(s *Snapshot) {
			s.AdmissionPolicies = slices.DeleteFunc(s.AdmissionPolicies, func(p admissionregistrationv1.ValidatingAdmissionPolicy) bool {
				return p.Name == "fence-receipts.podgrace.dev"
			})
		}}, []string{"error admission-policies: fence-receipts.podgrace.dev"}},
		"VolumeLocks not defined":   {false, []change{locks("--drivers=nfs.csi.k8s.io"), gate(true), undefined("volumelocks")}, []string{"error definitions: volumelocks.podgrace.dev is not there"}},
		"Fences not defined":        {false, []change{has(deployment(DefaultNamespace, fencerName, "x")), undefined("fences", "fenceagents")}, []string{"warning fencer: none is fenced", "error definitions: fenceagents.podgrace.dev, fences.podgrace.dev are not there"}},
		"receipts not defined":      {false, []change{undefined("fencereceipts")}, []string{"error definitions: fencereceipts.podgrace.dev is not there"}},
		"kinds of what is not here": {false, []change{undefined("fences", "fencepolicies", "fenceagents", "volumelocks")}, nil},
		"a fencer": {false, []change{func(s *Snapshot) {
			d := deployment(DefaultNamespace, fencerName, "x")
			d.Status.AvailableReplicas = 1
			s.Add(d)
		}}, nil},
		"CRI-O":                 {false, []change{crio}, nil},
		"CRI-O, its own disk":   {false, []change{crio, setHostPath("images", "/var/lib/containers")}, nil},
		"CRI-O, another folder": {false, []change{crio, setHostPath("images", "/var/lib/containerd")}, []string{"error node-folders: another disk"}},
		"k0s, before":           {true, []change{k0s}, []string{"note node-folders: /var/lib/k0s/kubelet"}},
		"k0s, installed":        {false, []change{k0s}, []string{"error node-folders: does not start"}},
		"k0s, set":              {false, []change{k0s, setHostPath("kubelet", "/var/lib/k0s/kubelet")}, nil},
		"k0s, without":          {false, []change{k0s, noEnforcer}, nil},
		"k3s":                   {true, []change{nodes(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.36.3+k3s1" })}, nil},
		"MicroK8s":              {true, []change{labelNodes("microk8s.io/cluster", "true")}, []string{"note node-folders: /var/snap/microk8s/common/var/lib/kubelet"}},
		"two kinds of nodes":    {true, []change{func(s *Snapshot) { s.Nodes[0].Labels["microk8s.io/cluster"] = "true" }}, []string{"note node-folders: hold for all nodes"}},
		"Talos":                 {false, []change{osImage("Talos (v1.12.0)")}, []string{"warning node-system: has no systemd"}},
		"Talos, no bus":         {false, []change{osImage("Talos (v1.12.0)"), setHostPath("dbus", "")}, nil},
		"Bottlerocket":          {true, []change{osImage("Bottlerocket OS 1.50.0")}, []string{"note node-system: container_t"}},
		"Bottlerocket, set":     {false, []change{osImage("Bottlerocket OS 1.50.0"), seLinuxType("spc_t")}, nil},
		"kubelets are fine":     {false, []change{kubelet(systemd)}, nil},
		"cgroupfs":              {false, []change{kubelet(kubeletconfigv1beta1.KubeletConfiguration{CgroupDriver: "cgroupfs"})}, []string{"note kubelet-configuration: cgroupfs"}},
		"cgroupfs, no bus":      {false, []change{kubelet(kubeletconfigv1beta1.KubeletConfiguration{CgroupDriver: "cgroupfs"}), setHostPath("dbus", "")}, nil},
		"no cgroups of QoS":     {false, []change{kubelet(with(func(c *kubeletconfigv1beta1.KubeletConfiguration) { c.CgroupsPerQOS = new(false) }))}, []string{"error kubelet-configuration: cgroupsPerQOS"}},
		"cgroup v1":             {false, []change{kubelet(with(func(c *kubeletconfigv1beta1.KubeletConfiguration) { c.FailCgroupV1 = new(false) }))}, []string{"note kubelet-configuration: cgroup v1"}},
		"a kubelet is silent":   {false, []change{kubelet(systemd), func(s *Snapshot) { delete(s.Kubelets, "node-2") }}, []string{"note kubelet-configuration: did not tell"}},
		"a short shutdown":      {false, []change{kubelet(with(shutdown)), policySpec(v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(50))}})}, []string{"warning grace-periods: leaves a pod 40 s at most, where PodPolicy more gives it 50 s"}},
		"a long shutdown":       {false, []change{kubelet(with(shutdown)), policySpec(v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(40))}})}, nil},
		"spot nodes":            {true, []change{labelNodes("cloud.google.com/gke-spot", "true"), longGrace}, []string{"warning grace-periods: (Google Cloud gives notice) leaves a pod 30 s at most"}},
		"spot nodes, no policy": {true, []change{labelNodes("cloud.google.com/gke-spot", "true")}, nil},
		"a NodePool":            {true, []change{labelNodes("karpenter.sh/nodepool", "batch"), longGrace, nodePool("batch", "1m")}, []string{"warning grace-periods: terminationGracePeriod of NodePool batch) leaves a pod 60 s"}},
		"another NodePool":      {true, []change{labelNodes("karpenter.sh/nodepool", "batch"), longGrace, nodePool("web", "1m")}, nil},
		"a patient NodePool":    {true, []change{labelNodes("karpenter.sh/nodepool", "batch"), longGrace, nodePool("batch", "24h")}, nil},
		"an impatient autoscaler": {true, []change{longGrace, func(s *Snapshot) {
			d := deployment(metav1.NamespaceSystem, "cluster-autoscaler", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0")
			d.Spec.Template.Spec.Containers[0].Args = []string{"--max-graceful-termination-sec=60"}
			s.Add(d)
		}}, []string{"warning grace-periods: by the cluster-autoscaler (--max-graceful-termination-sec) leaves a pod 60 s"}},
		"MemoryQoS":         {false, []change{kubelet(with(memoryQoS)), policySpec(v1alpha1.PodPolicySpec{Node: &v1alpha1.Enforcement{Memory: &v1alpha1.MemoryEnforcement{Protection: "Low"}}})}, []string{"warning kubelet-configuration: MemoryQoS"}},
		"MemoryQoS, unused": {false, []change{kubelet(with(memoryQoS))}, nil},
		"private GKE":       {true, []change{server("v1.36.2-gke.100"), private0}, []string{"note cloud-actors: GKE", "warning network-reach: 443 and 10250"}},
		"private GKE, set":  {false, []change{labelNodes("cloud.google.com/gke-nodepool", "a"), private0, webhookPort(10250), allows("x")}, []string{"note cloud-actors: that it is x, whom"}},
		"public GKE":        {true, []change{server("v1.36.2-gke.100")}, []string{"note cloud-actors: GKE"}},
		"EKS, overlay":      {true, []change{server("v1.36.2-eks-1"), func(s *Snapshot) { s.Add(daemonSet("cilium")) }}, []string{"note cloud-actors: EKS", "warning network-reach: overlay"}},
		"EKS, chained":      {true, []change{server("v1.36.2-eks-1"), func(s *Snapshot) { s.Add(daemonSet("cilium")); s.Add(daemonSet("aws-node")) }}, []string{"note cloud-actors: EKS"}},
		"EKS, on the host": {false, []change{labelNodes("eks.amazonaws.com/nodegroup", "a"), allows("eks:cloud-controller-manager"), func(s *Snapshot) {
			s.Add(daemonSet("calico-node"))
			s.Deployments[0].Spec.Template.Spec.HostNetwork = true
		}, namespaceLevel(DefaultNamespace, "privileged")}, nil},
		"Karpenter, before":  {true, []change{has(karpenter())}, []string{`note removing-controllers: system:serviceaccount:karpenter:karpenter`}},
		"Karpenter, denied":  {false, []change{has(karpenter())}, []string{"warning removing-controllers: not every policy that denies names the user"}},
		"Karpenter, named":   {false, []change{has(karpenter()), allows("system:serviceaccount:karpenter:karpenter")}, nil},
		"Karpenter, of one":  {false, []change{has(karpenter()), allows("system:serviceaccount:karpenter:karpenter"), policySpec(v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}})}, []string{"warning removing-controllers: not every policy"}},
		"Karpenter, warned":  {false, []change{has(karpenter()), func(s *Snapshot) { s.PodPolicies[0].Spec.Removal.ForceDelete = v1alpha1.RemovalWarn }}, []string{"note removing-controllers: Karpenter"}},
		"an autoscaler":      {true, []change{has(deployment("kube-system", "ca-aws", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0"))}, nil},
		"EKS, another actor": {false, []change{labelNodes("eks.amazonaws.com/nodegroup", "a"), allows("x")}, []string{"warning cloud-actors: under this name"}},
		"OpenShift's own": {true, []change{
			has(deployment("openshift-machine-api", "machine-api-controllers", "quay.io/openshift-release-dev/ocp@sha256:0")),
			has(deployment("openshift-cloud-controller-manager", "aws-cloud-controller-manager", "x@sha256:0")), has(deployment("openshift-machine-api", "machine-api-operator", "x@sha256:0")),
		}, []string{"note removing-controllers: system:serviceaccount:openshift-cloud-controller-manager:aws-cloud-controller-manager, system:serviceaccount:openshift-machine-api:machine-api-controllers"}},
		"a cloud controller": {true, []change{func(s *Snapshot) {
			d := deployment("kube-system", "occm", "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.35.0")
			d.Spec.Template.Spec.Containers[0].Args = []string{"--use-service-account-credentials=true"}
			s.Add(d)
		}}, []string{"note removing-controllers: system:serviceaccount:kube-system:node-controller"}},
		"AKS, another controller":  {false, []change{labelNodes("kubernetes.azure.com/cluster", "a"), allows("system:serviceaccount:karpenter:karpenter")}, []string{"warning cloud-actors: AKS"}},
		"AKS":                      {false, []change{labelNodes("kubernetes.azure.com/cluster", "a")}, []string{"warning cloud-actors: AKS"}},
		"AKS, without annotation":  {false, []change{labelNodes("kubernetes.azure.com/cluster", "a"), allows("x"), func(s *Snapshot) { s.Validating[0].Annotations = nil }}, []string{"note cloud-actors: AKS", "warning admissions-enforcer: admissions.enforcer/disabled"}},
		"no annotation, elsewhere": {false, []change{func(s *Snapshot) { s.Validating[0].Annotations = nil }}, nil},
		"force detach":             {true, []change{func(s *Snapshot) { s.ControllerManagers[0].Spec.Containers[0].Command = nil }}, []string{"note controller-manager: six minutes"}},
		"no controller manager":    {true, []change{func(s *Snapshot) { s.ControllerManagers = nil }}, []string{"note controller-manager: can be seen"}},
		"a forgotten taint":        {true, []change{outOfServiceTaint}, []string{"warning out-of-service: is ready and has the taint"}},
		"a taint that is due":      {true, []change{outOfServiceTaint, nodes(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })}, nil},
		"Pod Security, before":     {true, []change{namespaceLevel(DefaultNamespace, "restricted")}, nil},
		"Pod Security":             {false, []change{namespaceLevel(policy.NodeNamespace, "baseline")}, []string{"error pod-security: Pod Security level baseline, which refuses the node enforcer's pods"}},
		"Pod Security, alone":      {false, []change{namespaceLevel(policy.NodeNamespace, "baseline"), noEnforcer}, nil},
		"Pod Security, on nodes":   {false, []change{hostNetwork}, []string{"error pod-security: restricted, which refuses the webhook's pods"}},
		"privileged, on nodes":     {false, []change{hostNetwork, namespaceLevel(DefaultNamespace, "privileged")}, nil},
		"no level, on nodes":       {false, []change{hostNetwork, namespaceLevel(DefaultNamespace, "")}, nil},
		"Talos, before":            {true, []change{osImage("Talos (v1.12.0)")}, []string{"note node-system: has no systemd"}},
		"no level":                 {false, []change{namespaceLevel(policy.NodeNamespace, "")}, nil},
		"no level, refused":        {false, []change{namespaceLevel(policy.NodeNamespace, ""), func(s *Snapshot) { s.DaemonSets[0].Status.NumberReady = 0 }}, []string{"warning pod-security: no label", "error node-enforcer: none of 2"}},
		"an earlier enforcer":      {false, []change{earlierEnforcer}, []string{"error pod-security: restricted, which refuses the node enforcer's pods"}},
		"an earlier enforcer left": {false, []change{func(s *Snapshot) { set := s.DaemonSets[0].DeepCopy(); earlierEnforcer(s); s.Add(set) }}, []string{"warning node-enforcer: namespaces podgrace-system and podgrace-node"}},
		"a namespace deleted":      {false, []change{gone}, []string{"error leftovers: namespace podgrace-system is gone", "error webhook-pods: it is gone", "warning leftovers: left of an installation", "error guard: is gone"}},
		"policies left":            {true, []change{func(s *Snapshot) { s.AdmissionPolicies = healthy(t).AdmissionPolicies }}, []string{"warning leftovers: left of an installation"}},
		"two installations":        {false, []change{has(deployment("other", webhookName, "x"))}, []string{"error two-installations: by turns"}},
		"two configurations": {false, []change{func(s *Snapshot) {
			c := s.Validating[0].DeepCopy()
			c.Name = "podgrace-old"
			s.Add(c)
		}}, []string{"warning two-installations: podgrace-old"}},
		"a definition is gone": {false, []change{func(s *Snapshot) { s.CRDs = s.CRDs[1:] }}, []string{"error definitions: podpolicies.podgrace.dev is not there"}},
		"an older definition":  {false, []change{func(s *Snapshot) { delete(specOf(s).Properties, "removal") }}, []string{"warning definitions: dropped in silence"}},
		"a newer definition":   {false, []change{func(s *Snapshot) { specOf(s).Properties["later"] = apiextensionsv1.JSONSchemaProps{} }}, []string{"note definitions: v1alpha1.spec.later"}},
		"a definition unserved": {false, []change{func(s *Snapshot) {
			s.CRDs[0].Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse, Message: "names"}}
		}}, []string{"error definitions: not served: names"}},
		"no replica":     {false, []change{func(s *Snapshot) { s.Deployments[0].Status.AvailableReplicas = 0; waits(&s.Pods[0]) }}, []string{"error webhook-pods: ImagePullBackOff"}},
		"a replica less": {false, []change{func(s *Snapshot) { s.Deployments[0].Status.AvailableReplicas = 1 }}, []string{"warning webhook-pods: 1 of 2"}},
		"one replica": {false, []change{func(s *Snapshot) {
			s.Deployments[0].Spec.Replicas = new(int32(1))
			s.Pods = s.Pods[:1]
			s.Deployments[0].Status.AvailableReplicas = 1
		}}, []string{"warning webhook-pods: one replica"}},
		"one node for both": {false, []change{func(s *Snapshot) { s.Pods[1].Spec.NodeName = s.Pods[0].Spec.NodeName }}, []string{"warning webhook-pods: all 2 replicas are on one node"}},
		"one that has failed": {false, []change{func(s *Snapshot) {
			s.Pods[1].Spec.NodeName = s.Pods[0].Spec.NodeName
			other := s.Pods[1]
			other.Spec.NodeName, other.Status.Phase = "node-2", corev1.PodFailed
			s.Add(&other)
		}}, []string{"warning webhook-pods: all 2 replicas are on one node"}},
		"one node in all":                {false, []change{func(s *Snapshot) { s.Pods[1].Spec.NodeName = "node-1"; s.Nodes = s.Nodes[:1] }}, []string{"note webhook-pods: no second node"}},
		"no budget":                      {false, []change{func(s *Snapshot) { s.Budgets = nil }}, []string{"warning disruption-budget: is gone"}},
		"an enforcer of another version": {false, []change{func(s *Snapshot) { s.DaemonSets[0].Spec.Template.Spec.Containers[0].Image = "r/n:v0.2.0" }}, []string{"warning versions: v0.2.0"}},
		"a program of another version":   {false, []change{func(s *Snapshot) { s.CLI = "v0.2.0" }}, []string{"note versions: of version v0.1.0"}},
		"images by digest": {false, []change{func(s *Snapshot) {
			s.CLI = "v9"
			s.Deployments[0].Spec.Template.Spec.Containers[0].Image = "r/w@sha256:0"
		}}, nil},
		"no enforcer is asked for": {false, []change{func(s *Snapshot) { s.DaemonSets[0].Status = appsv1.DaemonSetStatus{} }}, []string{"warning node-enforcer: selects none of 2 Linux nodes"}},
		"an enforcer less":         {false, []change{func(s *Snapshot) { s.DaemonSets[0].Status.NumberReady = 1 }}, []string{"warning node-enforcer: 1 of 2"}},
		"drift": {false, []change{nodes(func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "PodgraceEnforced", Status: corev1.ConditionFalse, Message: "cpu.weight is 1"})
		})}, []string{"warning enforced: cpu.weight is 1"}},
		"a node is only observed": {false, []change{nodes(func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "PodgraceEnforced", Status: corev1.ConditionFalse, Reason: "ObserveOnly", Message: "no NodePolicy selects the node"})
		})}, nil},
		"a policy and a read-only enforcer": {false, []change{nodes(func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "PodgraceEnforced", Status: corev1.ConditionFalse, Reason: "ReadOnly", Message: "NodePolicy workers asks for mode Tune"})
		})}, []string{"warning enforced: what a NodePolicy asks for is not done: NodePolicy workers asks for mode Tune"}},
		"an enforcer in its own namespace": {false, []change{func(s *Snapshot) { s.DaemonSets[0].Status.NumberReady = 1 }}, []string{"warning node-enforcer: kubectl -n podgrace-node describe daemonset"}},
		"left by an enforcer":              {true, []change{leftOnNodes}, []string{"warning node-leftovers: kubectl taint node NODE podgrace.dev/pressure-", `note node-leftovers: '{"status":{"conditions":[{"type":"PodgracePressure","$patch":"delete"},{"type":"PodgraceEnforced","$patch":"delete"},{"type":"PodgraceMemoryProtection","$patch":"delete"}]}}'`}},
		"left by one, beside the webhook":  {false, []change{leftOnNodes, noEnforcer}, []string{"warning node-leftovers: no node enforcer is installed", "note node-leftovers: nobody updates"}},
		"written by the enforcer":          {false, []change{leftOnNodes}, nil},
		"left for a read-only enforcer": {false, []change{leftOnNodes, func(s *Snapshot) {
			c := &s.DaemonSets[0].Spec.Template.Spec.Containers[0]
			c.Args = append(c.Args, "--mode=Observe")
		}}, []string{"warning node-leftovers: read-only, and may not remove it"}},
		"GKE, quota of nodes gone": {false, []change{labelNodes("cloud.google.com/gke-nodepool", "a"), allows("x"), func(s *Snapshot) {
			s.Quotas = slices.DeleteFunc(s.Quotas, func(q corev1.ResourceQuota) bool { return q.Namespace == policy.NodeNamespace })
		}}, []string{"note cloud-actors: GKE", "error critical-quota: namespace podgrace-node"}},
		"GKE, quota gone":       {false, []change{labelNodes("cloud.google.com/gke-nodepool", "a"), allows("x"), func(s *Snapshot) { s.Quotas = nil }, noEnforcer}, []string{"note cloud-actors: GKE", "error critical-quota: GKE admits"}},
		"quota gone, elsewhere": {false, []change{func(s *Snapshot) { s.Quotas = nil }}, nil},
		"a quota is used up":    {false, []change{func(s *Snapshot) { s.Add(quotaUsed("4", "4")) }}, []string{"warning critical-quota: pods of podgrace-system is used up (4 of 4)"}},
		"a quota with room":     {false, []change{func(s *Snapshot) { s.Add(quotaUsed("3", "4")) }}, nil},
		"a limit range of nodes": {false, []change{func(s *Snapshot) {
			s.Add(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: policy.NodeNamespace, Name: "own"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{"memory": resource.MustParse("100Mi")}}}}})
		}}, []string{"error limit-range: the next pod of podgrace-nodeenforcer is refused"}},
		"a limit range below":      {false, []change{limits(corev1.LimitRangeItem{Max: corev1.ResourceList{"memory": resource.MustParse("256Mi")}})}, []string{"error limit-range: a container at most 256Mi of memory, and it has 512Mi; the next pod of podgrace-webhook is"}},
		"a limit range of CPU":     {false, []change{limits(corev1.LimitRangeItem{Default: corev1.ResourceList{"cpu": resource.MustParse("1")}})}, []string{"warning limit-range: throttled"}},
		"a limit range of more":    {false, []change{limits(corev1.LimitRangeItem{Min: corev1.ResourceList{"memory": resource.MustParse("2Gi")}, DefaultRequest: corev1.ResourceList{"memory": resource.MustParse("2Gi")}}), noEnforcer}, []string{"error limit-range: at least 2Gi of memory"}},
		"a limit range of pods":    {false, []change{limits(corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: corev1.ResourceList{"memory": resource.MustParse("256Mi")}}), noEnforcer}, []string{"error limit-range: a pod at most 256Mi"}},
		"a limit range of a limit": {false, []change{limits(corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: corev1.ResourceList{"cpu": resource.MustParse("8")}}), noEnforcer}, []string{"error limit-range: a limit of cpu, and it has none"}},
		"a limit range of ratios":  {false, []change{limits(corev1.LimitRangeItem{MaxLimitRequestRatio: corev1.ResourceList{"memory": resource.MustParse("1")}}), noEnforcer}, []string{"error limit-range: at most 1 times its request"}},
		"a limit range and the fencer": {false, []change{limits(corev1.LimitRangeItem{Max: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}), func(s *Snapshot) {
			d := deployment(DefaultNamespace, fencerName, "x")
			d.Status.AvailableReplicas = 1
			s.Add(d)
		}}, []string{"error limit-range: a limit of memory, and it has none; the next pod of podgrace-fencer"}},
		"a limit range above": {false, []change{limits(corev1.LimitRangeItem{Max: corev1.ResourceList{"memory": resource.MustParse("1Gi")}})}, nil},
		"no configurations":   {false, []change{func(s *Snapshot) { s.Mutating, s.Validating = nil, nil }}, []string{"error webhook-configurations: both are gone"}},
		"a webhook is gone":   {false, []change{func(s *Snapshot) { s.Validating[0].Webhooks = s.Validating[0].Webhooks[1:] }}, []string{"error webhook-configurations: pods.validate.podgrace.dev"}},
		"another failurePolicy": {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.FailurePolicy = new(admissionregistrationv1.Ignore)
		})}, []string{"warning webhook-configurations: failurePolicy is Ignore and not Fail"}},
		"another condition": {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) { w.MatchConditions[0].Expression = "false" })}, []string{"warning webhook-configurations: match condition removes is another"}},
		"a condition gone":  {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) { w.MatchConditions = w.MatchConditions[1:] })}, []string{"warning webhook-configurations: match condition removes is gone"}},
		"a condition more": {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.MatchConditions = append(w.MatchConditions, admissionregistrationv1.MatchCondition{Name: "mine", Expression: "false"})
		})}, []string{"warning webhook-configurations: mine was added"}},
		"other rules":           {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) { w.Rules = w.Rules[:1] })}, []string{"warning webhook-configurations: rules are others"}},
		"kube-system is judged": {false, []change{validating("delete.removal.podgrace.dev", func(w *admissionregistrationv1.ValidatingWebhook) { w.NamespaceSelector = nil })}, []string{"warning webhook-configurations: namespace kube-system is not left out"}},
		"one leaves out more": {false, []change{validating("delete.removal.podgrace.dev", func(w *admissionregistrationv1.ValidatingWebhook) {
			w.NamespaceSelector.MatchExpressions[0].Values = []string{"kube-system", "podgrace-system", "infra"}
		})}, []string{"warning webhook-configurations: namespace infra is left out"}},
		"namespaces included": {false, []change{validating("delete.removal.podgrace.dev", func(w *admissionregistrationv1.ValidatingWebhook) {
			w.NamespaceSelector.MatchLabels = map[string]string{"guarded": "yes"}
		})}, []string{"warning webhook-configurations: selects by guarded=yes"}},
		"objects left out": {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		})}, []string{"warning webhook-configurations: objectSelector"}},
		"an exact match": {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.MatchPolicy = new(admissionregistrationv1.Exact)
		})}, []string{"warning webhook-configurations: matchPolicy is Exact"}},
		"another URL": {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.ClientConfig.Service, w.ClientConfig.URL = nil, new("https://example.org/ok")
		})}, []string{"warning webhook-configurations: it calls https://example.org/ok"}},
		"another path": {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.ClientConfig.Service.Path = new("/answers")
		})}, []string{"warning webhook-configurations: it calls service podgrace-system/podgrace-webhook /answers and not service podgrace-system/podgrace-webhook /validate-removal"}},
		"actors that nobody wrote": {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.MatchConditions[len(w.MatchConditions)-1].Expression = "!(request.userInfo.username in ['a']) && false"
		})}, []string{"warning webhook-configurations: not-an-allowed-actor was added"}},
		"actors of node enforcers": {false, []change{validating("enforcer.removal.podgrace.dev", func(w *admissionregistrationv1.ValidatingWebhook) {
			w.MatchConditions = append(w.MatchConditions, admissionregistrationv1.MatchCondition{Name: "not-an-allowed-actor", Expression: `!(request.userInfo.username in ["a"])`})
		})}, []string{"warning webhook-configurations: not-an-allowed-actor was added"}},
		"a patient drain":     {false, []change{func(s *Snapshot) { s.Mutating[0].Webhooks[1].TimeoutSeconds = new(int32(5)) }}, []string{"warning webhook-configurations: timeoutSeconds is 5 and not 2"}},
		"another timeout":     {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) { w.TimeoutSeconds = new(int32(10)) })}, []string{"warning timeouts: timeoutSeconds is 10, and 5 of the others"}},
		"asked once":          {false, []change{func(s *Snapshot) { s.Mutating[0].Webhooks[0].ReinvocationPolicy = nil }}, []string{"warning webhook-configurations: reinvocationPolicy is Never"}},
		"namespaces excluded": {false, []change{excludes(true, "shop", "openshift-*")}, nil},
		"excluded by kustomize, no beginnings": {false, []change{excludes(true, "shop"), func(s *Snapshot) {
			w := &s.Validating[0].Webhooks[0]
			w.MatchConditions = append(w.MatchConditions, admissionregistrationv1.MatchCondition{Name: "not-excluded", Expression: "true"})
		}}, nil},
		"excluded from the API server alone": {false, []change{excludes(false, "shop")}, []string{
			"warning webhook-configurations: namespace shop is left out, and the webhook does not know", "warning admission-policies: namespace shop is left out, and the webhook does not know",
		}},
		"excluded from the webhook alone": {false, []change{func(s *Snapshot) { container(s).Args = append(container(s).Args, "--exclude-namespaces=shop") }}, []string{
			"warning webhook-configurations: namespace shop is not left out", "warning admission-policies: namespace shop is not left out",
		}},
		"excluded more by an expression":                {false, []change{excludes(true, "openshift-*"), func(s *Snapshot) { s.Validating[0].Webhooks[0].MatchConditions[1].Expression = "false" }}, []string{"warning webhook-configurations: not-excluded is another"}},
		"limits fail closed":                            {false, []change{armLimits, failClosed(podLimits, "no-mirror-pod", "armed"), failClosed(podGroupLimits, "armed"), excludes(true, "shop", "openshift-*")}, nil},
		"limits fail closed, and static pods with them": {false, []change{armLimits, failClosed(podLimits, "armed")}, []string{"warning webhook-configurations: no-mirror-pod is gone"}},
		"limits fail closed without asking":             {false, []change{failClosed(podLimits)}, []string{"warning webhook-configurations: failurePolicy is Fail and not Ignore"}},
		"another entry is armed":                        {false, []change{failClosed(nodeRoad, "armed")}, []string{"warning webhook-configurations: armed was added"}},
		"no caBundle":                                   {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) { w.ClientConfig.CABundle = nil })}, []string{"error ca-bundle: no certificate in it"}},
		"a caBundle of nothing":                         {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) { w.ClientConfig.CABundle = []byte("Cg==") })}, []string{"error ca-bundle: no certificate in it"}},
		"a CA that has ended":                           {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) { w.ClientConfig.CABundle = authority(t, -time.Hour) })}, []string{"error ca-bundle: ended 60m ago"}},
		"a CA that ends":                                {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) { w.ClientConfig.CABundle = authority(t, time.Hour) })}, []string{"warning ca-bundle: ends in 60m"}},
		"an old CA beside a new one": {false, []change{validating(nodeRoad, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.ClientConfig.CABundle = append(authority(t, -time.Hour), w.ClientConfig.CABundle...)
		})}, nil},
		"an admission policy gone":    {false, []change{func(s *Snapshot) { s.AdmissionPolicies = s.AdmissionPolicies[1:] }}, []string{"error admission-policies: not there"}},
		"an admission policy unbound": {false, []change{func(s *Snapshot) { s.AdmissionBindings = s.AdmissionBindings[1:] }}, []string{"error admission-policies: no binding"}},
		"an admission policy that warns": {false, []change{func(s *Snapshot) {
			s.AdmissionBindings[0].Spec.ValidationActions = []admissionregistrationv1.ValidationAction{"Warn"}
		}}, []string{"error admission-policies: no binding with the action Deny"}},
		"an admission policy changed":      {false, []change{func(s *Snapshot) { s.AdmissionPolicies[0].Spec.Validations[0].Expression = "true" }}, []string{"warning admission-policies: not as this version"}},
		"an admission policy that ignores": {false, []change{func(s *Snapshot) { s.AdmissionPolicies[0].Spec.FailurePolicy = new(admissionregistrationv1.Ignore) }}, []string{"warning admission-policies: failurePolicy is Ignore"}},
		"an admission policy for less": {false, []change{func(s *Snapshot) {
			s.AdmissionPolicies[0].Spec.MatchConstraints.ResourceRules[0].Resources = []string{"pods"}
		}}, []string{"warning admission-policies: its rules are others"}},
		"an admission policy with a gap": {false, []change{func(s *Snapshot) {
			s.AdmissionPolicies[0].Spec.MatchConstraints.ExcludeResourceRules = s.AdmissionPolicies[0].Spec.MatchConstraints.ResourceRules
		}}, []string{"warning admission-policies: its rules are others"}},
		"an admission policy bound in part": {false, []change{func(s *Snapshot) {
			s.AdmissionBindings[0].Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		}}, []string{"error admission-policies: leaves something out"}},
		"an admission policy of fewer parameters": {false, []change{func(s *Snapshot) {
			for i := range s.AdmissionBindings {
				if p := s.AdmissionBindings[i].Spec.ParamRef; p != nil {
					p.Selector.MatchLabels = map[string]string{"a": "b"}
				}
			}
		}}, []string{"error admission-policies: leaves something out"}},
		"an admission policy bound as it is stored": {false, []change{func(s *Snapshot) {
			s.AdmissionBindings[0].Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}, MatchPolicy: new(admissionregistrationv1.Equivalent)}
		}}, nil},
		"another webhook in the way": {false, []change{foreign(admissionregistrationv1.Fail, nil)}, []string{"warning foreign-webhooks: none of Podgrace's can be replaced"}},
		"another webhook with conditions": {false, []change{foreign(admissionregistrationv1.Fail, nil), func(s *Snapshot) {
			w := &s.Validating[len(s.Validating)-1].Webhooks[0]
			w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "some", Expression: "object.metadata.name != 'x'"}}
		}}, []string{"note foreign-webhooks: unless its match conditions"}},
		"another webhook that is open":    {false, []change{foreign(admissionregistrationv1.Ignore, nil)}, nil},
		"another webhook elsewhere":       {false, []change{foreign(admissionregistrationv1.Fail, &metav1.LabelSelector{MatchLabels: map[string]string{"inject": "yes"}})}, nil},
		"a mutating webhook before":       {false, []change{mutates("linkerd", admissionregistrationv1.IfNeededReinvocationPolicy)}, nil},
		"a mutating webhook after":        {false, []change{mutates("vpa", admissionregistrationv1.NeverReinvocationPolicy)}, nil},
		"a mutating webhook after, again": {false, []change{mutates("vpa", admissionregistrationv1.IfNeededReinvocationPolicy)}, []string{"note mutation-order: once more"}},
		"a mutating webhook after us, who are asked once": {false, []change{mutates("vpa", admissionregistrationv1.NeverReinvocationPolicy), func(s *Snapshot) {
			s.Mutating[0].Webhooks[0].ReinvocationPolicy = nil
		}}, []string{"warning webhook-configurations: reinvocationPolicy is Never", "warning mutation-order: is not asked again"}},
		"nobody leads": {false, []change{func(s *Snapshot) { s.Leases[0].Spec.RenewTime.Time = now.Add(-2 * time.Minute) }}, []string{"error leader: 2m ago"}},
		"nobody is there to lead": {false, []change{func(s *Snapshot) {
			s.Deployments[0].Status.AvailableReplicas = 0
			s.Leases[0].Spec.RenewTime.Time = now.Add(-2 * time.Minute)
		}}, []string{"error webhook-pods: none of 2", "error leader: 2m ago"}},
		"nobody ever led": {false, []change{func(s *Snapshot) { s.Leases = nil }}, []string{"error leader: ever led"}},
		"no policy":       {false, []change{func(s *Snapshot) { s.PodPolicies = nil }}, []string{"note policies: there is none"}},
		"a policy out of force": {false, []change{func(s *Snapshot) {
			s.PodPolicies[0].Status.Conditions[0] = metav1.Condition{Type: "Ready", Status: "False", Reason: "InvalidSpec", Message: "spec.match"}
		}}, []string{"warning policies: InvalidSpec: spec.match"}},
		"limits that wait":          {false, []change{compiledWaits(4 * time.Minute)}, nil},
		"limits that wait for long": {false, []change{compiledWaits(12 * time.Minute)}, []string{"warning policies: by the webhook alone, and have for 12m"}},
		"a policy unseen":           {false, []change{func(s *Snapshot) { s.PodPolicies[0].Status.Conditions = nil }}, []string{"warning policies: no leader has looked"}},
		"a policy that was changed": {false, []change{func(s *Snapshot) { s.PodPolicies[0].Generation = 2 }}, []string{"note policies: earlier generation"}},
		"a remark of a policy":      {false, []change{func(s *Snapshot) { s.PodPolicies[0].Status.Warnings = []string{"selects nothing"} }}, []string{"note policies: selects nothing"}},
		"a class that is missing":   {false, []change{policySpec(v1alpha1.PodPolicySpec{Priority: &v1alpha1.PrioritySection{ClassName: "high"}})}, []string{"warning priority-classes: high"}},
		"a class that is there":     {false, []change{policySpec(v1alpha1.PodPolicySpec{Priority: &v1alpha1.PrioritySection{ClassName: "high"}}), func(s *Snapshot) { s.Add(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}}) }}, nil},
		"the guard is off":          {false, []change{func(s *Snapshot) { s.Roles[0].Annotations = map[string]string{AnnotationGuard: GuardOff} }}, []string{"warning guard: switched the removal guard off"}},
		"limits of an older version": {false, []change{failClosed(podLimits, "no-mirror-pod")}, []string{ // which are armed from the first apply on
			"warning webhook-configurations: armed is gone"}},
		"limits are not armed":           {false, []change{failClosed(podLimits, "no-mirror-pod", "armed"), failClosed(podGroupLimits, "armed")}, []string{"error closed-limits: they are not armed"}},
		"limits are not armed, unneeded": {false, []change{failClosed(podLimits, "no-mirror-pod", "armed"), failClosed(podGroupLimits, "armed"), func(s *Snapshot) { s.PodPolicies = nil }}, []string{"note policies: there is none"}},
		"limits are off": {false, []change{armLimits, failClosed(podLimits, "no-mirror-pod", "armed"), failClosed(podGroupLimits, "armed"), func(s *Snapshot) {
			s.Roles[0].Annotations = map[string]string{AnnotationGuard: GuardOff}
		}}, []string{"warning guard: limits that are to fail closed don't"}},
		"a NodePolicy": {false, []change{has(&v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "workers"}})}, nil},
		"a NodePolicy that is newer": {false, []change{has(&v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "workers", ManagedFields: []metav1.ManagedFieldsEntry{{
			APIVersion: v1alpha1.GroupVersion.String(), FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:later":{}}}`),
		}}}})}, []string{"warning node-policies: spec.later: written, and not read"}},
		"a kernel that panics": {false, []change{nodes(func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "PodgraceEnforced", Status: corev1.ConditionFalse, Reason: "ObserveOnly", Message: "no NodePolicy selects the node; the kernel: vm.panic_on_oom is 1, not 0: the node panics"})
		})}, []string{"warning enforced: a parameter of the kernel is not as the kubelet sets it: vm.panic_on_oom is 1, not 0"}},
		"a NodePolicy of 90%": {false, []change{has(&v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "workers"}, Spec: v1alpha1.NodePolicySpec{Eviction: &v1alpha1.NodeEviction{
			Hard: []v1alpha1.EvictionThreshold{{Signal: v1alpha1.SignalMemoryAvailable, Value: "90%"}},
		}}})}, []string{"warning node-policies: eviction.hard memory.available of 90% is more than half of the capacity"}},
		"a record":                       {false, []change{gives(50), recorded("shop", 0, `{"oom":{"rank":50}}`)}, nil},
		"a record in another form":       {false, []change{gives(50), recorded("shop", 0, `{"oom": {"rank": 50}}`)}, nil},
		"a record that no policy gives":  {false, []change{gives(50), recorded("shop", time.Hour, `{"oom":{"rank":0}}`)}, []string{"warning records: pod shop/p the annotation podgrace.dev/enforcement asks the node for what no PodPolicy gives, and none has changed since"}},
		"a record without a policy":      {false, []change{recorded("shop", time.Hour, `{"oom":{"rank":50}}`)}, []string{"warning records: pod shop/p "}},
		"a record of a policy as it was": {false, []change{gives(50), recorded("shop", -time.Second, `{"oom":{"rank":0}}`)}, []string{"note records: today: a policy has changed since"}},
		"a record of that second":        {false, []change{gives(50), recorded("shop", 0, `{"oom":{"rank":0}}`)}, []string{"note records: "}},
		"a record that nobody can read":  {false, []change{gives(50), recorded("shop", time.Hour, `{`)}, []string{"warning records: "}},
		"records of both kinds":          {false, []change{gives(50), recorded("a", time.Hour, `{}`), recorded("b", -time.Hour, `{}`)}, []string{"warning records: pod a/p", "note records: pod b/p"}},
		"all wait for long":              {false, []change{wait(30)}, []string{"note timeouts: timeoutSeconds is 30"}},
		"all wait as long as they may":   {false, []change{wait(10)}, nil},
		"none waits":                     {false, []change{wait(2)}, []string{"warning timeouts: a slow moment"}},
		"no policy is in force":          {false, []change{func(s *Snapshot) { s.Roles[0].Rules = nil }}, []string{"error guard: no replica has answered"}},
		"nothing to be in force":         {false, []change{func(s *Snapshot) { s.Roles[0].Rules, s.PodPolicies = nil, nil }}, []string{"note policies: there is none"}},
		"the Role is gone":               {false, []change{func(s *Snapshot) { s.Roles = nil }}, []string{"error guard: is gone"}},
		"the RoleBinding is gone":        {false, []change{func(s *Snapshot) { s.RoleBindings = nil }}, []string{"error guard: is gone"}},
		"the RoleBinding of another":     {false, []change{func(s *Snapshot) { s.RoleBindings[0].Subjects[0].Name = "default" }}, []string{"error guard: names another account"}},
		"calls that failed":              {false, []change{func(s *Snapshot) { s.Calls = Calls{map[string]int{nodeRoad: 7}, map[string]int{nodeRoad: 2}} }}, []string{"warning webhook-calls: node.removal.podgrace.dev (2 of 7)"}},
		"calls that were to be expected": {false, []change{func(s *Snapshot) { s.Calls = Calls{nil, map[string]int{"answers.podgrace.dev": 2}} }}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := bare()
			if !test.bare {
				s = healthy(t)
			}
			for _, f := range test.changes {
				f(s)
			}
			r := Examine(s)
			left := slices.Clone(r.Findings)
			for _, want := range test.want {
				head, part, _ := strings.Cut(want, ": ")
				i := slices.IndexFunc(left, func(f Finding) bool {
					return fmt.Sprint(f.Severity, " ", f.Check) == head && strings.Contains(f.About+" "+f.Message+" "+f.Remedy+" "+strings.Join(f.Actors, ", ")+" "+strings.Join(f.Commands, ", "), part)
				})
				if i < 0 {
					t.Errorf("%s was not found, but %+v", want, r.Findings)
					continue
				}
				found[left[i].Check] = true
				left = slices.Delete(left, i, i+1)
			}
			if len(left) > 0 {
				t.Errorf("also found: %+v", left)
			}
		})
	}
	found[otherNamespace] = true // TestElsewhere
	for _, c := range checks() {
		if !found[c.id] {
			t.Errorf("nothing is tested that %s finds", c.id)
		}
	}
}

// gives has a policy give a rank, and be changed now.
func gives(rank int32) change {
	return func(s *Snapshot) {
		p := &s.PodPolicies[0]
		p.Spec.Node = &v1alpha1.Enforcement{OOM: &v1alpha1.OOMEnforcement{Rank: rank}}
		p.CreationTimestamp = metav1.NewTime(now.Add(-24 * time.Hour))
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: &metav1.Time{Time: now}}, {Manager: "podgrace", Subresource: "status", Time: &metav1.Time{Time: now.Add(24 * time.Hour)}}}
	}
}

// recorded is a pod that was created some time after now, and asks something of its node.
func recorded(namespace string, after time.Duration, text string) change {
	return has(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", CreationTimestamp: metav1.NewTime(now.Add(after)), Annotations: map[string]string{v1alpha1.AnnotationEnforcement: text}}})
}

// Each pod whose record no policy gives has the command that removes it, but not too many, and none whose name a shell would read.
func TestRecordsAreRemovedByCommands(t *testing.T) {
	s := healthy(t)
	for _, namespace := range []string{"a", "b", "c", "d", "e", "f", "; x"} {
		recorded(namespace, time.Hour, "{}")(s)
	}
	found := records(s)
	if len(found) != 1 || len(found[0].Commands) != mostCommands || found[0].Commands[0] != "kubectl annotate pod -n a p podgrace.dev/enforcement-" || found[0].About != "pods ; x/p, a/p, b/p and 4 more" {
		t.Errorf("found %+v", found)
	}
}

func shutdown(c *kubeletconfigv1beta1.KubeletConfiguration) {
	c.ShutdownGracePeriod.Duration, c.ShutdownGracePeriodCriticalPods.Duration = time.Minute, 20*time.Second
}

// longGrace is a policy that gives pods ten minutes.
func longGrace(s *Snapshot) {
	policySpec(v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(600))}})(s)
}

func nodePool(name, waits string) change {
	return func(s *Snapshot) {
		s.Add(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"terminationGracePeriod": waits}}},
		}})
	}
}

func memoryQoS(c *kubeletconfigv1beta1.KubeletConfiguration) {
	c.FeatureGates = map[string]bool{"MemoryQoS": true}
}

func crio(s *Snapshot) {
	nodes(func(n *corev1.Node) { n.Status.NodeInfo.ContainerRuntimeVersion = "cri-o://1.35.0" })(s)
}

func k0s(s *Snapshot) {
	nodes(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.36.3+k0s" })(s)
}

func private0(s *Snapshot) { nodes(func(n *corev1.Node) { n.Status.Addresses = nil })(s) }

func outOfServiceTaint(s *Snapshot) {
	s.Nodes[0].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
}

func setHostPath(volume, path string) change {
	return func(s *Snapshot) {
		pod := &s.DaemonSets[0].Spec.Template.Spec
		pod.Volumes = slices.DeleteFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == volume })
		if path != "" {
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}})
		}
	}
}

func seLinuxType(name string) change {
	return func(s *Snapshot) {
		s.DaemonSets[0].Spec.Template.Spec.Containers[0].SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: name}
	}
}

func webhookPort(port int32) change {
	return func(s *Snapshot) { s.Deployments[0].Spec.Template.Spec.Containers[0].Ports[0].ContainerPort = port }
}

// allows has every policy name these actors.
func allows(actors ...string) change {
	return func(s *Snapshot) {
		for i := range s.PodPolicies {
			s.PodPolicies[i].Spec.Removal.AllowedActors = actors
		}
	}
}

func namespaceLevel(name, level string) change {
	return func(s *Snapshot) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		if level != "" {
			namespace.Labels[enforceLevel] = level
		}
		s.Add(namespace)
	}
}

// specOf is the schema of a PodPolicy's spec as the cluster has it.
func specOf(s *Snapshot) *apiextensionsv1.JSONSchemaProps {
	root := s.CRDs[0].Spec.Versions[0].Schema.OpenAPIV3Schema
	spec := root.Properties["spec"]
	root.Properties["spec"] = spec
	return &spec
}

func waits(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Image: "registry.invalid/podgrace/webhook", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
}

// Of several resources that are used up always the same one is told.
func TestQuotaUsedUp(t *testing.T) {
	s, q := healthy(t), quotaUsed("4", "4")
	for _, name := range []corev1.ResourceName{"requests.cpu", "limits.cpu", "requests.memory", "limits.memory", "services"} {
		q.Status.Used[name], q.Status.Hard[name] = resource.MustParse("1"), resource.MustParse("1")
	}
	s.Add(q)
	for range 20 { // a map has no order
		if found := criticalQuota(s); len(found) != 1 || !strings.HasPrefix(found[0].Message, "limits.cpu of ") {
			t.Fatalf("found %+v", found)
		}
	}
}

func quotaUsed(used, hard string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "own"}, Status: corev1.ResourceQuotaStatus{
		Used: corev1.ResourceList{"pods": resource.MustParse(used)}, Hard: corev1.ResourceList{"pods": resource.MustParse(hard)},
	}}
}

func limits(item corev1.LimitRangeItem) change {
	if item.Type == "" {
		item.Type = corev1.LimitTypeContainer
	}
	return func(s *Snapshot) {
		s.Add(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "own"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}})
	}
}

func foreign(policy admissionregistrationv1.FailurePolicyType, of *metav1.LabelSelector) change {
	return func(s *Snapshot) {
		s.Add(&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "pods.example.org", FailurePolicy: &policy, NamespaceSelector: of, Rules: podRules,
		}}})
	}
}

// compiledWaits has the limits of the policy wait for so long.
func compiledWaits(since time.Duration) change {
	return func(s *Snapshot) {
		p := &s.PodPolicies[0]
		p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionCompiled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonLimitsWaiting, LastTransitionTime: metav1.NewTime(now.Add(-since)),
		})
	}
}

// mutates has another webhook asked about new pods.
func mutates(configuration string, again admissionregistrationv1.ReinvocationPolicyType) change {
	return func(s *Snapshot) {
		s.Add(&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configuration}, Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "pods.example.org", FailurePolicy: new(admissionregistrationv1.Ignore), ReinvocationPolicy: &again, Rules: podRules,
		}}})
	}
}

var podRules = []admissionregistrationv1.RuleWithOperations{{
	Operations: []admissionregistrationv1.OperationType{"CREATE"}, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
}}

// A namespace whose name is a number is a text all the same, and where the Deployment was not read the configuration says which namespaces are left out.
func TestShippedElsewhere(t *testing.T) {
	s := healthy(t)
	excludes(false, "shop")(s)
	s.Deployments = nil
	if found := webhookConfigurations(s); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
	for _, h := range shipped("123", policy.ExemptIn("123")) {
		if h.Client.Service == nil || h.Client.Service.Namespace != "123" {
			t.Errorf("%s calls %s", h.Name, called(h.Client))
		}
	}
}

// A distribution is guessed by one sign of it.
func TestDistributions(t *testing.T) {
	for want, signs := range map[Distribution][]change{
		OpenShift: {group("config.openshift.io")}, GKE: {server("v1.36.2-gke.1"), labelNodes("cloud.google.com/gke-nodepool", "a")},
		EKS: {server("v1.36.2-eks-1"), labelNodes("eks.amazonaws.com/nodegroup", "a")}, AKS: {labelNodes("kubernetes.azure.com/cluster", "a")},
		K3s: {server("v1.36.3+k3s1")}, RKE2: {server("v1.36.3+rke2r1")}, K0s: {server("v1.36.3+k0s.0")}, MicroK8s: {labelNodes("microk8s.io/cluster", "true")},
		Talos: {osImage("Talos (v1.12.0)")}, Kind: {nodes(func(n *corev1.Node) { n.Spec.ProviderID = "kind://docker/kind/kind-control-plane" })},
		Kubeadm: {func(*Snapshot) {}}, "": {nodes(func(n *corev1.Node) { n.Annotations = nil })},
	} {
		for _, sign := range signs {
			s := bare()
			sign(s)
			if is, because := distributionOf(s); is != want || (because == "") != (want == "") {
				t.Errorf("got %q (%s), want %q", is, because, want)
			}
		}
	}
}

func TestIsSet(t *testing.T) {
	const flag = "--use-service-account-credentials"
	for command, want := range map[string]bool{
		flag: true, flag + "=true": true, flag + "=false": false, "/bin/ccm|" + flag + "=t|--v=2": true, flag + "=true|" + flag + "=false": false, flag + "-of=true": false, "x": false,
		`/bin/bash|-c|exec /bin/aws-cloud-controller-manager --v=2 ` + flag + `=true --x`: true, "sh|-c|ccm " + flag + " \\\n --v=2": true, `sh|-c|"ccm ` + flag + `"`: true,
	} {
		first, rest, _ := strings.Cut(command, "|")
		if got := isSet(corev1.Container{Command: []string{first}, Args: strings.Split(rest, "|")}, flag); got != want {
			t.Errorf("%s: %t", command, got)
		}
	}
}

func TestIsImage(t *testing.T) {
	if !isImage("docker.io/scaleway/scaleway-cloud-controller-manager:v1", "*cloud-controller-manager") || isImage("x/cloud-controller-manager/sidecar:v1", "*cloud-controller-manager") {
		t.Error("a cloud controller manager of another name is not known, or another image is")
	}
	for reference, want := range map[string]bool{
		"public.ecr.aws/karpenter/controller:1.8.1@sha256:0": true, "karpenter/controller": true, "localhost:5000/karpenter/controller": true,
		"example.org/other/controller:1": false, "example.org/my-karpenter/controller": false,
	} {
		if got := isImage(reference, "karpenter/controller"); got != want {
			t.Errorf("%s: %t", reference, got)
		}
	}
}

func TestSnapshotLeavesOut(t *testing.T) {
	s := bare()
	for _, o := range []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}} {
		if !s.Add(o) {
			t.Error("pods are not looked at")
		}
	}
	if s.Add(&corev1.Secret{}) || len(s.Pods) > 0 || cmp.Diff(1, len(s.ControllerManagers)) != "" {
		t.Errorf("kept %+v", s.Pods)
	}
}
