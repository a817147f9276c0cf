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
func answer(result defaulting.Result) admission.Response {
	values := encode(result.Changes)
	response := admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed:          len(result.Denials) == 0,
		AuditAnnotations: audit(result, values),
	}}
	for _, w := range result.Warnings {
		response.Warnings = append(response.Warnings, string(w))
	}
	if !response.Allowed {
		response.Result = refusal(result.Denials)
		return response
	}
	response.Patches = make([]jsonpatch.Operation, len(result.Changes))
	for i, c := range result.Changes {
		response.Patches[i] = jsonpatch.Operation{Operation: string(c.Operation), Path: c.Path}
		if values[i] != nil {
			response.Patches[i].Value = values[i]
		}
	}
	return response
}

// encode marshals what changes write, once for both the patch and the audit log; nil for a removal.
func encode(changes []defaulting.Change) []json.RawMessage {
	values := make([]json.RawMessage, len(changes))
	for i, c := range changes {
		if c.Operation == defaulting.OperationRemove {
			continue
		}
		text, err := json.Marshal(c.Value)
		if err != nil {
			panic(err) // core types, strings and numbers can be marshalled; the server would answer that it failed
		}
		values[i] = text
	}
	return values
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
		Reason:  metav1.StatusReason(denials[0].Reason.Code),
		Message: strings.Join(messages, "; "),
	}
}

// maxAuditValue keeps the audit log readable; the whole value is in the object.
const maxAuditValue = 200

// audit says in the API server's audit log what was decided and why. The API server puts the webhook's name before each
// key.
func audit(result defaulting.Result, values []json.RawMessage) map[string]string {
	annotations := map[string]string{}
	if len(result.Policies) > 0 {
		annotations["policies"] = strings.Join(result.Policies, ",")
	}
	if len(result.Exceptions) > 0 {
		annotations["exceptions"] = inAudit(result.Exceptions)
	}
	for i, c := range result.Changes {
		annotations[auditKey(c)] = auditValue(c, values[i]) + " (" + c.Why + ")"
	}
	if len(result.Denials) > 0 {
		reasons := make([]string, len(result.Denials))
		for i, d := range result.Denials {
			reasons[i] = d.Reason.Code
		}
		annotations["denied"] = strings.Join(slices.Compact(reasons), ",")
	}
	return annotations
}

// inAudit are the exceptions that made a difference.
func inAudit(lifted []defaulting.Lifted) string {
	words := make([]string, len(lifted))
	for i, l := range lifted {
		words[i] = l.Audit()
	}
	return strings.Join(words, "; ")
}

// auditKey is the field's name, that of an annotation, whatever level of it is written, or that of a probe whose grace period it is.
func auditKey(c defaulting.Change) string {
	if probe, is := defaulting.ProbeOf(c.Path); is {
		return probe
	}
	switch c.Section {
	case "node":
		return "enforcement"
	case "removal":
		return "protected"
	}
	return c.Path[strings.LastIndex(c.Path, "/")+1:]
}

func auditValue(c defaulting.Change, value json.RawMessage) string {
	if value == nil {
		return "removed"
	}
	if s, ok := c.Value.(string); ok {
		return s
	}
	if len(value) > maxAuditValue {
		return strings.ToValidUTF8(string(value[:maxAuditValue]), "") + "..."
	}
	return string(value)
}

// missed allows a request that could not be judged, counts it and says so.
func (e *Engine) missed(path, what string, err error) admission.Response {
	e.Metrics.miss(path)
	return admission.Allowed("").WithWarnings(string(defaulting.Shorten(fmt.Sprintf("podgrace: %s: %v", what, err))))
}

// badRequest is for what no API server sends.
func badRequest(format string, args ...any) admission.Response {
	return admission.Errored(http.StatusBadRequest, fmt.Errorf(format, args...))
}
