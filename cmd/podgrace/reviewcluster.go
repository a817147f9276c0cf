package main

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// concerned are those of a cluster's documents that an operation is about. Created are workloads that nobody makes and that have not ended, and pods that none of them makes: a
// workload's pods are as its template says. Removed are pods that have not ended, and Nodes: of a workload nothing can be force-deleted but those.
func concerned(documents []*manifest.Document, operation string) []*manifest.Document {
	objects := make(map[*manifest.Document]*object, len(documents))
	makers := map[types.UID]*object{}
	for _, d := range documents {
		o, err := objectOf(d)
		if err != nil {
			continue // the review says what is wrong with it
		}
		objects[d] = o
		if o.UID != "" && !isPod(d) {
			makers[o.UID] = o
		}
	}
	return slices.DeleteFunc(documents, func(d *manifest.Document) bool {
		o := objects[d]
		switch {
		case o == nil:
			return false
		case operation != review.OperationCreate && isPod(d):
			return graceperiod.Terminal(o.Status.Phase)
		case operation != review.OperationCreate:
			return d.Kind != "Node"
		case isPod(d):
			return graceperiod.Terminal(o.Status.Phase) || o.mirror() || judgedBy(o, makers)
		}
		return d.Kind == "Node" || o.ended() || o.ofBuiltIn() || judgedBy(o, makers)
	})
}

// object is what of a document says who makes it and whether it has ended.
type object struct {
	metav1.PartialObjectMetadata
	Spec struct {
		Replicas *int32 `json:"replicas"`
	} `json:"spec"`
	Status struct {
		Phase      corev1.PodPhase        `json:"phase"`
		Conditions []batchv1.JobCondition `json:"conditions"`
	} `json:"status"`
}

func objectOf(d *manifest.Document) (*object, error) {
	var o object
	if err := json.Unmarshal(d.JSON, &o); err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", d.Kind, d.Name, err)
	}
	o.SetGroupVersionKind(schema.FromAPIVersionAndKind(d.APIVersion, d.Kind))
	return &o, nil
}

// mirror reports whether the object is the pod of a static pod, which its kubelet makes from a file.
func (o *object) mirror() bool { return o.Annotations[corev1.MirrorPodAnnotationKey] != "" }

// ended reports whether nothing more is created by it: a Job at its end, an old revision.
func (o *object) ended() bool {
	finished := o.Kind == "Job" && slices.ContainsFunc(o.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
	return finished || metav1.GetControllerOf(o) != nil && o.Spec.Replicas != nil && *o.Spec.Replicas == 0
}

// ofBuiltIn reports whether a Deployment or a CronJob makes it, by whose template it is judged and not by its own (workloads.PodOf).
func (o *object) ofBuiltIn() bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && notOfPods(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind())
}

// notOfPods reports whether a built-in kind makes workloads, and no pods.
func notOfPods(kind schema.GroupKind) bool {
	return kind == appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind() || kind == batchv1.SchemeGroupVersion.WithKind("CronJob").GroupKind()
}

// judgedBy reports whether an object is judged by what makes it. That has to have been listed, by its UID: a pod may name any owner, and a kind may be one that may not be listed.
func judgedBy(o *object, makers map[types.UID]*object) bool {
	owner := metav1.GetControllerOf(o)
	if owner == nil {
		return false
	}
	maker := makers[owner.UID]
	switch {
	case maker == nil || maker.Kind == "Node":
		return false
	case o.Kind == "Pod" && notOfPods(maker.GroupVersionKind().GroupKind()):
		return false
	case maker.ofBuiltIn():
		return makers[metav1.GetControllerOf(maker).UID] != nil
	}
	return true
}

func isPod(d *manifest.Document) bool { return d.APIVersion == "v1" && d.Kind == "Pod" }
