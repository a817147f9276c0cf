package main

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/graceperiod"
	"github.com/podgrace/podgrace/manifest"
	"github.com/podgrace/podgrace/review"
)

// concerned are those of a cluster's documents that an operation is about. Created are workloads, and pods that none of them makes: a workload's pods are as its template
// says. Removed are pods that have not ended, and Nodes: of a workload nothing can be force-deleted but those.
func concerned(documents []*manifest.Document, operation string) []*manifest.Document {
	// Kinds of which all objects are among the documents; and kubelets, which make the pods of their Nodes from files.
	makers := map[schema.GroupKind]bool{{Kind: "Node"}: true}
	for _, d := range documents {
		if !isPod(d) {
			makers[schema.FromAPIVersionAndKind(d.APIVersion, d.Kind).GroupKind()] = true
		}
	}
	return slices.DeleteFunc(documents, func(d *manifest.Document) bool {
		if !isPod(d) {
			return operation != review.OperationCreate && d.Kind != "Node"
		}
		var pod metav1.PartialObjectMetadata
		var status struct {
			Status struct {
				Phase corev1.PodPhase `json:"phase"`
			} `json:"status"`
		}
		if json.Unmarshal(d.JSON, &pod) != nil || json.Unmarshal(d.JSON, &status) != nil {
			return false // the review says what is wrong with it
		}
		owner := metav1.GetControllerOf(&pod)
		made := owner != nil && makers[schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()]
		return graceperiod.Terminal(status.Status.Phase) || made && operation == review.OperationCreate
	})
}

func isPod(d *manifest.Document) bool { return d.APIVersion == "v1" && d.Kind == "Pod" }
