package deploy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/podgrace/podgrace/deploy"
)

// hook is what a webhook or a ValidatingAdmissionPolicy is asked about.
type hook struct {
	name       string
	selector   *metav1.LabelSelector
	rules      []admissionregistrationv1.RuleWithOperations
	conditions []admissionregistrationv1.MatchCondition
	// judges: a failure of this one refuses the request.
	judges bool
	// timeout in seconds after which a webhook has failed.
	timeout int32
	// param is what kind of objects a policy is evaluated with, once for each.
	param *admissionregistrationv1.ParamKind
}

// hooks returns everything by which the API server could be held up.
func hooks(t *testing.T) []hook {
	t.Helper()
	found := slices.Concat(objects(t, deploy.WebhookConfigurations), objects(t, deploy.AdmissionPolicies))
	for _, file := range []string{"webhook/fencing.yaml", "components/volumelock/policies.yaml", "nodeenforcer/policies.yaml", "components/selfmanaged/policies.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, objects(t, text)...)
	}
	var all []hook
	for _, o := range found {
		switch o.GetKind() {
		case "MutatingWebhookConfiguration":
			for _, w := range as[admissionregistrationv1.MutatingWebhookConfiguration](t, o).Webhooks {
				all = append(all, hook{w.Name, w.NamespaceSelector, w.Rules, w.MatchConditions, *w.FailurePolicy == admissionregistrationv1.Fail, *w.TimeoutSeconds, nil})
			}
		case "ValidatingWebhookConfiguration":
			for _, w := range as[admissionregistrationv1.ValidatingWebhookConfiguration](t, o).Webhooks {
				all = append(all, hook{w.Name, w.NamespaceSelector, w.Rules, w.MatchConditions, *w.FailurePolicy == admissionregistrationv1.Fail, *w.TimeoutSeconds, nil})
			}
		case "ValidatingAdmissionPolicy":
			spec := as[admissionregistrationv1.ValidatingAdmissionPolicy](t, o).Spec
			h := hook{name: o.GetName(), selector: spec.MatchConstraints.NamespaceSelector, conditions: spec.MatchConditions, judges: true, param: spec.ParamKind}
			for _, r := range spec.MatchConstraints.ResourceRules {
				h.rules = append(h.rules, r.RuleWithOperations)
			}
			all = append(all, h)
		case "ValidatingAdmissionPolicyBinding":
			if as[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, o).Spec.MatchResources != nil {
				t.Errorf("binding %s selects by itself: these tests don't look at that", o.GetName())
			}
		default:
			t.Errorf("%s %s: these tests don't know it", o.GetKind(), o.GetName())
		}
	}
	if len(all) < 15 {
		t.Fatalf("only %d webhooks and policies", len(all))
	}
	return all
}

func objects(t *testing.T, text []byte) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
}

func as[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true); err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return typed
}

// judged are all resources that anything of ours is asked about when somebody else works with them. What is not here can't be
// blocked by it: leases, by which nodes and leaders live; certificate signing requests and tokens, by which a node joins; namespaces,
// secrets, CustomResourceDefinitions and webhook configurations, by which Podgrace is repaired or removed.
var judged = []string{
	"pods", "pods/eviction", "pods/status", "pods/ephemeralcontainers", "pods/resize", "pods/binding", "bindings",
	"apps/deployments", "apps/statefulsets", "apps/daemonsets", "apps/replicasets", "batch/jobs", "batch/cronjobs", "replicationcontrollers",
	"scheduling.k8s.io/podgroups", "scheduling.k8s.io/workloads",
	"nodes", "nodes/status", "storage.k8s.io/volumeattachments", "storage.k8s.io/volumeattachments/status", "podgrace.dev/podpolicies", "podgrace.dev/nodepolicies", "podgrace.dev/policyexceptions", "podgrace.dev/policyexceptions/status",
	"podgrace.dev/fences", "podgrace.dev/fencereceipts", "podgrace.dev/volumelocks", "podgrace.dev/volumelocks/status",
}

// judgedOfOurs are those that our own programs alone are held up by.
var judgedOfOurs = []string{"events.k8s.io/events", "secrets", "authentication.k8s.io/selfsubjectreviews"}

func TestOnlyKnownResourcesAreJudged(t *testing.T) {
	for _, h := range hooks(t) {
		for _, r := range h.rules {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					name := strings.TrimPrefix(group+"/"+resource, "/")
					known := slices.Contains(judged, name) || ofOurs(h) && slices.Contains(judgedOfOurs, name)
					if !known {
						t.Errorf("%s is asked about %s", h.name, name)
					}
				}
			}
			if slices.Contains(r.Operations, admissionregistrationv1.OperationAll) || slices.Contains(r.Operations, admissionregistrationv1.Connect) {
				t.Errorf("%s is asked about %v", h.name, r.Operations)
			}
			if r.Scope == nil || *r.Scope == admissionregistrationv1.AllScopes {
				t.Errorf("%s: a rule on %v is for whatever scope", h.name, r.Resources)
			}
		}
	}
}

// ours are conditions that keep a rule to what one of our programs does.
var ours = []string{
	"request.userInfo.username.matches('^system:serviceaccount:[^:]+:podgrace-nodeenforcer$')",
	"request.userInfo.username.matches('^system:serviceaccount:[^:]+:podgrace-webhook$')",
}

func ofOurs(h hook) bool {
	return slices.ContainsFunc(h.conditions, func(c admissionregistrationv1.MatchCondition) bool { return slices.Contains(ours, c.Expression) })
}

// Nothing of ours sees what is in kube-system and in Podgrace's own namespace, whoever asks, but for what our own programs do: else a
// cluster, or Podgrace, could wait for Podgrace to start.
func TestOwnNamespacesAreNeverJudged(t *testing.T) {
	for _, h := range hooks(t) {
		namespaced := slices.ContainsFunc(h.rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return *r.Scope == admissionregistrationv1.NamespacedScope
		})
		if !namespaced || ofOurs(h) {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(h.selector)
		if err != nil || h.selector == nil {
			t.Errorf("%s: no selector of namespaces: %v", h.name, err)
			continue
		}
		for _, namespace := range []string{"kube-system", "podgrace-system", "podgrace-node"} {
			if selector.Matches(labels.Set{"kubernetes.io/metadata.name": namespace, "any": "other"}) {
				t.Errorf("%s judges what is in %s", h.name, namespace)
			}
		}
		if !selector.Matches(labels.Set{"kubernetes.io/metadata.name": "shop"}) {
			t.Errorf("%s judges nothing in shop", h.name)
		}
	}
}

// clusterScoped are all rules on what is in no namespace, which no selector can exempt, and the condition that keeps each to what
// no node needs to start, join, report and leave by itself. Empty: no node has to do with such objects.
var clusterScoped = map[string]string{
	"node.removal.podgrace.dev DELETE nodes":                          "not-confirmed-off",
	"node.removal.podgrace.dev UPDATE nodes":                          "removes",
	"node.removal.podgrace.dev UPDATE nodes/status":                   "removes",
	"out-of-service.removal.podgrace.dev CREATE nodes":                "taint-added",
	"out-of-service.removal.podgrace.dev UPDATE nodes":                "taint-added",
	"nodes.mutate.podgrace.dev UPDATE nodes":                          "taint-added",
	"confirmed-node.removal.podgrace.dev DELETE nodes":                "confirmed-off",
	"confirmed-node.removal.podgrace.dev UPDATE nodes":                "confirmed-off",
	"confirmed-node.removal.podgrace.dev UPDATE nodes/status":         "confirmed-off",
	"open-node.removal.podgrace.dev DELETE nodes":                     "not-confirmed-off",
	"open-node.removal.podgrace.dev CREATE nodes":                     "removes-or-taint-added",
	"open-node.removal.podgrace.dev UPDATE nodes":                     "removes-or-taint-added",
	"open-node.removal.podgrace.dev UPDATE nodes/status":              "removes-or-taint-added",
	"open-node.removal.podgrace.dev DELETE volumeattachments":         "removes-or-taint-added",
	"volume-attachment.removal.podgrace.dev DELETE volumeattachments": "no-controller",
	"detach.removal.podgrace.dev DELETE volumeattachments":            "controller",
	"answers.podgrace.dev CREATE selfsubjectreviews":                  "webhook",
	"policies.validate.podgrace.dev CREATE podpolicies":               "spec-changed",
	"policies.validate.podgrace.dev UPDATE podpolicies":               "spec-changed",
	"policies.validate.podgrace.dev CREATE nodepolicies":              "spec-changed",
	"policies.validate.podgrace.dev UPDATE nodepolicies":              "spec-changed",
	"confirm-off.podgrace.dev UPDATE nodes":                           "confirms",
	"confirm-off.podgrace.dev UPDATE nodes/status":                    "confirms",
	"fences.podgrace.dev CREATE fences":                               "",
	"fence-receipts.podgrace.dev CREATE fencereceipts":                "not-by-the-fencer",
	"fence-receipts.podgrace.dev DELETE fencereceipts":                "not-by-the-fencer",
	"volume-locks.podgrace.dev CREATE volumelocks":                    "not-by-the-volume-lock",
	"volume-locks.podgrace.dev UPDATE volumelocks":                    "not-by-the-volume-lock",
	"volume-locks.podgrace.dev DELETE volumelocks":                    "not-by-the-volume-lock",
	"volume-locks.podgrace.dev UPDATE volumelocks/status":             "not-by-the-volume-lock",
	"volume-attachments.podgrace.dev UPDATE volumeattachments/status": "gated",
	"volume-attachment-names.podgrace.dev CREATE volumeattachments":   "kubelets-look-for-it",
	"own-node.podgrace.dev UPDATE nodes":                              "enforcer",
	"own-node.podgrace.dev UPDATE nodes/status":                       "enforcer",
}

func TestNodesBootstrapIsNeverJudged(t *testing.T) {
	found := map[string]bool{}
	for _, h := range hooks(t) {
		for _, r := range h.rules {
			if *r.Scope != admissionregistrationv1.ClusterScope {
				continue
			}
			for _, resource := range r.Resources {
				for _, operation := range r.Operations {
					name := h.name + " " + string(operation) + " " + resource
					found[name] = true
					condition, ok := clusterScoped[name]
					if !ok {
						t.Errorf("%s: what keeps it from a node's bootstrap?", name)
					}
					if condition != "" && !slices.ContainsFunc(h.conditions, func(c admissionregistrationv1.MatchCondition) bool { return c.Name == condition }) {
						t.Errorf("%s has no condition %s", name, condition)
					}
				}
			}
		}
	}
	for name := range clusterScoped {
		if !found[name] {
			t.Errorf("%s is no more", name)
		}
	}
}

// What fails closed is armed by a right on its namespace, or on all nodes, which it checks last. Only what keeps our own programs to their place is not.
func TestWhatFailsClosedIsArmed(t *testing.T) {
	const right = "&& authorizer.serviceAccount('podgrace-system', 'podgrace-in-force').group('podgrace.dev').resource('%s').namespace('podgrace-system')%s.check('judge').allowed()"
	ofNamespace, ofNodes := fmt.Sprintf(right, "guardednamespaces", ".name(request.namespace)"), fmt.Sprintf(right, "guardednodes", "")
	closed := 0
	for _, h := range hooks(t) {
		if !h.judges || !strings.HasSuffix(h.name, ".removal.podgrace.dev") && !strings.HasPrefix(h.name, "half-done-") || ofOurs(h) {
			continue
		}
		closed++
		armed, asking := ofNamespace, 0
		if *h.rules[0].Scope == admissionregistrationv1.ClusterScope {
			armed = ofNodes
		}
		for _, c := range h.conditions {
			if strings.HasSuffix(strings.TrimRight(c.Expression, ")"), strings.TrimRight(armed, ")")) && strings.Count(c.Expression, "authorizer") == 1 {
				asking++
			}
		}
		if asking != 1 {
			t.Errorf("%s: %d of its conditions ask whether the guard is armed", h.name, asking)
		}
	}
	if closed < 9 {
		t.Errorf("only %d webhooks and policies fail closed", closed)
	}
}

// What kubelets do to pods of users' namespaces too, static ones among them, waits for no webhook: it is asked about with a failure
// policy that lets it go on, or not at all.
func TestKubeletsWaitForNobody(t *testing.T) {
	const noKubelet = "!('system:nodes' in request.userInfo.groups && request.userInfo.username == 'system:node:' + oldObject.?spec.nodeName.orValue(''))"
	for _, h := range hooks(t) {
		if !h.judges || ofOurs(h) || strings.HasPrefix(h.name, "half-done") {
			continue // half-done: what is written to a pod that is force-deleted half-way, in-process; a kubelet's deletes have the pod's UID
		}
		for _, r := range h.rules {
			if r.APIGroups[0] != "" || *r.Scope != admissionregistrationv1.NamespacedScope || slices.Equal(r.Resources, []string{"pods/eviction"}) || h.name == "binding.podgrace.dev" {
				continue // a kubelet does neither
			}
			if !slices.ContainsFunc(h.conditions, func(c admissionregistrationv1.MatchCondition) bool { return c.Expression == noKubelet }) {
				t.Errorf("%s: %v of %v is judged for kubelets too", h.name, r.Operations, r.Resources)
			}
		}
	}
}

// A policy is evaluated once for each of its parameters: were these the pods of a namespace, or its objects of whatever kind, each request would
// cost the API server what there is of them. PodPolicies are few.
func TestParametersAreFew(t *testing.T) {
	for _, h := range hooks(t) {
		if h.param != nil && *h.param != (admissionregistrationv1.ParamKind{APIVersion: "podgrace.dev/v1alpha1", Kind: "PodPolicy"}) {
			t.Errorf("%s has parameters of kind %s %s: how many are there?", h.name, h.param.APIVersion, h.param.Kind)
		}
	}
}

// A drain's evictions go on while the webhook is away, and hardly wait for it. And each costs one call.
func TestDrainsWaitForNobody(t *testing.T) {
	asked := 0
	for _, h := range hooks(t) {
		evictions := slices.ContainsFunc(h.rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return slices.Contains(r.Resources, "pods/eviction")
		})
		withoutGrace := slices.ContainsFunc(h.conditions, func(c admissionregistrationv1.MatchCondition) bool {
			return strings.HasPrefix(c.Expression, "object.?deleteOptions.?gracePeriodSeconds.orValue(-1) == 0")
		})
		if !evictions || withoutGrace || ofOurs(h) {
			continue
		}
		if asked++; h.judges || h.timeout > 2 {
			t.Errorf("%s holds up a drain: a failure refuses %v, after %d s", h.name, h.judges, h.timeout)
		}
	}
	if asked != 1 {
		t.Errorf("%d webhooks and policies are asked about an ordinary eviction, want 1: each costs a call", asked)
	}
}
