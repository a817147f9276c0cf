package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

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
