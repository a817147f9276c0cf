package diff

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/delta"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

// What is not known of pods that run. How a pod was asked for can't be seen in it: what a policy gave it looks like a choice.
const (
	unknownTemplate = "the template of a running pod, whose owner is not among the inputs"
	unknownRequest  = "how a running pod without an owner was asked for"
)

// outcome is what a pod would get from the policies: its fields that policies decide, or a refusal.
type outcome struct {
	fields  map[string]any
	refused string
}

// difference is what a pod that runs has otherwise than it would get.
type difference struct {
	fields  []delta.Field
	refused string
}

func outcomeOf(r *review.Result) *outcome {
	if r.Decision == review.Denied {
		return &outcome{refused: refusal(r)}
	}
	return &outcome{fields: decided(delta.Tree(r.After))}
}

// decidedFields are those of a pod's spec that policies decide, and what follows from them, with what a pod has that does not say it.
// A manifest of a pod that runs may be shortened, or from a time before preemptionPolicy.
var decidedFields = map[string]any{
	"priorityClassName": nil, "priority": json.Number("0"), "preemptionPolicy": string(corev1.PreemptLowerPriority),
	"terminationGracePeriodSeconds": json.Number("30"), "topologySpreadConstraints": nil,
}

// decided keeps of a pod what policies decide. Selectors of constraints are left out: they follow from labels that a controller writes,
// and the API server adds to them.
func decided(pod map[string]any) map[string]any {
	spec := map[string]any{}
	from, _ := pod["spec"].(map[string]any)
	for name, value := range decidedFields {
		if given, ok := from[name]; ok {
			value = given
		}
		if value != nil && value != "" {
			spec[name] = value
		}
	}
	if list, ok := spec["topologySpreadConstraints"].([]any); ok {
		for _, c := range list {
			if constraint, ok := c.(map[string]any); ok {
				delete(constraint, "labelSelector")
			}
		}
		if len(list) == 0 {
			delete(spec, "topologySpreadConstraints")
		}
	}
	kept := map[string]any{}
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if value, ok := annotations[v1alpha1.AnnotationEnforcement]; ok {
		kept[v1alpha1.AnnotationEnforcement] = value
	}
	return map[string]any{"spec": spec, "metadata": map[string]any{"annotations": kept}}
}

// today compares a pod that runs with what it would get if it were created today.
func (j *judge) today(ctx context.Context, i *item) error {
	var would *outcome
	if maker := j.items.maker(i); maker != nil {
		would = maker.decided
	}
	if would == nil {
		var err error
		if would, err = j.asItIs(ctx, i); err != nil || would == nil {
			return err
		}
	}
	d := &difference{refused: would.refused}
	if d.refused == "" {
		d.fields = delta.FieldsOfTrees(decided(delta.Tree(i.document.JSON)), would.fields)
	}
	if d.refused != "" || len(d.fields) > 0 {
		i.differs = d
	}
	return nil
}

// asItIs is what the pod would get if somebody asked for it as it is: less than it may get, because what policies gave it looks like a
// choice.
func (j *judge) asItIs(ctx context.Context, i *item) (*outcome, error) {
	pod, err := rewritten(i.document, func(pod map[string]any) {
		if spec, ok := pod["spec"].(map[string]any); ok { // the API server computes these, and refuses others
			delete(spec, "priority")
			delete(spec, "preemptionPolicy")
		}
	})
	if err != nil {
		return nil, err
	}
	r, wrong := j.To.Review(ctx, pod, review.Question{User: j.User})
	if wrong != nil {
		return nil, wrong
	}
	if r == nil {
		return nil, nil
	}
	i.miss(r.Unknown...)
	if i.controller == nil {
		i.miss(unknownRequest)
	} else {
		i.miss(unknownTemplate)
	}
	return outcomeOf(r), nil
}

// runningPod is a pod of a workload as it would run after its creation. The engine would make the same of the workload, and judge the
// creation again for each question.
func runningPod(d *manifest.Document, created json.RawMessage) *manifest.Document {
	pod := delta.Object(created)
	metadata, spec := member(pod, "metadata"), member(pod, "spec")
	if name, _ := metadata["name"].(string); name == "" {
		prefix, _ := metadata["generateName"].(string)
		metadata["name"] = prefix + "0"
	}
	metadata["uid"], spec["nodeName"], member(pod, "status")["phase"] = review.UID, review.SomeNode, corev1.PodRunning
	raw, err := json.Marshal(pod)
	if err != nil {
		panic(err) // it came out of JSON
	}
	return &manifest.Document{File: d.File, Line: d.Line, JSON: raw, APIVersion: "v1", Kind: "Pod"}
}

// member of an object that is an object, made where there is none.
func member(o map[string]any, name string) map[string]any {
	m, ok := o[name].(map[string]any)
	if !ok {
		m = map[string]any{}
		o[name] = m
	}
	return m
}

// withoutOwner is the document as if nobody managed it.
func withoutOwner(d *manifest.Document) (*manifest.Document, error) {
	return rewritten(d, func(o map[string]any) {
		if metadata, ok := o["metadata"].(map[string]any); ok {
			delete(metadata, "ownerReferences")
		}
	})
}

func rewritten(d *manifest.Document, change func(map[string]any)) (*manifest.Document, error) {
	o := delta.Object(d.JSON)
	change(o)
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode the %s: %w", d.Kind, err)
	}
	other := *d
	other.JSON = raw
	return &other, nil
}
