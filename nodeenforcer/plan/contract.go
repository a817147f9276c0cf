package plan

import (
	"errors"
	"fmt"

	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// ParseEnforcement reads the annotation podgrace.dev/enforcement, strictly: fields that are not known, given twice or in other
// case, and values out of range, are errors. Nothing is returned with one.
func ParseEnforcement(text string) (*v1alpha1.Enforcement, error) {
	var e v1alpha1.Enforcement
	strict, err := json.UnmarshalStrict([]byte(text), &e)
	if err == nil {
		err = errors.Join(strict...)
	}
	if err == nil {
		err = checkEnforcement(&e)
	}
	if err != nil {
		return nil, fmt.Errorf("read annotation %s: %w", v1alpha1.AnnotationEnforcement, err)
	}
	return &e, nil
}

// checkEnforcement repeats the rules of the CRD, which the annotation never passes through.
func checkEnforcement(e *v1alpha1.Enforcement) error {
	if *e == (v1alpha1.Enforcement{}) {
		return errors.New("it says nothing")
	}
	var problems []error
	between := func(field string, value, low, high int32) {
		if value < low || value > high {
			problems = append(problems, fmt.Errorf("%s %d is not between %d and %d", field, value, low, high))
		}
	}
	if m := e.Memory; m != nil {
		if m.Protection != "" && strength(m.Protection) < 0 {
			problems = append(problems, fmt.Errorf("memory.protection %q is not known", m.Protection))
		}
		if m.ThrottlePercent != nil {
			between("memory.throttlePercent", *m.ThrottlePercent, 1, 100)
		}
	}
	if e.CPU != nil {
		between("cpu.weight", e.CPU.Weight, 1, 10000)
	}
	if e.IO != nil {
		between("io.weight", e.IO.Weight, 1, 10000)
	}
	if e.OOM != nil {
		between("oom.rank", e.OOM.Rank, 0, 100)
	}
	if e.Eviction != nil {
		between("eviction.order", e.Eviction.Order, 0, 100)
	}
	return errors.Join(problems...)
}

// strength orders the degrees of protection; -1 for one that is not known.
func strength(p v1alpha1.MemoryProtection) int {
	switch p {
	case v1alpha1.MemoryProtectionNone:
		return 0
	case v1alpha1.MemoryProtectionLow:
		return 1
	case v1alpha1.MemoryProtectionMin:
		return 2
	default:
		return -1
	}
}

// bounds are the policy's bounds on contracts, with the CRD's defaults, which a policy from a file may lack.
type bounds struct {
	protection          v1alpha1.MemoryProtection
	protectedPercent    int64
	cpuWeight, ioWeight int32
}

func newBounds(given *v1alpha1.EnforcementBounds) bounds {
	b := bounds{v1alpha1.MemoryProtectionMin, 80, 10000, 10000}
	if given == nil {
		return b
	}
	if given.MaxProtection != "" {
		b.protection = given.MaxProtection
	}
	if p := given.MaxProtectedMemoryPercent; p != nil {
		b.protectedPercent = int64(min(max(*p, 0), 100))
	}
	if w := given.MaxCPUWeight; w != nil {
		b.cpuWeight = min(max(*w, 1), 10000)
	}
	if w := given.MaxIOWeight; w != nil {
		b.ioWeight = min(max(*w, 1), 10000)
	}
	return b
}
