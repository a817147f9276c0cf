package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// Answer is a fact that may be unknown.
type Answer int

// The answers. The zero value is Unknown.
const (
	Unknown Answer = iota
	No
	Yes
)

// Authorizer reports whether a user may do something. What is Unknown counts as not allowed.
type Authorizer interface {
	Allowed(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) Answer
}

// recorder asks an Authorizer for the API server's code, and keeps what it did not know, a phrase each.
type recorder struct {
	authorizer Authorizer
	// inForce are the rights by which the API server asks the webhook.
	inForce controllers.Asked
	unknown phrases
}

// rights are those that the leader gives for the policies in force.
type rights struct {
	policies policy.Policies
	exempt   policy.Exempt
}

// recorder returns one for a request.
func (r rights) recorder(of *Request) *recorder {
	ns := policy.Namespace{Name: of.AdmissionRequest.Namespace, Unknown: of.Namespace == nil}
	if of.Namespace != nil {
		ns.Labels = of.namespace().Labels
	}
	return &recorder{authorizer: of.Authorizer, inForce: controllers.AskedOf(r.policies, []policy.Namespace{ns}, r.exempt)}
}

// phrases are different ones, in the order in which they came up.
type phrases []string

func (p *phrases) add(more ...string) {
	for _, phrase := range more {
		if !slices.Contains(*p, phrase) {
			*p = append(*p, phrase)
		}
	}
}

// errRight is what the API server's own authorizer gives where it can't tell; expressions take it for no.
var errRight = errors.New("not known")

// Authorize is the API server's interface. Its expressions give it a context of their own.
func (r *recorder) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	answer := Unknown
	if a.GetAPIGroup() == v1alpha1.GroupVersion.Group && a.GetVerb() == controllers.ArmingVerb {
		answer = No
		if r.inForce.Allows(a.GetResource(), a.GetName()) {
			answer = Yes
		}
	} else if r.authorizer != nil && a.IsResourceRequest() {
		answer = r.authorizer.Allowed(ctx, userInfo(a.GetUser()), authorizationv1.ResourceAttributes{
			Verb: a.GetVerb(), Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource(), Subresource: a.GetSubresource(),
			Namespace: a.GetNamespace(), Name: a.GetName(),
		})
	}
	switch answer {
	case Yes:
		return authorizer.DecisionAllow, "", nil
	case No:
		return authorizer.DecisionNoOpinion, "", nil
	case Unknown:
	}
	r.unknown.add(rightOf(a))
	return authorizer.DecisionNoOpinion, "", errRight
}

func rightOf(a authorizer.Attributes) string {
	what := a.GetName()
	if a.GetNamespace() != "" {
		what = a.GetNamespace() + "/" + what
	}
	resource := a.GetResource()
	if a.GetAPIGroup() != "" {
		resource += "." + a.GetAPIGroup()
	}
	who := a.GetUser().GetName()
	if who == user.Anonymous {
		who = "the user"
	}
	return fmt.Sprintf("whether %s has the verb %s on %s %s", who, a.GetVerb(), resource, what)
}

func userInfo(u user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	for key, values := range u.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}
