package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"

	"github.com/podgrace/podgrace/deploy"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// Webhooks are Podgrace's webhook configurations as shipped, with the allowed actors as its leader renders them, and with the rights that its leader gives for
// the policies. They may be used by several goroutines at once.
type Webhooks struct {
	mutating, validating []hook
	rights               rights
}

// hook is one webhook.
type hook struct {
	selection
	name, path string
	// matcher is compiled when the first request gets as far; nil where there are no match conditions.
	matcher func() (matchconditions.Matcher, error)
}

// Calls is what the API server does about a request in one of the two phases.
type Calls struct {
	// Paths of Podgrace that it calls, each once, in order. The API server calls a path again for each webhook that has it.
	Paths []string
	// Webhooks are the names of those by which it calls, in order.
	Webhooks []string
	// Denials are what it refuses without a call, because a match condition failed to evaluate.
	Denials []Denial
	// Unknown is what the paths depend on and the request does not say. The safe side is to call.
	Unknown []string
}

// NewWebhooks reads the configurations. The policies are those in force.
func NewWebhooks(policies policy.Policies, exempt policy.Exempt) (*Webhooks, error) {
	return readWebhooks(deploy.WebhookConfigurations, policies, exempt)
}

func readWebhooks(text []byte, policies policy.Policies, exempt policy.Exempt) (*Webhooks, error) {
	objects, err := manifests("webhook configurations", text)
	if err != nil {
		return nil, err
	}
	w := &Webhooks{rights: rights{policies, exempt}}
	for _, o := range objects {
		controllers.RenderExempt(o, exempt)
		switch c := o.(type) {
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			for i := range c.Webhooks {
				err = errors.Join(err, add(&w.mutating, "admit", shared(&c.Webhooks[i])))
			}
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			controllers.RenderActors(c, policies.RemovalOfAll())
			for i := range c.Webhooks {
				err = errors.Join(err, add(&w.validating, "validating", &c.Webhooks[i]))
			}
		default:
			err = errors.Join(err, fmt.Errorf("webhook configurations: %T is none", o))
		}
	}
	return w, err
}

// shared is what a mutating webhook has in common with a validating one.
func shared(m *admissionregistrationv1.MutatingWebhook) *admissionregistrationv1.ValidatingWebhook {
	return &admissionregistrationv1.ValidatingWebhook{
		Name: m.Name, ClientConfig: m.ClientConfig, Rules: m.Rules, FailurePolicy: m.FailurePolicy, MatchPolicy: m.MatchPolicy,
		NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector, MatchConditions: m.MatchConditions,
	}
}

func add(hooks *[]hook, operation string, w *admissionregistrationv1.ValidatingWebhook) error {
	defaultWebhook(w)
	selection, err := newSelection(w.Rules, w.NamespaceSelector, w.ObjectSelector, *w.MatchPolicy)
	if err != nil {
		return fmt.Errorf("webhook %s: %w", w.Name, err)
	}
	if w.ClientConfig.Service == nil || w.ClientConfig.Service.Path == nil {
		return fmt.Errorf("webhook %s: it names no path", w.Name)
	}
	*hooks = append(*hooks, hook{
		selection: selection, name: w.Name, path: *w.ClientConfig.Service.Path,
		matcher: sync.OnceValues(func() (matchconditions.Matcher, error) {
			return compileConditions(conditionCompiler(), w.MatchConditions, plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, w.FailurePolicy, "webhook", operation, w.Name)
		}),
	})
	return nil
}

// Mutating says which paths are called to change the object.
func (w *Webhooks) Mutating(ctx context.Context, r Request) (Calls, error) {
	return w.calls(ctx, w.mutating, &r)
}

// Validating says which paths are called to judge the object, which is then as the mutating webhooks have made it.
func (w *Webhooks) Validating(ctx context.Context, r Request) (Calls, error) {
	return w.calls(ctx, w.validating, &r)
}

func (w *Webhooks) calls(ctx context.Context, hooks []hook, r *Request) (Calls, error) {
	var c Calls
	var unknown phrases
	evaluation := &evaluation{Request: r}
	for i := range hooks {
		h := &hooks[i]
		matches, sure := h.matches(r, evaluation.plain())
		if !matches {
			continue
		}
		rights := w.rights.recorder(r)
		result, err := h.match(ctx, evaluation, rights)
		if err != nil {
			return Calls{}, err
		}
		if result.Error != nil {
			c.Denials = append(c.Denials, Denial{Policy: h.name, Reason: metav1.StatusReasonForbidden, Message: result.Error.Error()})
		}
		if !result.Matches {
			continue
		}
		c.Webhooks = append(c.Webhooks, h.name)
		if !slices.Contains(c.Paths, h.path) {
			c.Paths = append(c.Paths, h.path)
		}
		if unknown.add(rights.unknown...); !sure {
			unknown.add(namespaceUnknown(r))
		}
	}
	c.Unknown = unknown
	return c, nil
}

// match asks the match conditions, if there are any.
func (h *hook) match(ctx context.Context, e *evaluation, rights *recorder) (matchconditions.MatchResult, error) {
	matcher, err := h.matcher()
	if matcher == nil || err != nil {
		return matchconditions.MatchResult{Matches: true}, err
	}
	versioned, err := e.versioned()
	if err != nil {
		return matchconditions.MatchResult{}, err
	}
	return matcher.Match(ctx, versioned, nil, rights), nil
}

func namespaceUnknown(r *Request) string {
	return "the labels of namespace " + r.AdmissionRequest.Namespace
}
