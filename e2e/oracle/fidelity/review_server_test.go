package fidelity

import (
	"context"
	"errors"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	policygeneric "k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	apiwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/deploy"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/controllers"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

var _ = core.Kind // the kinds of the other groups are installed by their imports

// router is the API server's own routing of requests to webhooks and its evaluation of admission policies, over Podgrace's
// manifests. It is used by one goroutine.
type router struct {
	webhook *generic.Webhook
	// hooks by whether actors are rendered.
	mutating   []apiwebhook.WebhookAccessor
	validating map[bool][]apiwebhook.WebhookAccessor
	policies   []validating.PolicyHook
	dispatcher interface {
		Dispatch(context.Context, admission.Attributes, admission.ObjectInterfaces, []validating.PolicyHook) error
	}
	interfaces admission.ObjectInterfaces
	podPolicy  cache.Indexer
	right      apiserver.Answer
	idle       bool
}

func newRouter(t *testing.T) *router {
	t.Helper()
	r := &router{validating: map[bool][]apiwebhook.WebhookAccessor{}, interfaces: admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	for _, name := range []string{namespace, otherNamespace, "kube-system", "podgrace-system"} {
		if err := factory.Core().V1().Namespaces().Informer().GetIndexer().Add(namespaceOf(name)); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if r.webhook, err = generic.NewWebhook(admission.NewHandler(), nil, func(informers.SharedInformerFactory) generic.Source { return nil }, func(*webhookutil.ClientManager) generic.Dispatcher { return nil }); err != nil {
		t.Fatal(err)
	}
	r.webhook.SetExternalKubeClientSet(fake.NewClientset())
	r.webhook.SetExternalKubeInformerFactory(factory)
	r.webhook.SetAuthorizer(r)
	r.readWebhooks(t)
	r.podPolicy = newIndexer()
	r.readPolicies(t)
	r.dispatcher = validating.NewDispatcher(r, policygeneric.NewPolicyMatcher(matching.NewMatcher(factory.Core().V1().Namespaces().Lister(), fake.NewClientset())))
	return r
}

func newIndexer() cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// inForce is a policy for all namespaces that denies unsafe removals; idle: it allows them.
func inForce(idle bool, actors ...string) policy.Policies {
	action := v1alpha1.RemovalDeny
	if idle {
		action = v1alpha1.RemovalAllow
	}
	return policy.InForce([]v1alpha1.PodPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: action, AllowedActors: actors}}}})
}

// Authorize answers as the case does, and for the rights by which the API server asks the webhook as the leader gives them.
func (r *router) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	right := r.right
	if a.GetVerb() == controllers.ArmingVerb {
		right = apiserver.No
		asked := controllers.AskedOf(inForce(r.idle), []policy.Namespace{{Name: a.GetName()}}, policy.ExemptIn("podgrace-system"))
		if asked.Allows(a.GetResource(), a.GetName()) {
			right = apiserver.Yes
		}
	}
	switch right {
	case apiserver.Yes:
		return authorizer.DecisionAllow, "", nil
	case apiserver.No:
		return authorizer.DecisionDeny, "", nil
	}
	return authorizer.DecisionNoOpinion, "", errors.New("not known")
}

// Allowed is the same for the review.
func (c *routeCase) Allowed(context.Context, authenticationv1.UserInfo, authorizationv1.ResourceAttributes) apiserver.Answer {
	return c.Right
}

// stored decodes manifests as the API server stores them, with its defaults.
func stored(t *testing.T, text []byte) (objects []runtime.Object) {
	t.Helper()
	for _, document := range documents(t, text) {
		raw, err := yaml.YAMLToJSON(document)
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		legacyscheme.Scheme.Default(o)
		objects = append(objects, o)
	}
	return objects
}

func (r *router) readWebhooks(t *testing.T) {
	for _, rendered := range []bool{false, true} {
		for _, o := range stored(t, deploy.WebhookConfigurations) {
			switch c := o.(type) {
			case *admissionregistrationv1.MutatingWebhookConfiguration:
				for i := range c.Webhooks {
					if !rendered {
						r.mutating = append(r.mutating, apiwebhook.NewMutatingWebhookAccessor(c.Webhooks[i].Name, c.Name, &c.Webhooks[i]))
					}
				}
			case *admissionregistrationv1.ValidatingWebhookConfiguration:
				if rendered {
					controllers.RenderActors(c, inForce(false, userRepair.Username).RemovalOfAll())
				}
				for i := range c.Webhooks {
					r.validating[rendered] = append(r.validating[rendered], apiwebhook.NewValidatingWebhookAccessor(c.Webhooks[i].Name, c.Name, &c.Webhooks[i]))
				}
			}
		}
	}
}

// readPolicies builds the hooks that the API server's informers would.
func (r *router) readPolicies(t *testing.T) {
	bindings := map[string]*admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	objects := stored(t, deploy.AdmissionPolicies)
	for _, o := range objects {
		if b, ok := o.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding); ok {
			bindings[b.Spec.PolicyName] = b
		}
	}
	for _, o := range objects {
		p, ok := o.(*admissionregistrationv1.ValidatingAdmissionPolicy)
		if !ok {
			continue
		}
		hook := validating.PolicyHook{Policy: p, Bindings: []*validating.PolicyBinding{bindings[p.Name]}, Evaluator: evaluatorOf(t, p)}
		if p.Spec.ParamKind != nil {
			hook.ParamInformer, hook.ParamScope = &paramInformer{indexer: r.podPolicy}, meta.RESTScopeRoot
		}
		r.policies = append(r.policies, hook)
	}
}

// paramInformer has been filled already.
type paramInformer struct {
	cache.SharedIndexInformer
	indexer cache.Indexer
}

func (i *paramInformer) Informer() cache.SharedIndexInformer { return i }
func (i *paramInformer) HasSynced() bool                     { return true }
func (i *paramInformer) Lister() cache.GenericLister {
	return cache.NewGenericLister(i.indexer, schema.GroupResource{Resource: "podpolicies"})
}

// evaluatorOf compiles a policy as the plugin does (policy/validating/plugin.go compilePolicy, which is not exported).
func evaluatorOf(t *testing.T, p *admissionregistrationv1.ValidatingAdmissionPolicy) validating.Validator {
	t.Helper()
	spec := &p.Spec
	full := plugincel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range spec.Variables {
		compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, full, environment.StoredExpressions)
	}
	var conditions, validations []plugincel.ExpressionAccessor
	for i := range spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&spec.MatchConditions[i]))
	}
	messages := make([]plugincel.ExpressionAccessor, len(spec.Validations))
	for i, v := range spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		if v.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	return validating.NewValidator(compiler.CompileCondition(validations, full, environment.StoredExpressions),
		matchconditions.NewMatcher(compiler.CompileCondition(conditions, full, environment.StoredExpressions), spec.FailurePolicy, "policy", "validate", p.Name),
		compiler.CompileCondition(nil, full, environment.StoredExpressions),
		compiler.CompileCondition(messages, plugincel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil}, environment.StoredExpressions),
		spec.FailurePolicy, nil)
}

// attributesOf are the request's as the API server's handlers make them.
func attributesOf(c *routeCase) admission.Attributes {
	resource := schema.GroupVersionResource{Group: c.Kind.Group, Version: c.Kind.Version, Resource: c.Resource}
	if c.Resource == "pods" {
		resource = corev1.SchemeGroupVersion.WithResource("pods")
	}
	for _, o := range []runtime.Object{c.Object, c.Old} {
		if o != nil {
			o.GetObjectKind().SetGroupVersionKind(c.Kind)
		}
	}
	return admission.NewAttributesRecord(c.Object, c.Old, c.Kind, c.Namespace, c.Name, resource, c.Subresource, admission.Operation(c.Operation), c.Options, false,
		&user.DefaultInfo{Name: c.User.Username, Groups: c.User.Groups})
}

// versions converts for expressions.
type versions struct {
	admission.Attributes
	admission.ObjectInterfaces
}

func (v versions) VersionedAttribute(kind schema.GroupVersionKind) (*admission.VersionedAttributes, error) {
	return admission.NewVersionedAttributes(v.Attributes, kind, v.ObjectInterfaces)
}
