package review

import (
	"context"
	"encoding/json"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/manifest"
)

// isRecorded says whether a document is a request that the API server sent.
func isRecorded(d *manifest.Document) bool {
	return d.Kind == "AdmissionReview" && strings.HasPrefix(d.APIVersion, "admission.k8s.io/")
}

// recorded judges an AdmissionReview as it is: the request is the API server's, so that its own defaults are there already.
func (e *Engine) recorded(ctx context.Context, d *manifest.Document) (*Result, *manifest.Error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(d.JSON, &review); err != nil {
		return nil, &manifest.Error{File: d.File, Line: d.Line, Message: "decode the AdmissionReview: " + err.Error()}
	}
	req := review.Request
	if req == nil {
		return nil, &manifest.Error{File: d.File, Line: d.Line, Message: "the AdmissionReview has no request"}
	}
	r := &Result{
		Resource: recordedResource(req), Source: Source{File: d.File, Line: d.Line}, Operation: string(req.Operation), Subresource: req.SubResource,
		User: req.UserInfo.Username, Decision: Allowed,
	}
	s := &step{Engine: e, view: &view{State: e.State}, question: Question{User: req.UserInfo}, result: r}
	if err := s.admit(ctx, &admission.Request{AdmissionRequest: *req}); err != nil {
		return nil, d.Wrong(err)
	}
	return s.done(), nil
}

// recordedResource names the object; one that a controller creates has no name yet but the beginning of one.
func recordedResource(req *admissionv1.AdmissionRequest) Resource {
	kind := schema.GroupVersionKind(req.Kind)
	r := Resource{Kind: kind.Kind, Namespace: req.Namespace, Name: req.Name}
	r.APIVersion, _ = kind.ToAPIVersionAndKind()
	if r.Name == "" {
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal(req.Object.Raw, &o); err == nil {
			r.Name = o.Name
			if r.Name == "" {
				r.Name = strings.TrimSuffix(o.GenerateName, "-")
			}
		}
	}
	return r
}
