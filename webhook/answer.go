package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/defaulting"
)

// Answer writes a decision, or why there is none, as the API server wants it. The patch holds just the changes: fields that this version of
// Kubernetes' types does not know survive, and so do the arrays of others.
func Answer(d Decision, err error) admission.Response {
	if err != nil {
		return admission.Errored(codeOf(err), err)
	}
	values := encode(d.Changes)
	response := admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Allowed:          len(d.Denials) == 0,
		AuditAnnotations: audit(d, values),
	}}
	for _, w := range d.Warnings {
		response.Warnings = append(response.Warnings, w.Message)
	}
	if !response.Allowed {
		response.Result = refusal(d)
		return response
	}
	response.Patches = make([]jsonpatch.Operation, len(d.Changes))
	for i, c := range d.Changes {
		response.Patches[i] = jsonpatch.Operation{Operation: string(c.Operation), Path: c.Path}
		if values[i] != nil {
			response.Patches[i].Value = values[i]
		}
	}
	return response
}

// codeOf an error is the code of the answer: what is no lookup's is the fault of the request, which no API server sends.
func codeOf(err error) int32 {
	switch {
	case apierrors.IsNotFound(err): // kubectl drain takes it for done
		return http.StatusNotFound
	case errors.Is(err, errLookup), errors.Is(err, errNotReady):
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
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
func refusal(d Decision) *metav1.Status {
	messages := make([]string, len(d.Denials))
	for i, denial := range d.Denials {
		messages[i] = denial.Message
	}
	status := &metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusForbidden,
		Reason:  metav1.StatusReason(d.Denials[0].Reason.Code),
		Message: strings.Join(messages, "; "),
	}
	if d.Invalid != nil {
		status.Code, status.Details = http.StatusUnprocessableEntity, &metav1.StatusDetails{}
		for _, cause := range d.Invalid {
			status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Type: metav1.CauseType(cause.Type), Field: cause.Field, Message: cause.ErrorBody()})
		}
	}
	return status
}

// maxAuditValue keeps the audit log readable; the whole value is in the object.
const maxAuditValue = 200

// audit says in the API server's audit log what was decided and why. The API server puts the webhook's name before each
// key.
func audit(d Decision, values []json.RawMessage) map[string]string {
	annotations := map[string]string{}
	if len(d.Policies) > 0 {
		annotations["policies"] = strings.Join(d.Policies, ",")
	}
	if len(d.Exceptions) > 0 {
		annotations["exceptions"] = defaulting.AuditOf(d.Exceptions)
	}
	for i, c := range d.Changes {
		if c.Why != "" { // it follows from a policy
			annotations[c.Name()] = auditValue(c, values[i]) + " (" + c.Why + ")"
		}
	}
	switch {
	case d.Removal != nil:
		annotations["removal"], annotations["verdict"], annotations["reason"] = string(d.Removal.Road), string(d.Removal.Verdict), d.Removal.Reason.Code
	case len(d.Denials) > 0:
		reasons := make([]string, len(d.Denials))
		for i, denial := range d.Denials {
			reasons[i] = denial.Reason.Code
		}
		annotations["denied"] = strings.Join(slices.Compact(reasons), ",")
	}
	if len(annotations) == 0 {
		return nil // as it is sent
	}
	return annotations
}

// auditValue is Change.Text of a value that is encoded already, cut.
func auditValue(c defaulting.Change, value json.RawMessage) string {
	if _, ok := c.Value.(string); ok || value == nil {
		return c.Text()
	}
	if len(value) > maxAuditValue {
		return strings.ToValidUTF8(string(value[:maxAuditValue]), "") + "..."
	}
	return string(value)
}

// heardAnswer is the warning by which a replica shows that it was asked.
const heardAnswer = "podgrace: a replica of the webhook answers"

// Answers answers /answers: the request that Answered makes the API server send to a replica.
func (e *Engine) Answers(context.Context, admission.Request) admission.Response {
	if !e.Ready() {
		return admission.Allowed("")
	}
	return admission.Allowed("").WithWarnings(heardAnswer)
}

// Answered creates a SelfSubjectReview, for which the API server calls the webhook answers.podgrace.dev: the warning in the response comes from a replica. That
// proves the whole way: the Service, its endpoints, the network and the certificate.
func Answered(config *rest.Config) func(context.Context) error {
	return func(ctx context.Context) error {
		var heard atomic.Bool
		own := rest.CopyConfig(config)
		own.WarningHandler, own.WarningHandlerWithContext = hearing{&heard}, nil
		kube, err := authenticationclient.NewForConfig(own)
		if err != nil {
			return fmt.Errorf("make a client: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // more than the webhook may take
		defer cancel()
		if _, err := kube.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("ask the API server who this is: %w", err)
		}
		if !heard.Load() {
			return errors.New("the API server got no answer from any replica")
		}
		return nil
	}
}

// hearing notes whether a response has the warning of a replica.
type hearing struct{ heard *atomic.Bool }

// HandleWarningHeader is for rest.WarningHandler.
func (h hearing) HandleWarningHeader(_ int, _, text string) {
	if strings.Contains(text, heardAnswer) {
		h.heard.Store(true)
	}
}
