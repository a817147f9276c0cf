package review

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy"
)

// exceptions are those beside the policies and those of the state that can be read. Of those that can't their documents' errors tell; where none is
// known there is none.
func (e *Engine) exceptions() policy.Exceptions {
	var compiled []*policy.Exception
	seen := sets.New[client.ObjectKey]()
	for _, x := range slices.Concat(e.Exceptions, all[*v1alpha1.PolicyException](e.State)) {
		if x.Namespace == "" { // beside the policies
			x = x.DeepCopy()
			x.Namespace = e.Namespace
		}
		key := client.ObjectKeyFromObject(x)
		if seen.Has(key) {
			continue
		}
		seen.Insert(key)
		if c, err := policy.CompileException(x); err == nil {
			compiled = append(compiled, c)
		}
	}
	return policy.SortExceptions(compiled)
}

// inForce returns the exceptions in force in a namespace.
func (e *Engine) inForce(namespace string) policy.Exceptions {
	return slices.DeleteFunc(e.exceptions().InForce(e.now()), func(x *policy.Exception) bool { return x.Namespace != namespace })
}

func (e *Engine) now() time.Time {
	if e.Clock != nil {
		return e.Clock.Now()
	}
	return time.Now()
}

// remarkExceptions tell of exceptions that lift nothing, and why.
func (e *Engine) remarkExceptions() []Remark {
	var remarks []Remark
	for _, x := range e.exceptions() {
		if reason, message := x.State(e.Policies.Policies(), e.now()); reason != v1alpha1.ReasonInForce {
			remarks = append(remarks, Remark{Exception: x.Key(), Message: message})
		}
	}
	return remarks
}

// RemarkGrants tells of exceptions that are in force by what the manifests, or files beside the policies, say of themselves: who writes such a file writes its
// grant as well, as in a pull request. To the API server the status of what is applied is nothing.
func (e *Engine) RemarkGrants(documents []*manifest.Document) []Remark {
	own := sets.New[string]()
	add := func(namespace, name string) { own.Insert(cmp.Or(namespace, e.Namespace) + "/" + name) }
	for _, x := range e.Exceptions {
		add(x.Namespace, x.Name)
	}
	for _, d := range documents {
		if d.Kind == "PolicyException" {
			add(d.Namespace, d.Name)
		}
	}
	var remarks []Remark
	for _, x := range e.exceptions() {
		if reason, _ := x.State(e.Policies.Policies(), e.now()); reason == v1alpha1.ReasonInForce && own.Has(x.Key()) {
			remarks = append(remarks, Remark{Exception: x.Key(), Message: fmt.Sprintf(
				"granted by %s according to the file itself, whose author may have written that: it counts here. In the cluster its own grant counts (kubectl get policyexceptions.podgrace.dev -n %s %s)", x.GrantedBy, x.Namespace, x.Name)})
		}
	}
	return remarks
}

// ExceptionsOf reads those in force in a namespace of a cluster. A cluster that does not know the kind has none.
func ExceptionsOf(ctx context.Context, reader client.Reader, namespace string, now time.Time) (policy.Exceptions, error) {
	var compiled []*policy.Exception
	err := pages(ctx, reader, &v1alpha1.PolicyExceptionList{}, "PolicyException", func(o runtime.Object) error {
		if x, ok := o.(*v1alpha1.PolicyException); ok && x.Namespace == namespace {
			if c, err := policy.CompileException(x); err == nil {
				compiled = append(compiled, c)
			}
		}
		return nil
	}, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	return policy.SortExceptions(compiled).InForce(now), err
}
