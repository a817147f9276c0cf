package enforcement

import (
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Validate returns an error for each field of a NodePolicy that its CustomResourceDefinition refuses, but for those of thresholds, which pressure.Compile
// refuses, and of the node selector, which Compile does. The node enforcer reads policies from files without the definition's own code, which evaluates CEL.
func Validate(p *v1alpha1.NodePolicy) (errs field.ErrorList) {
	s, spec := &p.Spec, field.NewPath("spec")
	if p.Name == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), "name is required"))
	}
	errs = append(errs, oneOf(spec.Child("mode"), s.Mode, v1alpha1.NodeModeObserve, v1alpha1.NodeModeTune, v1alpha1.NodeModeRepair)...)
	if q := s.QOSReserved; q != nil {
		errs = append(errs, within(spec.Child("qosReserved", "memoryPercent"), &q.MemoryPercent, 0, 100)...)
	}
	if m := s.Memory; m != nil {
		errs = append(errs, oneOf(spec.Child("memory", "protection"), m.Protection, v1alpha1.NodeMemoryProtectionNone, v1alpha1.NodeMemoryProtectionTiered)...)
		errs = append(errs, within(spec.Child("memory", "throttlePercent"), m.ThrottlePercent, 1, 100)...)
	}
	if o := s.OOM; o != nil {
		errs = append(errs, oneOf(spec.Child("oom", "order"), o.Order, v1alpha1.OOMOrderQOS, v1alpha1.OOMOrderPriority)...)
	}
	if b := s.Bounds; b != nil {
		errs = append(errs, oneOf(spec.Child("bounds", "maxProtection"), b.MaxProtection, weakestFirst...)...)
		errs = append(errs, within(spec.Child("bounds", "maxProtectedMemoryPercent"), b.MaxProtectedMemoryPercent, 0, 100)...)
		errs = append(errs, within(spec.Child("bounds", "maxCPUWeight"), b.MaxCPUWeight, 1, maxWeight)...)
		errs = append(errs, within(spec.Child("bounds", "maxIOWeight"), b.MaxIOWeight, 1, maxWeight)...)
	}
	if e := s.Eviction; e != nil {
		at := spec.Child("eviction")
		errs = append(errs, oneOf(at.Child("mode"), e.Mode, v1alpha1.EvictionModeEvict, v1alpha1.EvictionModeObserve)...)
		errs = append(errs, within(at.Child("maxEvictionsPerMinute"), e.MaxEvictionsPerMinute, 1, 1000)...)
		errs = append(errs, within(at.Child("maxPodGracePeriodSeconds"), e.MaxPodGracePeriodSeconds, 1, math.MaxInt64)...)
		errs = append(errs, within(at.Child("hardGracePeriodSeconds"), e.HardGracePeriodSeconds, 1, 60)...)
	}
	return errs
}

// oneOf refuses a value that is set and not one of these.
func oneOf[T ~string](at *field.Path, value T, known ...T) field.ErrorList {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, known)}
}

// within refuses a number that is set and out of bounds.
func within[T ~int32 | ~int64](at *field.Path, value *T, least, most int64) field.ErrorList {
	if value == nil || int64(*value) >= least && int64(*value) <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *value, fmt.Sprintf("must be from %d to %d", least, most))}
}
