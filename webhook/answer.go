package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/defaulting"
)

// answer writes a decision as the API server wants it. The patch holds just the changes: fields that this version of
// Kubernetes' types does not know survive, and so do the arrays of others.
func answer(effective *defaulting.Effective, result defaulting.Result) admission.Response {
	response := admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed:          len(result.Denials) == 0,
		AuditAnnotations: audit(effective, result),
	}}
	for _, w := range result.Warnings {
		response.Warnings = append(response.Warnings, string(w))
	}
	if !response.Allowed {
		response.Result = refusal(result.Denials)
		return response
	}
	for _, c := range result.Changes {
		response.Patches = append(response.Patches, jsonpatch.Operation{Operation: string(c.Operation), Path: c.Path, Value: c.Value})
	}
	return response
}

// refusal is what the person reads: every denial, since mending one at a time is tiresome.
func refusal(denials []defaulting.Denial) *metav1.Status {
	messages := make([]string, len(denials))
	for i, d := range denials {
		messages[i] = d.Message
	}
	return &metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusForbidden,
		Reason:  metav1.StatusReason(denials[0].Reason),
		Message: strings.Join(messages, "; "),
	}
}

// maxAuditValue keeps the audit log readable; the whole value is in the object.
const maxAuditValue = 200

// audit says in the API server's audit log what was decided and why. The API server puts the webhook's name before each
// key.
func audit(effective *defaulting.Effective, result defaulting.Result) map[string]string {
	annotations := map[string]string{}
	if len(effective.Policies) > 0 {
		annotations["policies"] = strings.Join(effective.Policies, ",")
	}
	for _, c := range result.Changes {
		annotations[auditKey(c)] = fmt.Sprintf("%s (%s)", auditValue(c), c.Why)
	}
	if len(result.Denials) > 0 {
		reasons := make([]string, len(result.Denials))
		for i, d := range result.Denials {
			reasons[i] = d.Reason
		}
		annotations["denied"] = strings.Join(slices.Compact(reasons), ",")
	}
	return annotations
}

// auditKey is the field's name, or enforcement for the contract annotation, whatever level of it is written.
func auditKey(c defaulting.Change) string {
	if c.Section == "node" {
		return "enforcement"
	}
	return c.Path[strings.LastIndex(c.Path, "/")+1:]
}

func auditValue(c defaulting.Change) string {
	if c.Operation == defaulting.OperationRemove {
		return "removed"
	}
	if s, ok := c.Value.(string); ok {
		return s
	}
	text, err := json.Marshal(c.Value)
	if err != nil {
		return fmt.Sprint(c.Value)
	}
	if len(text) > maxAuditValue {
		return strings.ToValidUTF8(string(text[:maxAuditValue]), "") + "..."
	}
	return string(text)
}

// missed allows a request that could not be judged, and says so.
func missed(what string, err error) admission.Response {
	return admission.Allowed("").WithWarnings(string(defaulting.Shorten(fmt.Sprintf("podgrace: %s: %v", what, err))))
}

// badRequest is for what no API server sends.
func badRequest(format string, args ...any) admission.Response {
	return admission.Errored(http.StatusBadRequest, fmt.Errorf(format, args...))
}
