package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/deploy"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// hook is a webhook of either kind of configuration.
type hook struct {
	scope

	Configuration, Name string
	Client              admissionregistrationv1.WebhookClientConfig
	Annotations         map[string]string
	// Again reports whether it is asked again after other webhooks; Never of one that validates.
	Again admissionregistrationv1.ReinvocationPolicyType
	// Seconds that the API server waits for an answer.
	Seconds int32
	// CreatesPods reports whether it is asked about new pods.
	CreatesPods bool
}

func hooksOf(mutating []admissionregistrationv1.MutatingWebhookConfiguration, validating []admissionregistrationv1.ValidatingWebhookConfiguration) (all []hook) {
	for _, c := range mutating {
		for _, w := range c.Webhooks {
			h := hook{
				newScope(w.FailurePolicy, w.MatchPolicy, w.Rules, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions),
				c.Name, w.Name, w.ClientConfig, c.Annotations, admissionregistrationv1.NeverReinvocationPolicy, secondsOf(w.TimeoutSeconds), createsPods(w.Rules),
			}
			if w.ReinvocationPolicy != nil {
				h.Again = *w.ReinvocationPolicy
			}
			all = append(all, h)
		}
	}
	for _, c := range validating {
		for _, w := range c.Webhooks {
			all = append(all, hook{
				newScope(w.FailurePolicy, w.MatchPolicy, w.Rules, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions),
				c.Name, w.Name, w.ClientConfig, c.Annotations, admissionregistrationv1.NeverReinvocationPolicy, secondsOf(w.TimeoutSeconds), createsPods(w.Rules),
			})
		}
	}
	return all
}

// secondsOf has the API server's default, 10 s.
func secondsOf(timeout *int32) int32 {
	if timeout == nil {
		return 10
	}
	return *timeout
}

// isOwn reports whether it is Podgrace's, whatever its configuration is called.
func (h hook) isOwn() bool { return strings.HasSuffix(h.Name, "."+podgraceGroup) }

// ownHooks are Podgrace's webhooks in the cluster.
func (s *Snapshot) ownHooks() []hook {
	return slices.DeleteFunc(hooksOf(s.Mutating, s.Validating), func(h hook) bool { return !h.isOwn() })
}

// shipped are the webhooks as the manifests have them, in a namespace, leaving out what is exempt.
func shipped(namespace string, exempt policy.Exempt) []hook {
	var mutating []admissionregistrationv1.MutatingWebhookConfiguration
	var validating []admissionregistrationv1.ValidatingWebhookConfiguration
	for _, document := range documents(deploy.WebhookConfigurations, namespace) {
		var m admissionregistrationv1.MutatingWebhookConfiguration
		var v admissionregistrationv1.ValidatingWebhookConfiguration
		if err := yaml.Unmarshal(document, &m); err == nil && m.Kind == "MutatingWebhookConfiguration" {
			controllers.RenderExempt(&m, exempt)
			mutating = append(mutating, m)
		} else if err := yaml.Unmarshal(document, &v); err == nil {
			controllers.RenderExempt(&v, exempt)
			validating = append(validating, v)
		}
	}
	return hooksOf(mutating, validating)
}

const again = "install again (helm upgrade, or kubectl apply -k), and let nothing replace or change it"

// webhookConfigurations: they are there, whole, and as this version has them.
func webhookConfigurations(s *Snapshot) (found []Finding) {
	have := map[string]hook{}
	for _, h := range s.ownHooks() {
		have[h.Name] = h
	}
	var missing []string
	all := shipped(s.OwnNamespace, s.exempt())
	said := map[remark][]string{}
	for _, want := range all {
		h, is := have[want.Name]
		if !is {
			missing = append(missing, want.Name)
			continue
		}
		if what := differs(want, h, s.OwnNamespace); len(what) > 0 {
			r := remark{Warning, "not as this version of Podgrace ships it: " + strings.Join(what, "; "), again + "; if the installation is of another version, take podgrace of that one"}
			said[r] = append(said[r], h.Name)
		}
	}
	for _, r := range sortedRemarks(said) {
		found = append(found, Finding{Severity: r.severity, About: console.Noun(len(said[r]), "webhook", "webhooks") + " " + console.Some(said[r], 3, ", "), Message: r.message, Remedy: r.remedy})
	}
	if len(missing) > 0 {
		f := Finding{Severity: Error, About: "configurations " + configurationName, Message: fmt.Sprintf("the API server is not told of %s: what %s would have judged or changed passes", console.Some(missing, 4, ", "), console.Noun(len(missing), "it", "they")), Remedy: again}
		if len(missing) == len(all) {
			f.Message = "both are gone: the API server asks Podgrace nothing, and neither defaults nor the guard nor limits of the webhook hold"
		}
		found = append(found, f)
	}
	return found
}

// differs are the parts of a webhook that decide when it is asked, who, and whether it fails closed, as far as neither the leader nor a value of the chart is for them.
func differs(want, have hook, namespace string) (what []string) {
	have.Conditions = withoutLeaders(have.Name, have.Conditions)
	if isClosed(have, namespace) {
		want.scope = closed(want.Name, want.scope, namespace)
	}
	what = want.differs(have.scope)
	if w, h := called(want.Client), called(have.Client); w != h {
		what = append(what, fmt.Sprintf("it calls %s and not %s", h, w))
	}
	if want.Again != have.Again {
		what = append(what, fmt.Sprintf("reinvocationPolicy is %s and not %s", have.Again, want.Again))
	}
	// A value of the chart is for the others'.
	if waitsLess(have.Name) && have.Seconds > want.Seconds {
		what = append(what, fmt.Sprintf("timeoutSeconds is %d and not %d: while the webhook is away a drain or a removal waits so long for each pod", have.Seconds, want.Seconds))
	}
	return what
}

// called is who is called.
func called(c admissionregistrationv1.WebhookClientConfig) string {
	if c.URL != nil {
		return console.OneLine(*c.URL)
	}
	if c.Service == nil {
		return "nobody"
	}
	to := fmt.Sprintf("service %s/%s", c.Service.Namespace, c.Service.Name)
	if c.Service.Port != nil && *c.Service.Port != 443 {
		to += fmt.Sprintf(":%d", *c.Service.Port)
	}
	if c.Service.Path != nil {
		to += " " + *c.Service.Path
	}
	return to
}

// selects reports whether it is asked about objects of a namespace with these labels and its name.
func (h hook) selects(namespace string, with map[string]string) bool {
	if h.Namespaces == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(h.Namespaces)
	if err != nil {
		return true
	}
	set := labels.Merge(with, labels.Set{corev1.LabelMetadataName: namespace})
	return selector.Matches(set)
}

// expiresSoon is when an end of a CA is told. The webhook renews its own long before.
const expiresSoon = 7 * 24 * time.Hour

// caBundle: the API server can verify the webhook.
func caBundle(s *Snapshot) (found []Finding) {
	var without, expired, soon []string
	var when time.Time
	for _, h := range s.ownHooks() {
		if h.Client.URL != nil {
			continue
		}
		end := endOf(h.Client.CABundle)
		switch {
		case len(h.Client.CABundle) == 0 || end.IsZero():
			without = append(without, h.Name)
		case end.Before(s.Now):
			expired, when = append(expired, h.Name), end
		case end.Before(s.Now.Add(expiresSoon)):
			soon, when = append(soon, h.Name), end
		}
	}
	const remedy = "docs/certificates.md; the leader writes it, or cert-manager's cainjector"
	if len(without) > 0 {
		found = append(found, Finding{Severity: Error, About: "caBundle of " + console.Some(without, 2, ", "), Message: "there is no certificate in it, so that the API server trusts no webhook: every call fails. A tool that replaces the configurations leaves it so until the leader has seen it", Remedy: remedy + ". Let GitOps apply, and not replace"})
	}
	if len(expired) > 0 {
		found = append(found, Finding{Severity: Error, About: "caBundle of " + console.Some(expired, 2, ", "), Message: fmt.Sprintf("its last CA ended %s ago: every call fails", duration.HumanDuration(s.Now.Sub(when))), Remedy: remedy})
	}
	if len(soon) > 0 {
		found = append(found, Finding{Severity: Warning, About: "caBundle of " + console.Some(soon, 2, ", "), Message: fmt.Sprintf("its last CA ends in %s", duration.HumanDuration(when.Sub(s.Now))), Remedy: remedy})
	}
	return found
}

// endOf is when the last of a bundle's certificates ends; zero: it has none.
func endOf(bundle []byte) (last time.Time) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	return last
}

const disabled = "admissions.enforcer/disabled"

// admissionsEnforcer: AKS does not write into the configurations.
func admissionsEnforcer(s *Snapshot) []Finding {
	if !isDistribution(s, AKS) {
		return nil
	}
	for _, h := range s.ownHooks() {
		if h.Annotations[disabled] != "true" {
			return []Finding{{
				Severity: Warning, About: "configurations " + h.Configuration, Message: "without the annotation " + disabled + " AKS' admissions enforcer writes selectors into the webhooks: upgrades conflict with it, and GitOps undoes it for ever",
				Remedy: "upgrade with the chart's own value", StringValues: []string{`webhook.configurationAnnotations.admissions\.enforcer/disabled=true`},
			}}
		}
	}
	return nil
}

// waitsLess reports whether a webhook waits for less than the others: that for which a drain waits, and those that judge where nothing fails closed.
func waitsLess(name string) bool {
	return name == "plain-eviction.removal."+podgraceGroup || strings.HasPrefix(name, "open-")
}

// The shortest and the longest that the API server should wait for a webhook, in seconds: at 2 a slow moment of the network is a failure, and one that hangs holds up each pod for twice the longest
// (docs/install.md, While the webhook does not answer).
const (
	shortWait = 2
	longWait  = 10
)

// timeouts: nobody has changed that of one webhook, and none is one at which the webhook hardly answers, or holds up pods for long.
func timeouts(s *Snapshot) (found []Finding) {
	for value, hooks := range map[string][]hook{"webhook.timeoutSeconds.mutating": hooksOf(s.Mutating, nil), "webhook.timeoutSeconds.validating": hooksOf(nil, s.Validating)} {
		by := map[int32][]string{}
		for _, h := range hooks {
			if h.isOwn() && !waitsLess(h.Name) {
				by[h.Seconds] = append(by[h.Seconds], h.Name)
			}
		}
		most := int32(0) // as long as most of them; of as many the longer
		for seconds, names := range by {
			if len(names) > len(by[most]) || len(names) == len(by[most]) && seconds > most {
				most = seconds
			}
		}
		for seconds, names := range by {
			f := Finding{About: console.Noun(len(names), "webhook", "webhooks") + " " + console.Some(names, 3, ", "), Remedy: "set " + value + " of the chart: docs/install.md, While the webhook does not answer"}
			switch {
			case seconds != most:
				f.Severity, f.Message, f.Remedy = Warning, fmt.Sprintf("timeoutSeconds is %d, and %d of the others", seconds, most), again
			case seconds <= shortWait:
				f.Severity, f.Message = Warning, fmt.Sprintf("timeoutSeconds is %d: a slow moment of the network counts as no answer, and what could not be read in time as unknown", seconds)
			case seconds > longWait:
				f.Severity, f.Message = Note, fmt.Sprintf("timeoutSeconds is %d: where a replica hangs, each request waits for so long", seconds)
			default:
				continue
			}
			found = append(found, f)
		}
	}
	return found
}

// foreignWebhooks: no other webhook can keep Podgrace's own pods from being created while it is away itself.
func foreignWebhooks(s *Snapshot) (found []Finding) {
	var with map[string]string
	if s.Namespace != nil {
		with = s.Namespace.Labels
	}
	by := map[Severity][]string{}
	for _, h := range hooksOf(s.Mutating, s.Validating) {
		if h.isOwn() || h.Policy != admissionregistrationv1.Fail || !h.selects(s.OwnNamespace, with) || !h.CreatesPods {
			continue
		}
		severity := Warning
		if len(h.Conditions) > 0 {
			severity = Note
		}
		by[severity] = append(by[severity], h.Name)
	}
	for severity, blocking := range by {
		slices.Sort(blocking)
		f := Finding{
			Severity: severity, About: "webhook " + console.Some(slices.Compact(blocking), 3, ", "), Message: fmt.Sprintf("fails closed and is asked about pods of %s: while its own pods are away, none of Podgrace's can be replaced", s.OwnNamespace),
			Remedy: fmt.Sprintf("leave the namespace %s out of its namespaceSelector", s.OwnNamespace),
		}
		if severity == Note {
			f.Message += ", unless its match conditions, which were not evaluated, leave them out"
		}
		found = append(found, f)
	}
	return found
}

// podMutation is the webhook that gives pods what policies say.
const podMutation = "pods.mutate." + podgraceGroup

// mutationOrder: no other webhook changes pods after Podgrace was asked for the last time. The API server calls the webhooks that mutate by their configurations' names
// (k8s.io/apiserver/pkg/admission/configuration/mutating_webhook_manager.go, 0.36.3). After one has changed the object it calls once more those before it whose reinvocationPolicy is
// IfNeeded, in the same order, and where one of these changes it, also those between (plugin/webhook/mutating/dispatcher.go).
func mutationOrder(s *Snapshot) []Finding {
	all := hooksOf(s.Mutating, nil)
	i := slices.IndexFunc(all, func(h hook) bool { return h.Name == podMutation })
	if i < 0 {
		return nil // which webhook-configurations tells
	}
	own, later := all[i], []string(nil)
	onceMore := own.Again == admissionregistrationv1.IfNeededReinvocationPolicy
	for _, h := range all {
		if !h.isOwn() && h.CreatesPods && h.Configuration > own.Configuration && (!onceMore || h.Again == admissionregistrationv1.IfNeededReinvocationPolicy) {
			later = append(later, h.Name)
		}
	}
	if len(later) == 0 {
		return nil
	}
	slices.Sort(later)
	later = slices.Compact(later)
	f := Finding{
		Severity: Note, About: "webhook " + console.Some(later, 3, ", "),
		Message: fmt.Sprintf("asked about pods after Podgrace, and like it once more where others have changed them: what %s then of a pod's class, grace period, constraints or containers Podgrace does not see before the pod's validation, which refuses or warns about what policies would have made otherwise",
			console.Noun(len(later), "it changes", "they change")),
		Remedy: fmt.Sprintf("if pods are refused or warned about so: a name before %s for its configuration, or reinvocationPolicy: Never", own.Configuration),
	}
	if !onceMore {
		f.Severity, f.Remedy = Warning, "reinvocationPolicy: IfNeeded for "+podMutation+", as it is shipped: "+again
		f.Message = fmt.Sprintf("asked about pods after Podgrace, which is not asked again: what %s of a pod's class, grace period, constraints or containers Podgrace does not see before the pod's validation, which refuses or warns about what policies would have made otherwise",
			console.Noun(len(later), "it changes", "they change"))
	}
	return []Finding{f}
}

func createsPods(rules []admissionregistrationv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		has := func(all []string, one string) bool { return slices.Contains(all, one) || slices.Contains(all, "*") }
		creates := slices.Contains(r.Operations, admissionregistrationv1.Create) || slices.Contains(r.Operations, admissionregistrationv1.OperationAll)
		return creates && has(r.APIGroups, "") && (has(r.Resources, "pods") || slices.Contains(r.Resources, "*/*"))
	})
}
