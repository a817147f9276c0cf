package diff

import (
	"encoding/json"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// item is a document and what is found out about it.
type item struct {
	document  *manifest.Document
	namespace string
	// runs: a pod that is in a cluster already. finished: and has ended.
	runs, finished bool
	// controller of a pod, a ReplicaSet or a Job; nil: none.
	controller *metav1.OwnerReference
	// hash is a pod's label pod-template-hash.
	hash string
	// owns: pods that run were made of its template.
	owns bool

	done, judged  bool
	wrong         *manifest.Error
	resource      manifest.Resource
	request, user string
	changes       []Change
	unknown       []string
	// decided is what pods of its template would get; nil where that is not known.
	decided *outcome
	// differs is what a pod that runs has otherwise than it would get; nil: nothing.
	differs *difference
}

// judge notes that there are answers, and what was not known for them.
func (i *item) judge(results ...*review.Result) {
	i.judged = true
	for _, r := range results {
		i.miss(r.Unknown...)
	}
}

func (i *item) miss(phrases ...string) {
	for _, what := range phrases {
		if !slices.Contains(i.unknown, what) {
			i.unknown = append(i.unknown, what)
		}
	}
}

func (i *item) affected() bool { return len(i.changes) > 0 }

// key of an object among others, whatever its version.
type key struct {
	kind            schema.GroupKind
	namespace, name string
}

func keyOf(apiVersion, kind, namespace, name string) key {
	return key{schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind(), namespace, name}
}

// items are the documents, and each by what an owner reference names: those of custom workloads may make pods, too.
type items struct {
	list   []*item
	makers map[key]*item
	// pods that run, by the workload that they belong to.
	pods map[manifest.Resource]int
}

// classify looks at the documents without judging them.
func classify(documents []*manifest.Document, namespace string) *items {
	all := &items{makers: map[key]*item{}, pods: map[manifest.Resource]int{}}
	for _, d := range documents {
		i := &item{document: d, namespace: d.Namespace}
		if i.namespace == "" {
			i.namespace = namespace
		}
		switch {
		case d.Kind == "Pod" && d.APIVersion == "v1", d.Kind == "ReplicaSet", d.Kind == "Job":
			i.look()
		}
		if d.Templates < 2 { // of several, it is not known which a pod was made of
			all.makers[keyOf(d.APIVersion, d.Kind, i.namespace, d.Name)] = i
		}
		all.list = append(all.list, i)
	}
	for _, i := range all.list {
		if !i.runs || i.finished {
			continue
		}
		all.pods[all.owner(i)]++
		if maker := all.maker(i); maker != nil {
			maker.owns = true
		}
	}
	return all
}

// look reads what of an object says whose it is and whether it runs. What can't be read is told when it is judged.
func (i *item) look() {
	var o struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			NodeName string `json:"nodeName"`
		} `json:"spec"`
		Status struct {
			Phase corev1.PodPhase `json:"phase"`
		} `json:"status"`
	}
	if json.Unmarshal(i.document.JSON, &o) != nil {
		return
	}
	i.controller = metav1.GetControllerOf(&o.Metadata)
	i.hash = o.Metadata.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	i.runs = i.document.Kind == "Pod" && (o.Spec.NodeName != "" || o.Status.Phase != "")
	i.finished = graceperiod.Terminal(o.Status.Phase)
}

// maker of a pod: the object whose template it was made of. Without its ReplicaSet that is the Deployment, whose template may be a
// newer one. nil: not among the documents.
func (all *items) maker(pod *item) *item {
	owner := pod.controller
	if owner == nil {
		return nil
	}
	if maker := all.makers[keyOf(owner.APIVersion, owner.Kind, pod.namespace, owner.Name)]; maker != nil {
		return maker
	}
	if name, ok := deploymentOf(pod); ok {
		return all.makers[keyOf(appsv1.SchemeGroupVersion.String(), "Deployment", pod.namespace, name)]
	}
	return nil
}

// deploymentOf is the name of the Deployment of a pod's ReplicaSet, which is named by it and the hash of its template
// (pkg/controller/deployment/sync.go getNewReplicaSet, 1.36.3).
func deploymentOf(pod *item) (string, bool) {
	if pod.controller.Kind != "ReplicaSet" || pod.hash == "" {
		return "", false
	}
	return strings.CutSuffix(pod.controller.Name, "-"+pod.hash)
}

// owner is the workload that a pod belongs to, as a person knows it; the pod itself where it has none.
func (all *items) owner(pod *item) manifest.Resource {
	r := manifest.Resource{APIVersion: "v1", Kind: "Pod", Namespace: pod.namespace, Name: pod.document.Name}
	owner := pod.controller
	if owner == nil {
		return r
	}
	r.APIVersion, r.Kind, r.Name = owner.APIVersion, owner.Kind, owner.Name
	if maker := all.makers[keyOf(owner.APIVersion, owner.Kind, pod.namespace, owner.Name)]; maker != nil && maker.controller != nil {
		r.APIVersion, r.Kind, r.Name = maker.controller.APIVersion, maker.controller.Kind, maker.controller.Name
	} else if name, ok := deploymentOf(pod); ok {
		r.Kind, r.Name = "Deployment", name
	}
	return r
}
