package confirm

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy"
)

// A grant is a confirmation of another kind: that limits of a policy need not hold for some pods until a time. It is of the exception as it was shown:
// with another generation the API server does not take it.

// ExceptionFacts are what is known of an exception.
type ExceptionFacts struct {
	Now       time.Time
	Exception *v1alpha1.PolicyException
	// Asked is who wrote its spec last, as far as the API server recorded that; empty: it did not.
	Asked string
	// Policy is the one whose limits are to be lifted; nil: it is not there, or can't be read, which PolicyUnknown says.
	Policy        *v1alpha1.PodPolicy
	PolicyUnknown string

	Permission
}

// Granter reads an exception and writes its grant, on the object and the spec that were read.
type Granter interface {
	Exception(ctx context.Context, namespace, name string) (ExceptionFacts, error)
	May(ctx context.Context, rights []Right) (Permission, error)
	Grant(ctx context.Context, x *v1alpha1.PolicyException, by string) error
}

// exceptionRights are what it takes to grant: the verb that the API server asks for when the grant is written (deploy/webhook/policies.yaml), and the
// status that it is written to.
func exceptionRights(x *v1alpha1.PolicyException) []Right {
	return []Right{
		{Verb: v1alpha1.VerbExcept, Group: group, Resource: "podpolicies", Name: x.Spec.Policy},
		{Verb: "patch", Group: group, Resource: "policyexceptions", Subresource: "status", Namespace: x.Namespace, Name: x.Name},
	}
}

// JudgeException reports whether the exception can be granted, and must be.
func JudgeException(f ExceptionFacts) Judgement {
	x := f.Exception
	name := x.Namespace + "/" + x.Name
	compiled, err := policy.CompileException(x)
	switch {
	case err != nil:
		return Judgement{Refused, fmt.Sprintf("exception %s can't be read: %v.", name, err)}
	case compiled.Ended(f.Now):
		return Judgement{Refused, fmt.Sprintf("exception %s ended at %s: to grant it would lift nothing.", name, x.Spec.Until)}
	case compiled.GrantedBy != "":
		return Judgement{Already, fmt.Sprintf("exception %s was granted already, by %s.", name, compiled.GrantedBy)}
	case len(f.Missing) > 0:
		return Judgement{NotPermitted, fmt.Sprintf("%s may not grant this, and lacks: %s.", f.User, f.missing())}
	}
	return Judgement{Verdict: Ask}
}

// ReportException writes who asks, what is lifted, for which pods and till when.
func ReportException(f ExceptionFacts, style Style) string {
	x := f.Exception
	p := console.New(style, margin)
	p.Row("Exception", x.Namespace+"/"+x.Name+", "+fmt.Sprintf("generation %d", x.Generation))
	p.Row("Owner", console.Printable(x.Spec.Owner))
	if f.Asked != "" {
		p.Row("Asked by", console.Printable(f.Asked))
	}
	p.Row("Reason", console.Printable(x.Spec.Reason))
	p.Row("Policy", x.Spec.Policy+f.policyState())
	p.Table("Lifts", f.lifts())
	p.Row("For", f.pods())
	p.Row("Until", f.until())
	if g := x.Status.Grant; g != nil && g.Generation != x.Generation {
		p.Row("Earlier", fmt.Sprintf("%s granted generation %d, which is void: its spec was changed since", console.Printable(g.By), g.Generation))
	}
	p.Row("You", f.User)
	p.Gap()
	return p.String()
}

func (f ExceptionFacts) policyState() string {
	switch {
	case f.PolicyUnknown != "":
		return ", unknown: " + f.PolicyUnknown
	case f.Policy == nil:
		return ", which is not there: the grant would count once it is"
	}
	return ""
}

// lifts are the limits with what the policy says of each.
func (f ExceptionFacts) lifts() (rows [][]string) {
	for _, l := range f.Exception.Spec.Limits {
		says := "unknown"
		if f.Policy != nil {
			says = policy.LimitInWords(&f.Policy.Spec, l)
		}
		rows = append(rows, []string{string(l), says})
	}
	return rows
}

func (f ExceptionFacts) pods() string {
	if f.Exception.Spec.AllPods {
		return "all pods of namespace " + f.Exception.Namespace
	}
	return "pods of namespace " + f.Exception.Namespace + " with " + console.Printable(f.Exception.Spec.PodSelector.String())
}

func (f ExceptionFacts) until() string {
	until := console.Printable(f.Exception.Spec.Until)
	t, err := time.Parse(time.RFC3339, f.Exception.Spec.Until)
	switch {
	case err != nil:
		return until + ", which is no time"
	case t.After(f.Now):
		return until + " (in " + duration.HumanDuration(t.Sub(f.Now)) + ")"
	}
	return until + " (" + ago(t, f.Now) + ")"
}

// Grant shows an exception, asks, and grants it. It reports whether it is granted.
func (s *Session) Grant(ctx context.Context, g Granter, namespace, name string) (bool, error) {
	f, err := g.Exception(ctx, namespace, name)
	if err != nil {
		return false, err
	}
	if f.Permission, err = g.May(ctx, exceptionRights(f.Exception)); err != nil {
		return false, err
	}
	j := JudgeException(f)
	fmt.Fprint(s.Out, ReportException(f, s.Style))
	if j.Verdict == Ask {
		if s.DryRun {
			fmt.Fprintf(s.Out, "Dry run: nothing was changed. It would grant generation %d\n", f.Exception.Generation)
			return true, nil
		}
		agreed, err := s.Agreed(ctx, "the exception's name to grant it", name)
		if !agreed || err != nil {
			return agreed, err
		}
		if err := g.Grant(ctx, f.Exception, f.User); err != nil {
			return false, err
		}
	}
	fmt.Fprint(s.Out, endOfGrant(f, j, s.Style))
	return j.Verdict == Ask || j.Verdict == Already, nil
}

// inForce says what becomes of the exception now that it is granted.
func (f ExceptionFacts) inForce() string {
	x := f.Exception.DeepCopy()
	x.Status.Grant = &v1alpha1.Grant{By: f.User, UID: x.UID, Generation: x.Generation}
	name := "exception " + x.Namespace + "/" + x.Name
	compiled, err := policy.CompileException(x)
	if err != nil || f.PolicyUnknown != "" {
		return name + " is granted until " + x.Spec.Until + "."
	}
	var policies policy.Policies
	if f.Policy != nil {
		p, _ := policy.Compile(f.Policy)
		policies = policy.Policies{p}
	}
	if reason, message := compiled.State(policies, f.Now); reason != v1alpha1.ReasonInForce {
		return name + " is granted, but " + message + "."
	}
	return name + " is in force until " + x.Spec.Until + "."
}

// endOfGrant writes how it ended.
func endOfGrant(f ExceptionFacts, j Judgement, style Style) string {
	x := f.Exception
	p := console.New(style, margin)
	switch j.Verdict {
	case NotPermitted:
		p.Marked(console.Red, "REFUSED", j.Reason)
		p.Row("Ask", "an administrator of the cluster. They bind you to the ClusterRole podgrace-exceptions-granter, or to one of their own that names the policy. A RoleBinding does not do: the policy is not in a namespace.")
	case Already:
		p.Marked(console.Green, "GRANTED", j.Reason)
	case Ask:
		p.Marked(console.Green, "GRANTED", f.inForce()+" An edit of its spec voids the grant.", fmt.Sprintf("To take it back: kubectl delete policyexceptions.podgrace.dev -n %s %s", x.Namespace, x.Name))
	default:
		p.Marked(console.Red, "REFUSED", j.Reason)
	}
	return p.String()
}
