package evictor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
)

func (e *Evictor) tellUnknown(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != e.unknown && err != nil {
		e.Log.Error(err, "a signal is not known: nothing is evicted for it")
	}
	e.unknown = text
}

// tellPressure makes the Node say what is short, when that changes.
func (e *Evictor) tellPressure(node *corev1.Node, verdict pressure.Verdict) {
	var short []string
	for _, c := range slices.Sorted(maps.Keys(verdict.Conditions)) {
		if verdict.Conditions[c] {
			short = append(short, strings.ToLower(strings.TrimSuffix(string(c), "Pressure")))
		}
	}
	said := strings.Join(short, ", ")
	if said == e.short {
		if said == "" {
			e.Status.Pressure(nil, "") // as in follow
		}
		return
	}
	e.short = said
	var reasons []string
	for _, met := range slices.Concat(verdict.Due, verdict.Waiting) {
		reasons = append(reasons, describe(met))
	}
	message := strings.Join(reasons, "; ")
	e.Log.Info("pressure", "short", said, "because", message)
	if e.Status != nil && !e.DryRun {
		e.Status.Pressure(short, message)
	}
	e.Events.Pressure(node, short, message)
}

// describe says which threshold is met.
func describe(met pressure.Met) string {
	if met.Signal == v1alpha1.SignalMemoryStall {
		return "processes wait for memory longer than the policy allows"
	}
	return fmt.Sprintf("%s threshold %s: %d left, %d wanted", met.Kind, met.Signal, met.Available, met.Bound)
}
