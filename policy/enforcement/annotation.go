package enforcement

import (
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// MaxAnnotation is how long the annotation may be: what admission writes is a few hundred bytes. Anybody may write one of 256 KiB where no webhook is asked, and a node enforcer
// that ranks pods reads all of them.
const MaxAnnotation = 4 << 10

// Parse reads the annotation podgrace.dev/enforcement, strictly: fields that are not known, given twice or in other
// case, and values out of range, are errors. Nothing is returned with one.
func Parse(text string) (*v1alpha1.Enforcement, error) {
	if len(text) > MaxAnnotation {
		return nil, fmt.Errorf("read annotation %s: it has %d bytes, and %d at most are read", v1alpha1.AnnotationEnforcement, len(text), MaxAnnotation)
	}
	var e v1alpha1.Enforcement
	strict, err := json.UnmarshalStrict([]byte(text), &e)
	if err == nil {
		err = errors.Join(strict...)
	}
	if err == nil {
		err = check(&e)
	}
	if err != nil {
		return nil, fmt.Errorf("read annotation %s: %w", v1alpha1.AnnotationEnforcement, err)
	}
	return &e, nil
}

// check repeats the rules of the CRD, which the annotation never passes through.
func check(e *v1alpha1.Enforcement) error {
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
		if m.Protection != "" && !slices.Contains(weakestFirst, m.Protection) {
			problems = append(problems, fmt.Errorf("memory.protection %q is not known", m.Protection))
		}
		if m.ThrottlePercent != nil {
			between("memory.throttlePercent", *m.ThrottlePercent, 1, 100)
		}
	}
	if e.CPU != nil {
		between("cpu.weight", e.CPU.Weight, 1, maxWeight)
	}
	if e.IO != nil {
		between("io.weight", e.IO.Weight, 1, maxWeight)
	}
	if e.OOM != nil {
		between("oom.rank", e.OOM.Rank, 0, 100)
	}
	if e.Eviction != nil {
		between("eviction.order", e.Eviction.Order, 0, 100)
	}
	return errors.Join(problems...)
}
