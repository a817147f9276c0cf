package schedulertest

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// Case is a cluster and a pod that has no node yet.
type Case struct {
	Nodes []*corev1.Node
	// Pods are those of the nodes, and others that wait for one.
	Pods    []*corev1.Pod
	Objects []client.Object
	Pod     *corev1.Pod
}

// GoString is the case as manifests.
func (c *Case) GoString() string { return draw.Show(c.Pod, c.Nodes, c.Pods, c.Objects) }

// The namespaces of the pods. The pod in question is in the first one.
const (
	Namespace      = "shop"
	otherNamespace = "bank"
)

const (
	gpu       = corev1.ResourceName("example.com/gpu")
	mostNodes = 8
	mostPods  = 30
)

// Namespaces are the same in all cases.
func Namespaces() []*corev1.Namespace {
	return []*corev1.Namespace{
		{ObjectMeta: metav1.ObjectMeta{Name: Namespace, Labels: map[string]string{"team": "a"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: otherNamespace, Labels: map[string]string{"team": "b"}}},
	}
}

// PriorityClasses are those of the pods, the same in all cases.
func PriorityClasses() []*schedulingv1.PriorityClass {
	var all []*schedulingv1.PriorityClass
	for i, value := range []int32{-5, 10, 100, 1000} {
		all = append(all, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "class-" + strconv.Itoa(i)}, Value: value, PreemptionPolicy: new(corev1.PreemptLowerPriority)})
	}
	return append(all, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "never"}, Value: 100, PreemptionPolicy: new(corev1.PreemptNever)})
}

// Cases are random clusters of up to eight nodes and thirty pods, whose objects an API server would take.
func Cases() *rapid.Generator[*Case] {
	return draw.Of(func(s draw.Source) *Case {
		c := &Case{Nodes: draw.Nodes(s, mostNodes)}
		for _, n := range Namespaces() {
			c.Objects = append(c.Objects, n)
		}
		for _, n := range c.Nodes {
			equip(s, n)
		}
		started := s.Below(mostPods) // the one that has not
		for i := range s.Below(mostPods + 1) {
			c.Pods = append(c.Pods, drawNeighbour(s, i, i != started, c.Nodes))
		}
		c.Objects = append(c.Objects, drawBudgets(s, c.Pods)...)
		c.Pod = drawPod(s, "asked")
		c.Pod.Namespace = Namespace
		c.ask(s)
		c.Objects = append(c.Objects, drawVolumes(s, c.Nodes, append(slices.Clone(c.Pods), c.Pod))...)
		return c
	})
}

// ask makes the pod one that somebody would ask about.
func (c *Case) ask(s draw.Source) {
	spec := &c.Pod.Spec
	if s.Chance(9) {
		prioritize(c.Pod, draw.Pick(s, PriorityClasses()[1:]...))
	}
	if s.Chance(5) { // so large that others have to go
		spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(draw.Pick(s, "1500m", "2", "3"))
	}
	addSpread(s, c.Pod)
	if s.Chance(3) {
		c.crowd(s)
	}
	if s.Rarely() {
		spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	}
	if s.Chance(1) {
		c.Pod.Status.NominatedNodeName = draw.Pick(s, c.Nodes...).Name
	}
	if s.Chance(6) {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "web"}, Spec: corev1.ServiceSpec{Selector: draw.Subset(s, 8, c.Pod.Labels), Ports: []corev1.ServicePort{{Port: 80}}}}
		c.Objects = append(c.Objects, service)
	}
	if s.Chance(4) {
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "web", UID: "8f0c"}}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: draw.Subset(s, 12, c.Pod.Labels)}
		set.Spec.Replicas = new(int32(0))
		set.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: c.Pod.Labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
		if len(set.Spec.Selector.MatchLabels) > 0 {
			c.Objects = append(c.Objects, set)
		}
		c.Pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID, Controller: new(true)}}
	}
}

// crowd leaves nothing but the room that others take in the way of the pod, which is more important than most: by chance that is rarely what decides.
func (c *Case) crowd(s draw.Source) {
	spec := &c.Pod.Spec
	spec.TopologySpreadConstraints, spec.Affinity, spec.NodeSelector, spec.Volumes = nil, nil, nil, nil
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	prioritize(c.Pod, draw.Pick(s, PriorityClasses()[2:4]...))
	for _, n := range c.Nodes {
		n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(draw.Pick(s, "1", "2"))
	}
	spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(draw.Pick(s, "1", "900m", "1500m"))
}

// equip gives a node room, images and, rarely, a cordon.
func equip(s draw.Source, n *corev1.Node) {
	n.Labels[teamKey] = draw.Pick(s, "a", "b")
	n.Spec.Unschedulable = s.Chance(1)
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(draw.Pick(s, "4", "2", "2", "3", "1")), corev1.ResourceMemory: resource.MustParse(draw.Pick(s, "8Gi", "4Gi", "2Gi")),
		corev1.ResourcePods: resource.MustParse(draw.Pick(s, "110", "110", "110", "4", "6")), corev1.ResourceEphemeralStorage: resource.MustParse(draw.Pick(s, "100Gi", "2Gi")),
	}
	if s.Chance(5) {
		room[gpu] = resource.MustParse(draw.Pick(s, "1", "2", "0"))
	}
	n.Status.Capacity, n.Status.Allocatable = room, room.DeepCopy()
	if s.Chance(4) {
		n.Status.Images = []corev1.ContainerImage{{Names: []string{draw.Pick(s, image, otherImage)}, SizeBytes: draw.Pick[int64](s, 50<<20, 500<<20, 900<<20)}}
	}
}

const (
	teamKey    = "example.com/team"
	image      = "example.com/app:v1"
	otherImage = "example.com/other:v1"
)

// prioritize gives a pod what the admission of its class would.
func prioritize(p *corev1.Pod, class *schedulingv1.PriorityClass) {
	p.Spec.PriorityClassName, p.Spec.Priority, p.Spec.PreemptionPolicy = class.Name, &class.Value, class.PreemptionPolicy
}

// epoch is when the first of the pods began: before the time of a bubble of testing/synctest, which is that of the year 2000.
var epoch = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)

// drawNeighbour is a pod on one of the nodes, mostly. Each begins at another time: of victims that are as important as each other the scheduler takes one by chance.
func drawNeighbour(s draw.Source, i int, started bool, nodes []*corev1.Node) *corev1.Pod {
	p := drawPod(s, fmt.Sprintf("p%d", i))
	p.UID = types.UID(p.Name)
	p.Namespace = draw.Pick(s, Namespace, Namespace, Namespace, otherNamespace)
	if s.Chance(8) {
		prioritize(p, draw.Pick(s, PriorityClasses()...))
	}
	p.Spec.NodeName = draw.Pick(s, nodes...).Name
	if started {
		p.Status.StartTime = &metav1.Time{Time: epoch.Add(time.Duration((i*7)%mostPods) * time.Minute)} // another order than that of the names
	}
	p.Status.Phase = corev1.PodRunning
	switch s.Below(16) {
	case 15:
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: epoch}, new(int64(30))
		if s.Chance(8) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
		}
	case 14:
		p.Status.Phase = draw.Pick(s, corev1.PodSucceeded, corev1.PodFailed)
	case 13:
		p.Status.NominatedNodeName = p.Spec.NodeName
		waits(s, p)
	case 12:
		if s.Chance(4) {
			p.Spec.NodeName = "gone"
		}
	}
	return p
}

// waits takes a pod's node away. It may be one that the scheduler does not keep room for: of another scheduler, gated, ending, or ended before it began.
func waits(s draw.Source, p *corev1.Pod) {
	p.Spec.NodeName, p.Status.Phase, p.Status.StartTime = "", corev1.PodPending, nil
	switch s.Below(8) {
	case 7:
		p.Spec.SchedulerName = "another"
	case 6:
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	case 5:
		p.Status.Phase = corev1.PodFailed
	case 4:
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: epoch}, new(int64(30))
	}
}

// drawPod is a pod with what both the one in question and its neighbours may have.
func drawPod(s draw.Source, name string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: draw.Labels(s, 9)},
		Spec:       corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "c", Image: draw.Pick(s, image, otherImage), Resources: corev1.ResourceRequirements{Requests: drawRequests(s)}}}},
	}
	limitExtended(&p.Spec.Containers[0])
	if s.Chance(1) {
		sidecar := corev1.Container{Name: "init", Image: image, Resources: corev1.ResourceRequirements{Requests: drawRequests(s)}, RestartPolicy: draw.Maybe(s, 8, corev1.ContainerRestartPolicyAlways)}
		limitExtended(&sidecar)
		p.Spec.InitContainers = []corev1.Container{sidecar}
	}
	if s.Chance(2) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: draw.Pick[int32](s, 8080, 8081), Protocol: draw.Pick(s, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP), HostIP: draw.Pick(s, "", "10.0.0.1")}}
	}
	if s.Chance(3) {
		draw.AddNodeAffinity(s, &p.Spec)
	}
	p.Spec.Tolerations = draw.Tolerations(s)
	if s.Chance(1) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	if s.Chance(3) {
		addAffinity(s, p)
	}
	if s.Chance(2) {
		claim := draw.Pick(s, claimNames...)
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	}
	return p
}

func drawRequests(s draw.Source) corev1.ResourceList {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(draw.Pick(s, "100m", "250m", "500m", "700m", "1"))}
	if s.Chance(8) {
		requests[corev1.ResourceMemory] = resource.MustParse(draw.Pick(s, "128Mi", "512Mi", "1Gi", "2Gi"))
	}
	if s.Chance(3) {
		requests[corev1.ResourceEphemeralStorage] = resource.MustParse(draw.Pick(s, "512Mi", "1Gi"))
	}
	if s.Chance(1) {
		requests[gpu] = resource.MustParse("1")
	}
	return requests
}

// limitExtended: an extended resource must have its request for a limit.
func limitExtended(c *corev1.Container) {
	if count, ok := c.Resources.Requests[gpu]; ok {
		c.Resources.Limits = corev1.ResourceList{gpu: count}
	}
}

func addAffinity(s draw.Source, p *corev1.Pod) {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	weight := func() int32 { return draw.Pick[int32](s, 1, 50, 100) }
	switch s.Below(5) {
	case 0:
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{drawTerm(s, p)}}
	case 1:
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{drawTerm(s, p)}}
	case 2:
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: weight(), PodAffinityTerm: drawTerm(s, p)}}}
	case 3:
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: weight(), PodAffinityTerm: drawTerm(s, p)}}}
	case 4:
		if p.Spec.Affinity.NodeAffinity == nil {
			p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
		}
		p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{Weight: weight(), Preference: draw.NodeTerm(s)}}
	}
}

func drawTerm(s draw.Source, p *corev1.Pod) corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{TopologyKey: draw.Pick(s, draw.TopologyKeys...), LabelSelector: draw.Selector(s, p.Labels)}
	switch s.Below(6) {
	case 3:
		term.Namespaces = []string{otherNamespace}
	case 4:
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
	case 5:
		term.NamespaceSelector = &metav1.LabelSelector{}
	}
	return term
}

// addSpread gives one to three constraints, mostly, of which no two are of the same key and kind.
func addSpread(s draw.Source, p *corev1.Pod) {
	if !s.Chance(11) {
		return
	}
	for range 1 + s.Below(3) {
		c := drawSpread(s, p)
		if !slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(o corev1.TopologySpreadConstraint) bool {
			return o.TopologyKey == c.TopologyKey && o.WhenUnsatisfiable == c.WhenUnsatisfiable
		}) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
		}
	}
}

func drawSpread(s draw.Source, p *corev1.Pod) corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: draw.Pick[int32](s, 1, 1, 2, 3), TopologyKey: draw.Pick(s, draw.TopologyKeys...), WhenUnsatisfiable: draw.Pick(s, corev1.DoNotSchedule, corev1.ScheduleAnyway),
		LabelSelector:      draw.Selector(s, p.Labels),
		NodeAffinityPolicy: draw.Maybe(s, 6, corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor),
		NodeTaintsPolicy:   draw.Maybe(s, 6, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore),
	}
	if c.WhenUnsatisfiable == corev1.DoNotSchedule {
		c.MinDomains = draw.Maybe[int32](s, 4, 1, 2, 3)
	}
	for _, key := range draw.Some(s, 2, draw.LabelKeys...) {
		_, selected := c.LabelSelector.MatchLabels[key]
		if _, labelled := p.Labels[key]; labelled && !selected && !slices.ContainsFunc(c.LabelSelector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key }) {
			c.MatchLabelKeys = append(c.MatchLabelKeys, key)
		}
	}
	return c
}

// drawBudgets makes up to four budgets, some with room, some that know of pods which are gone already.
func drawBudgets(s draw.Source, pods []*corev1.Pod) []client.Object {
	var all []client.Object
	for i := range s.Below(5) {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: fmt.Sprintf("b%d", i)}}
		b.Spec.MinAvailable = new(intstr.FromInt32(1))
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: draw.Labels(s, 2)}
		if len(pods) > 0 {
			of := draw.Pick(s, pods...)
			b.Namespace, b.Spec.Selector.MatchLabels = of.Namespace, draw.Subset(s, 8, of.Labels)
		}
		b.Status.DisruptionsAllowed = draw.Pick[int32](s, 0, 0, 1, 2)
		if s.Chance(3) && len(pods) > 0 {
			b.Status.DisruptedPods = map[string]metav1.Time{draw.Pick(s, pods...).Name: {Time: epoch}}
		}
		all = append(all, b)
	}
	return all
}
