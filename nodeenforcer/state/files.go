package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/pod/workloads"
)

// ReadPods reads the pods of a file: YAML or JSON, one document or many, Pods or lists of them, as kubectl prints them. Of a workload
// there is one pod, under the workload's name, as its controller would create it. Objects of other kinds are counted. Pods that name
// another node are left out.
//
// A manifest that was never in a cluster is planned as if it ran: namespace and name stand for its UID, a container's name for its id,
// and a request that is not set is the limit, as the API server would have it. All of its containers have their place in the plan,
// those that run before the others too; and so have those of a pod of a cluster that were never made.
func ReadPods(file, nodeName string) (pods []*corev1.Pod, others int, err error) {
	objects, err := readObjects(file)
	if err != nil {
		return nil, 0, err
	}
	for _, o := range objects {
		p, kind := podOf(o)
		switch {
		case p == nil:
			others++
		case nodeName == "" || p.Spec.NodeName == "" || p.Spec.NodeName == nodeName:
			pods = append(pods, asIfItRan(p, kind))
		}
	}
	if err := uniqueUIDs(file, pods); err != nil {
		return nil, 0, err
	}
	return pods, others, nil
}

// podOf is a pod itself, or the one of a workload and its kind; nil: there is none, or that of its controller is.
func podOf(o runtime.Object) (p *corev1.Pod, kind string) {
	if p, ok := o.(*corev1.Pod); ok {
		return p, ""
	}
	workload, ok := o.(metav1.Object)
	if !ok {
		return nil, ""
	}
	template, err := workloads.PodOf(o)
	if err != nil || template == nil {
		return nil, ""
	}
	template.Pod.Name = workload.GetName()
	return template.Pod, o.GetObjectKind().GroupVersionKind().Kind
}

// ReadNode reads the one Node of a file.
func ReadNode(file string) (*corev1.Node, error) {
	objects, err := readObjects(file)
	if err != nil {
		return nil, err
	}
	var nodes []*corev1.Node
	for _, o := range objects {
		if n, ok := o.(*corev1.Node); ok {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) != 1 {
		return nil, fmt.Errorf("%s: there are %d Nodes in it, want one", file, len(nodes))
	}
	return nodes[0], nil
}

// readObjects reads all objects of a file, those within lists one by one. Unknown kinds come as *runtime.Unknown.
func readObjects(file string) ([]runtime.Object, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read objects: %w", err)
	}
	defer f.Close()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	var objects []runtime.Object
	for d, wrong := range manifest.Read(file, f) {
		if wrong != nil {
			return nil, wrong
		}
		o, _, err := decoder.Decode(d.JSON, nil, nil)
		switch {
		case runtime.IsNotRegisteredError(err):
			o = &runtime.Unknown{Raw: d.JSON}
		case err != nil:
			return nil, manifest.Locate([]*manifest.Error{d.Wrong(err)})[0]
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// asIfItRan makes a manifest a pod that runs. The kind is that of its workload, if it is of one: a pod and workloads may share a name.
func asIfItRan(p *corev1.Pod, kind string) *corev1.Pod {
	p = p.DeepCopy()
	if p.Namespace == "" {
		p.Namespace = corev1.NamespaceDefault
	}
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			defaultRequests(&containers[i].Resources)
		}
	}
	p.Status.InitContainerStatuses = allMade(p.Spec.InitContainers, p.Status.InitContainerStatuses)
	p.Status.ContainerStatuses = allMade(p.Spec.Containers, p.Status.ContainerStatuses)
	if p.UID != "" || p.Status.Phase != "" {
		return p
	}
	p.UID = nameAsUID(p.Namespace, p.Name)
	if kind != "" {
		p.UID = nameAsUID(p.Namespace, strings.ToLower(kind)+"."+p.Name)
	}
	p.Status.Phase = corev1.PodRunning
	return p
}

// allMade has those containers run that were never made: the status does not name them, or without an id.
func allMade(containers []corev1.Container, statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	made := slices.DeleteFunc(statuses, func(s corev1.ContainerStatus) bool { return s.ContainerID == "" && s.State.Terminated == nil })
	for _, c := range containers {
		if !slices.ContainsFunc(made, func(s corev1.ContainerStatus) bool { return s.Name == c.Name }) {
			made = append(made, running(c.Name))
		}
	}
	return made
}

// nameAsUID is another one for each pod: a namespace has no dot in it. What is too long for a cgroup's name is shortened.
func nameAsUID(namespace, name string) types.UID {
	uid := namespace + "." + name
	if len(uid) > 100 {
		sum := sha256.Sum256([]byte(uid))
		uid = uid[:80] + "." + hex.EncodeToString(sum[:8])
	}
	return types.UID(uid)
}

func running(container string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container, ContainerID: "containerd://" + container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

// defaultRequests sets requests to limits where there are none (pkg/apis/core/v1/defaults.go SetDefaults_Pod, 1.36.3).
func defaultRequests(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, set := r.Requests[name]; set {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = limit
	}
}

func uniqueUIDs(file string, pods []*corev1.Pod) error {
	seen := map[types.UID]*corev1.Pod{}
	for _, p := range pods {
		if first := seen[p.UID]; first != nil {
			return fmt.Errorf("%s: pods %s/%s and %s/%s are one (UID %s)", file, first.Namespace, first.Name, p.Namespace, p.Name, p.UID)
		}
		seen[p.UID] = p
	}
	return nil
}

// sortPods orders pods by namespace and name, so that what is printed or stored of them does not depend on the source.
func sortPods(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}
