package controllers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/podgrace/podgrace/internal/kube"
	"github.com/podgrace/podgrace/policy"
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
	// Exempt are the namespaces that no policy is for, as the webhook has them. Others must not be left out.
	Exempt policy.Exempt
	// Tell reports what each entry lacks, by name; empty: nothing.
	Tell func(map[string]string)

	told    map[string]string
	differs map[string]string // what the log told last of exempt namespaces
}

// SetUp adds the controller to the manager.
func (r *Registered) SetUp(mgr ctrl.Manager) error {
	only := reconcile.Request{NamespacedName: types.NamespacedName{Name: r.Configuration}}
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{only} })
	ours := builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == r.Configuration }))
	err := ctrl.NewControllerManagedBy(mgr).Named("registered").WithOptions(controller.Options{RateLimiter: kube.Retries()}).
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
	want, err := entriesOf(r.Want, r.Exempt)
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
		lacks[w.name] = lack(w, have, r.Exempt)
		if now, before := lacks[w.name], r.told[w.name]; now != before {
			if now == "" {
				now = "nothing any more"
			}
			ctrl.LoggerFrom(ctx).Info("webhook configuration compared with its manifest", "webhook", w.name, "lacks", now)
		}
	}
	r.told = lacks
	r.Tell(lacks)
	r.compareExempt(ctx, have)
	return reconcile.Result{}, nil
}

// compareExempt tells where the API server leaves out other namespaces than the webhook, be they more or fewer, once for each difference: installed by hand, one can be forgotten.
func (r *Registered) compareExempt(ctx context.Context, have []entry) {
	differs := map[string]string{} // the entries by what they leave out
	for _, e := range have {
		if !e.excludesByName() {
			continue
		}
		what := ""
		read, err := policy.ReadExempt(r.Exempt.Own(), e.namespaces, conditionOf(e.conditions, policy.ExemptCondition))
		switch {
		case err != nil:
			what = err.Error()
		case !slices.Equal(read.Excluded(), r.Exempt.Excluded()):
			what = fmt.Sprintf("%q are left out, and --exclude-namespaces has %q", read.Excluded(), r.Exempt.Excluded())
		default:
			continue
		}
		differs[what] = strings.TrimSpace(differs[what] + " " + e.name)
	}
	for _, what := range slices.Sorted(maps.Keys(differs)) {
		if r.differs[what] != differs[what] {
			ctrl.LoggerFrom(ctx).Info("the webhook configuration excludes other namespaces than the webhook", "webhooks", differs[what], "difference", what)
		}
	}
	r.differs = differs
}

// entry is what an entry of a webhook configuration has the API server call for, and whom.
type entry struct {
	name       string
	mutating   bool
	client     admissionregistrationv1.WebhookClientConfig
	rules      []admissionregistrationv1.RuleWithOperations
	match      *admissionregistrationv1.MatchPolicyType
	failure    *admissionregistrationv1.FailurePolicyType
	namespaces *metav1.LabelSelector
	objects    *metav1.LabelSelector
	conditions []admissionregistrationv1.MatchCondition
}

func mutatingEntries(all []admissionregistrationv1.MutatingWebhook) (entries []entry) {
	for _, w := range all {
		entries = append(entries, entry{w.Name, true, w.ClientConfig, w.Rules, w.MatchPolicy, w.FailurePolicy, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions})
	}
	return entries
}

func validatingEntries(all []admissionregistrationv1.ValidatingWebhook) (entries []entry) {
	for _, w := range all {
		entries = append(entries, entry{w.Name, false, w.ClientConfig, w.Rules, w.MatchPolicy, w.FailurePolicy, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions})
	}
	return entries
}

// manifestNamespace is where the manifests have Podgrace run.
const manifestNamespace = "podgrace-system"

// entriesOf are those of the manifests, as they are installed where the webhook runs and excludes namespaces.
func entriesOf(manifests []byte, exempt policy.Exempt) (entries []entry, err error) {
	if own := exempt.Own(); own != "" {
		manifests = bytes.ReplaceAll(manifests, []byte(manifestNamespace), []byte(own))
	}
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
		RenderExempt(&c, exempt)
		for _, e := range validatingEntries(c.Webhooks) {
			e.mutating = c.Kind == "MutatingWebhookConfiguration"
			entries = append(entries, e)
		}
	}
}

// lack says what an entry lacks; empty: nothing. What values of the chart and the leader change is no lack, and neither is what AKS does to selectors.
func lack(want entry, all []entry, exempt policy.Exempt) string {
	i := slices.IndexFunc(all, func(e entry) bool { return e.name == want.name && e.mutating == want.mutating })
	if i < 0 {
		return "the entry"
	}
	have := all[i]
	if !sameService(want.client.Service, have.client.Service) {
		return "a call of Service " + serviceOf(want.client.Service)
	}
	if rule := uncovered(want.rules, have.rules); rule != "" {
		return "a rule for " + rule
	}
	if have.match != nil && *have.match == admissionregistrationv1.Exact {
		return "matchPolicy Equivalent"
	}
	if want.failure != nil && *want.failure == admissionregistrationv1.Fail && have.failure != nil && *have.failure == admissionregistrationv1.Ignore {
		return "failurePolicy Fail"
	}
	if !selectsAll(have.objects) {
		return "objects that its objectSelector leaves out"
	}
	if namespaces := leftOut(want, have, exempt); namespaces != "" {
		return namespaces
	}
	for _, c := range have.conditions {
		if !expected(c, want, exempt) {
			return "what the match condition " + c.Name + " leaves out"
		}
	}
	return ""
}

// sameService reports whether the same is called: a URL is nobody's Service.
func sameService(want, have *admissionregistrationv1.ServiceReference) bool {
	return want == nil || have != nil && serviceOf(want) == serviceOf(have)
}

func serviceOf(s *admissionregistrationv1.ServiceReference) string {
	path := ""
	if s.Path != nil {
		path = *s.Path
	}
	return s.Namespace + "/" + s.Name + path
}

// platformLabels are those by which AKS' admissions enforcer has webhooks leave out namespaces of its own, unless an annotation keeps it from that
// (https://learn.microsoft.com/azure/aks/faq: "Can admission controller webhooks impact kube-system and internal AKS namespaces?").
var platformLabels = []string{"control-plane", "kubernetes.azure.com/managedby"}

// leftOut says which namespaces an entry leaves out that its manifest does not and that policies may be for; empty: none.
func leftOut(want, have entry, exempt policy.Exempt) string {
	if includesSome(have.namespaces) {
		return "namespaces that its namespaceSelector does not include"
	}
	if have.namespaces == nil {
		return ""
	}
	for _, e := range have.namespaces.MatchExpressions {
		switch {
		case slices.Contains(platformLabels, e.Key):
		case e.Key != corev1.LabelMetadataName || e.Operator != metav1.LabelSelectorOpNotIn:
			return "namespaces that its namespaceSelector leaves out by the label " + e.Key
		default:
			for _, name := range e.Values {
				if want.namespaces == nil || !exempt.Has(name) {
					return "namespace " + name + ", which its namespaceSelector leaves out"
				}
			}
		}
	}
	return ""
}

// expected reports whether a match condition is one that the entry has by its manifest, or one that is added to it: the leader's, by which actors are allowed, and those by
// which the chart and the components exclude namespaces and have limits fail closed. A name alone says nothing of what an expression leaves out.
func expected(c admissionregistrationv1.MatchCondition, want entry, exempt policy.Exempt) bool {
	if expression := conditionOf(want.conditions, c.Name); expression != "" && expression == c.Expression {
		return true
	}
	if c.Name == policy.ExemptCondition {
		read, err := policy.ReadExempt(exempt.Own(), nil, c.Expression)
		// "true" is how kustomize writes that there are no beginnings. Fewer than the webhook has leave out less.
		return err == nil && want.namespaces != nil && !slices.ContainsFunc(read.Excluded(), func(pattern string) bool { return exempt.By(pattern) == "" })
	}
	return !want.mutating && ByLeader(want.name, c) || slices.Contains(LimitsClosed(want.name, cmp.Or(exempt.Own(), manifestNamespace)), c)
}

// excludesByName reports whether an entry leaves out namespaces by their names.
func (e *entry) excludesByName() bool {
	return e.namespaces != nil && slices.ContainsFunc(e.namespaces.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpNotIn
	})
}

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

// among reports whether a rule's list has a word, or the wildcard.
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
