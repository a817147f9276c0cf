package controllers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Registered tells whether the API server calls the webhook for all that it should. Somebody who deletes a webhook configuration in an incident, or has
// it match less, and never puts it back, leaves nothing that fails: nobody is refused, no call goes wrong. It writes nothing: who did it
// may have meant it. It is the leader's.
type Registered struct {
	Client client.Reader
	// Configuration is the name of both webhook configurations.
	Configuration string
	// Want are the manifests of both, YAML documents (deploy.WebhookConfigurations).
	Want []byte
	// Tell reports what each entry lacks, by name; empty: nothing.
	Tell func(map[string]string)

	told map[string]string
}

// SetUp adds the controller to the manager.
func (r *Registered) SetUp(mgr ctrl.Manager) error {
	only := reconcile.Request{NamespacedName: types.NamespacedName{Name: r.Configuration}}
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{only} })
	ours := builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == r.Configuration }))
	err := ctrl.NewControllerManagedBy(mgr).Named("registered").
		// Of what is gone there is no event.
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(only)
			return nil
		})).
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, all, ours).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, all, ours).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller that looks at the webhook configurations: %w", err)
	}
	return nil
}

// Reconcile compares both configurations with their manifests.
func (r *Registered) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	want, err := entriesOf(r.Want)
	if err != nil {
		return reconcile.Result{}, err
	}
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	for _, o := range []client.Object{&mutating, &validating} {
		if err := r.Client.Get(ctx, types.NamespacedName{Name: r.Configuration}, o); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("read %T %s: %w", o, r.Configuration, err)
		}
	}
	have := append(mutatingEntries(mutating.Webhooks), validatingEntries(validating.Webhooks)...)
	lacks := map[string]string{}
	for _, w := range want {
		lacks[w.name] = lack(w, have)
		if now, before := lacks[w.name], r.told[w.name]; now != before {
			if now == "" {
				now = "nothing any more"
			}
			ctrl.LoggerFrom(ctx).Info("webhook configuration compared with its manifest", "webhook", w.name, "lacks", now)
		}
	}
	r.told = lacks
	r.Tell(lacks)
	return reconcile.Result{}, nil
}

// entry is what an entry of a webhook configuration has the API server call for.
type entry struct {
	name       string
	rules      []admissionregistrationv1.RuleWithOperations
	failure    *admissionregistrationv1.FailurePolicyType
	namespaces *metav1.LabelSelector
	objects    *metav1.LabelSelector
	conditions []admissionregistrationv1.MatchCondition
}

func mutatingEntries(all []admissionregistrationv1.MutatingWebhook) (entries []entry) {
	for _, w := range all {
		entries = append(entries, entry{w.Name, w.Rules, w.FailurePolicy, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions})
	}
	return entries
}

func validatingEntries(all []admissionregistrationv1.ValidatingWebhook) (entries []entry) {
	for _, w := range all {
		entries = append(entries, entry{w.Name, w.Rules, w.FailurePolicy, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions})
	}
	return entries
}

func entriesOf(manifests []byte) (entries []entry, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		var document runtime.RawExtension
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return entries, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the manifests of the webhook configurations: %w", err)
		}
		// Both kinds have the same fields here, but for what an entry does not look at.
		var c admissionregistrationv1.ValidatingWebhookConfiguration
		if err := yaml.Unmarshal(document.Raw, &c); err != nil {
			return nil, fmt.Errorf("read the manifests of the webhook configurations: %w", err)
		}
		entries = append(entries, validatingEntries(c.Webhooks)...)
	}
}

// lack says what an entry lacks; empty: nothing. Namespaces that are excluded beside ours are no lack: values, and AKS, exclude some. That only
// some namespaces are included is one.
func lack(want entry, all []entry) string {
	i := slices.IndexFunc(all, func(e entry) bool { return e.name == want.name })
	if i < 0 {
		return "the entry"
	}
	have := all[i]
	if rule := uncovered(want.rules, have.rules); rule != "" {
		return "a rule for " + rule
	}
	if want.failure != nil && *want.failure == admissionregistrationv1.Fail && have.failure != nil && *have.failure == admissionregistrationv1.Ignore {
		return "failurePolicy Fail"
	}
	if !selectsAll(have.objects) {
		return "objects that its objectSelector leaves out"
	}
	if includesSome(have.namespaces) {
		return "namespaces that its namespaceSelector does not include"
	}
	for _, c := range have.conditions {
		ours := func(o admissionregistrationv1.MatchCondition) bool { return o.Name == c.Name }
		if !slices.Contains(added(), c.Name) && !slices.ContainsFunc(want.conditions, ours) {
			return "what the match condition " + c.Name + " leaves out"
		}
	}
	return ""
}

// added are the match conditions that an entry may have beside its manifest's: the leader's, and those by which the chart excludes namespaces by the
// beginning of their names, and keeps pods out of limits that fail closed (deploy/chart/podgrace/templates/_helpers.tpl).
func added() []string { return []string{actorsCondition, "not-excluded", "kept", "no-mirror-pod"} }

func selectsAll(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

func includesSome(s *metav1.LabelSelector) bool {
	return s != nil && (len(s.MatchLabels) > 0 || slices.ContainsFunc(s.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
		return e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpExists
	}))
}

// uncovered returns the first operation and resource of the rules that is wanted and not had.
func uncovered(want, have []admissionregistrationv1.RuleWithOperations) string {
	for _, w := range want {
		for _, operation := range w.Operations {
			for _, resource := range w.Resources {
				covers := func(h admissionregistrationv1.RuleWithOperations) bool {
					return among(h.Operations, operation) && among(h.Resources, resource) && all(h.APIGroups, w.APIGroups) && all(h.APIVersions, w.APIVersions) &&
						(h.Scope == nil || *h.Scope == admissionregistrationv1.AllScopes || w.Scope != nil && *h.Scope == *w.Scope)
				}
				if !slices.ContainsFunc(have, covers) {
					return fmt.Sprintf("%s of %s", operation, strings.TrimSuffix(resource+"."+strings.Join(w.APIGroups, ","), "."))
				}
			}
		}
	}
	return ""
}

// among says whether a rule's list has a word, or the wildcard.
func among[T ~string](list []T, word T) bool {
	return slices.Contains(list, word) || slices.Contains(list, "*")
}

func all(list, words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !among(list, word) })
}

// RegisteredMetric reports what Registered tells. Only the leader has it.
type RegisteredMetric struct{ registered *prometheus.GaugeVec }

// NewRegisteredMetric registers the metric.
func NewRegisteredMetric(registry prometheus.Registerer) *RegisteredMetric {
	m := &RegisteredMetric{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "podgrace_webhook_registered",
		Help: "1 for each entry of the webhook configurations by which API servers ask for all that they should; 0: it is not there, or was narrowed. Reported by the leader only.",
	}, []string{"webhook"})}
	registry.MustRegister(m.registered)
	return m
}

// Set reports what each entry lacks.
func (m *RegisteredMetric) Set(lacks map[string]string) {
	for webhook, lack := range lacks {
		value := 0.0
		if lack == "" {
			value = 1
		}
		m.registered.WithLabelValues(webhook).Set(value)
	}
}

// Reset removes the metric, for a replica that has lost leadership.
func (m *RegisteredMetric) Reset() { m.registered.Reset() }
