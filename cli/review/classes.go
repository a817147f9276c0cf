package review

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy"
)

// class is what is to be said of a PriorityClass that is created or deleted; false: nothing. It is Kubernetes' own business, but policies and pods name it.
func (s *step) class(c *schedulingv1.PriorityClass) bool {
	switch s.result.Operation {
	case OperationCreate:
		if why := s.refusedClass(c); why != "" {
			s.deny(string(metav1.StatusReasonInvalid), "the API server refuses it: "+why)
			return true
		}
	case OperationDelete:
		if users := s.usersOf(c.Name); users != "" {
			s.result.Warnings = append(s.result.Warnings, "it is named by "+users+": the API server refuses new pods that name a class which does not exist")
			return true
		}
	}
	return false
}

// refusedClass is why the API server creates no such class, in its words; empty: it does (pkg/apis/scheduling/validation/validation.go ValidatePriorityClass and
// plugin/pkg/admission/priority/admission.go validatePriorityClass, 1.36.3).
func (s *step) refusedClass(c *schedulingv1.PriorityClass) string {
	known := s.State.classes()
	own := known.PriorityClasses[c.Name]
	switch reserved := strings.HasPrefix(c.Name, "system-"); {
	case reserved && (own == nil || own.Value != c.Value):
		return "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only"
	case !reserved && c.Value > policy.HighestUserPriority:
		return fmt.Sprintf("value: Forbidden: maximum allowed value of a user defined priority is %d", policy.HighestUserPriority)
	case !c.GlobalDefault:
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(known.PriorityClasses)) {
		if other := known.PriorityClasses[name]; other.GlobalDefault && name != c.Name {
			return fmt.Sprintf("PriorityClass %s is already marked as default. Only one default can exist. If both exist already, the one with the lowest value counts: %s", name, known.GlobalDefault.Name)
		}
	}
	return ""
}

// maxUsers are named.
const maxUsers = 3

// usersOf names the policies and the pods that name a class.
func (s *step) usersOf(class string) string {
	var users []string
	for _, p := range s.policies {
		if section := p.Spec.Priority; section != nil && (section.ClassName == class || slices.Contains(section.AllowedClassNames, class)) {
			users = append(users, "PodPolicy "+p.Name)
		}
	}
	for _, pod := range Objects[*corev1.Pod](s.State) {
		if pod.Spec.PriorityClassName == class {
			users = append(users, "Pod "+pod.Namespace+"/"+pod.Name)
		}
	}
	if len(users) == 0 {
		return ""
	}
	return console.Some(users, maxUsers, ", ")
}
