package written_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/api/written"
)

const version = "podgrace.dev/v1alpha1"

func entry(fields string, change ...func(*metav1.ManagedFieldsEntry)) []metav1.ManagedFieldsEntry {
	m := metav1.ManagedFieldsEntry{Manager: "kubectl", APIVersion: version, FieldsV1: metav1.NewFieldsV1(fields)}
	for _, c := range change {
		c(&m)
	}
	return []metav1.ManagedFieldsEntry{m}
}

func TestUnread(t *testing.T) {
	t.Parallel()
	spec := v1alpha1.PodPolicySpec{
		Weight:         7,
		Match:          &v1alpha1.PodMatch{},
		TopologySpread: &v1alpha1.TopologySpreadSection{Constraints: []v1alpha1.TopologySpreadConstraint{{TopologyKey: "zone", WhenUnsatisfiable: "DoNotSchedule"}}},
		Removal:        &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, AllowedActors: []string{"a"}},
	}
	for name, tt := range map[string]struct {
		managed []metav1.ManagedFieldsEntry
		want    []string
	}{
		"nothing written":            {nil, nil},
		"all of it is there":         {entry(`{"f:spec":{".":{},"f:weight":{},"f:match":{},"f:removal":{".":{},"f:forceDelete":{},"f:allowedActors":{".":{},"v:\"a\"":{}}}}}`), nil},
		"a field that no type has":   {entry(`{"f:spec":{"f:surge":{},"f:removal":{"f:roads":{"f:node":{}}}}}`), []string{"spec.removal.roads", "spec.surge"}},
		"a section that is gone":     {entry(`{"f:spec":{"f:priority":{".":{},"f:className":{}}}}`), []string{"spec.priority"}},
		"a string that is gone":      {entry(`{"f:spec":{"f:removal":{"f:protect":{}}}}`), []string{"spec.removal.protect"}},
		"a pointer that is gone":     {entry(`{"f:spec":{"f:topologySpread":{"f:revisionAware":{}}}}`), []string{"spec.topologySpread.revisionAware"}},
		"written empty":              {entry(`{"f:spec":{"f:allowSkip":{},"f:removal":{"f:owners":{}}}}`), nil},
		"in an item of a list":       {entry(`{"f:spec":{"f:topologySpread":{"f:constraints":{"k:{\"topologyKey\":\"zone\",\"whenUnsatisfiable\":\"DoNotSchedule\"}":{".":{},"f:topologyKey":{},"f:minDomains":{},"f:newKey":{}}}}}}`), []string{"spec.topologySpread.constraints[].minDomains", "spec.topologySpread.constraints[].newKey"}},
		"an item that is gone":       {entry(`{"f:spec":{"f:topologySpread":{"f:constraints":{"k:{\"topologyKey\":\"host\",\"whenUnsatisfiable\":\"DoNotSchedule\"}":{".":{},"f:newKey":{}}}}}}`), nil},
		"of the metadata and status": {entry(`{"f:metadata":{"f:labels":{"f:a":{}}},"f:status":{"f:newField":{}}}`), nil},
		"by another version":         {entry(`{"f:spec":{"f:surge":{}}}`, func(m *metav1.ManagedFieldsEntry) { m.APIVersion = "podgrace.dev/v1" }), nil},
		"of a subresource":           {entry(`{"f:spec":{"f:surge":{}}}`, func(m *metav1.ManagedFieldsEntry) { m.Subresource = "status" }), nil},
		"forgotten":                  {[]metav1.ManagedFieldsEntry{{APIVersion: version}}, nil},
		"no JSON":                    {entry(`{"f:spec"`), nil},
		"of two managers":            {append(entry(`{"f:spec":{"f:surge":{}}}`), entry(`{"f:spec":{"f:surge":{},"f:ebb":{}}}`)...), []string{"spec.ebb", "spec.surge"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := written.Unread(tt.managed, version, &spec); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			kept := written.Trim(tt.managed, version)
			if got := written.Unread(kept, version, &spec); !slices.Equal(got, tt.want) {
				t.Errorf("trimmed: got %q, want %q", got, tt.want)
			}
			for _, m := range kept {
				if text := m.FieldsV1.GetRawString(); strings.Contains(text, "f:metadata") || strings.Contains(text, "f:status") {
					t.Errorf("kept more than the spec: %s", text)
				}
			}
		})
	}
}

// What is empty and what was dropped look alike in bools, numbers, lists and maps that may be left out; and what was dropped from a stored object comes back as
// the schema's default, where that has one. These were in the first version, so that no definition is without them: a field that is added later is a pointer,
// a string that can't be empty, or a list with at least one item, the program has its default, and its loss is noticed.
var unnoticedFromTheFirst = []string{
	"fencepolicies: spec.agents",
	"fencepolicies: spec.agents[].attempts",
	"fencepolicies: spec.agents[].evidence",
	"fencepolicies: spec.agents[].timeout",
	"fencepolicies: spec.budget",
	"fencepolicies: spec.budget.cooldown",
	"fencepolicies: spec.budget.maxConcurrent",
	"fencepolicies: spec.budget.maxUnhealthy",
	"fencepolicies: spec.budget.maxUnhealthyInZone",
	"fencepolicies: spec.justifiedBy.brokenBudget",
	"fencepolicies: spec.mode",
	"fencepolicies: spec.nodeSelector.matchExpressions",
	"fencepolicies: spec.nodeSelector.matchExpressions[].values",
	"fencepolicies: spec.nodeSelector.matchLabels",
	"fencepolicies: spec.paused",
	"fencepolicies: spec.release",
	"fencepolicies: spec.silentFor",
	"fencepolicies: spec.weight",
	"podpolicies: spec.allowSkip",
	"podpolicies: spec.gracePeriod.allowShorterDefault",
	"podpolicies: spec.match.namespaceSelector.matchExpressions",
	"podpolicies: spec.match.namespaceSelector.matchExpressions[].values",
	"podpolicies: spec.match.namespaceSelector.matchLabels",
	"podpolicies: spec.match.podSelector.matchExpressions",
	"podpolicies: spec.match.podSelector.matchExpressions[].values",
	"podpolicies: spec.match.podSelector.matchLabels",
	"podpolicies: spec.removal.allowedActors",
	"podpolicies: spec.removal.blockClaims",
	"podpolicies: spec.removal.evictionWithoutGrace",
	"podpolicies: spec.removal.forceDelete",
	"podpolicies: spec.removal.owners",
	"podpolicies: spec.removal.protect",
	"podpolicies: spec.removal.zeroGrace",
	"podpolicies: spec.topologySpread.constraints[].matchLabelKeys",
	"podpolicies: spec.topologySpread.onInfeasible",
	"podpolicies: spec.topologySpread.ownerRules",
	"podpolicies: spec.topologySpread.revisionAware",
	"podpolicies: spec.weight",
}

func TestLossOfAnyNewFieldIsNoticed(t *testing.T) {
	t.Parallel()
	var got []string
	for kind, spec := range map[string]any{"podpolicies": v1alpha1.PodPolicySpec{}, "fencepolicies": v1alpha1.FencePolicySpec{}} {
		folder := map[string]string{"fencepolicies": "fencer/"}[kind]
		text, err := os.ReadFile("../../deploy/crds/" + folder + "podgrace.dev_" + kind + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			unnoticed(kind+": spec", reflect.TypeOf(spec), v.Schema.OpenAPIV3Schema.Properties["spec"], &got)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, unnoticedFromTheFirst) {
		t.Errorf("the loss of these is not noticed:\n%s\nwant only those of the first version:\n%s", strings.Join(got, "\n"), strings.Join(unnoticedFromTheFirst, "\n"))
	}
}

// unnoticed adds the fields of a type which may be empty without being dropped, or whose loss a default hides.
func unnoticed(path string, t reflect.Type, schema apiextensionsv1.JSONSchemaProps, found *[]string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && schema.Items != nil {
		unnoticed(path+"[]", t.Elem(), *schema.Items.Schema, found)
	}
	if t.Kind() != reflect.Struct || schema.Type != "object" {
		return
	}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		at, property := path+"."+name, schema.Properties[name]
		if property.Default != nil || strings.Contains(options, "omitempty") && mayBeEmpty(field.Type.Kind(), property) {
			*found = append(*found, at)
		}
		unnoticed(at, field.Type, property, found)
	}
}

func mayBeEmpty(kind reflect.Kind, schema apiextensionsv1.JSONSchemaProps) bool {
	switch kind {
	case reflect.Pointer, reflect.Struct:
		return false
	case reflect.String:
		return len(schema.Enum) == 0 && (schema.MinLength == nil || *schema.MinLength == 0)
	case reflect.Slice:
		return schema.MinItems == nil || *schema.MinItems == 0
	}
	return true
}

// Whoever may write an object may write any names into its managed fields: what is told of them is short, and one line.
func TestSayIsShort(t *testing.T) {
	fields := []string{"spec." + strings.Repeat("x", 40000), "spec.a\nb", "spec.c", "spec.d"}
	got := written.Say(fields, "policy")
	if len(got) > 500 || strings.Contains(got, "\n") || !strings.Contains(got, "and 1 more") || !strings.HasPrefix(got, "spec.xxx") {
		t.Errorf("%d bytes: %.600s", len(got), got)
	}
	if len(fields[0]) < 40000 {
		t.Error("what was given is changed")
	}
}
