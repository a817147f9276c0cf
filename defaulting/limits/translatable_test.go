package limits

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

func TestTranslatable(t *testing.T) {
	for expression, want := range map[string]string{
		"object.metadata.labels['app'] == 'web' && namespaceObject.metadata.name != 'x'":                   "",
		"object.metadata.?labels[?'app'].orValue('') in ['a', 'b']":                                        "",
		"has(object.spec.securityContext) && object.spec.securityContext.?runAsNonRoot.orValue(false)":     "",
		"object.spec.containers[0].?image.orValue('').matches('^a') || size(object.spec.containers) > 3":   "",
		"request.userInfo.extra['a'] == ['b'] && request.userInfo.username.startsWith('system:')":          "",
		"object.metadata.?annotations[?'a'].hasValue() && 'b' in object.metadata.?annotations.orValue({})": "",
		"object.spec.terminationGracePeriodMinutes == 3":                                                   "reads the field terminationGracePeriodMinutes",
		"object.metadata.annotations == {}":                                                                "reads a part of the pod as a whole",
		"'a' in object.metadata.annotations":                                                               "reads a part of the pod as a whole",
		"size(object.metadata.?annotations.orValue({})) == 0":                                              "reads a part of the pod as a whole",
		"has(object.metadata.annotations)":                                                                 "reads whether there are annotations",
		"has(object.metadata.annotations.a)":                                                               "reads annotations otherwise than by a literal key",
		"object.metadata.annotations['podgrace.dev/' + 'enforcement'] == ''":                               "reads annotations otherwise than by a literal key",
		"object.metadata.annotations['podgrace.dev/enforcement'] == ''":                                    "reads annotations otherwise than by a literal key",
		"object.spec == object.spec":                                                                       "reads a part of the pod as a whole",
		"object.spec['priority'] == 3":                                                                     "reads a field by a computed name",
		"object['spec'].priority == 3":                                                                     "reads a field by a computed name",
		"object.spec.containers[0] == object.spec.containers[1]":                                           "reads a part of the pod as a whole",
		"[object.spec][0].priority == 3":                                                                   "reads a part of the pod as a whole",
		"{'a': object}.a.spec.priority == 3":                                                               "reads a part of the pod as a whole",
		"object.spec.containers.exists(c, c.name == 'a')":                                                  "goes through a list",
		"object.status.phase == ''":                                                                        "reads the field status",
		"object.kind == 'Pod'":                                                                             "reads the field kind",
		"request.name == 'a'":                                                                              "reads the field name",
		"namespaceObject.spec.finalizers == []":                                                            "reads the field spec",
		"oldObject == null":                                                                                "reads oldObject",
		"variables.have == 3":                                                                              "reads variables",
		"authorizer.group('').resource('pods').check('get').allowed()":                                     "reads authorizer",
		"object.metadata.name ==":                                                                          "can't be read by the oldest API server",
		"unknown(object.metadata.name)":                                                                    "is not known to the oldest API server",
	} {
		if got := translatable(expression); got != want && (want == "" || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: got %q, want %q", expression, got, want)
		}
	}
}

// A field of a match that this package does not know, as one that is new, is never passed over: the policy is not compiled.
func TestUnknownFieldOfAMatch(t *testing.T) {
	everything := reflect.New(reflect.TypeFor[struct {
		v1alpha1.PodMatch
		PodSelector *int     `json:"podSelector,omitempty"`
		Phases      []string `json:"phases,omitempty"`
		Unset       string   `json:"unset"`
	}]()).Elem()
	everything.FieldByName("Phases").Set(reflect.ValueOf([]string{"a"}))
	everything.Field(1).Set(reflect.ValueOf(new(1)))
	if got := setBeside(everything, translated); !slices.Equal(got, []string{"phases"}) {
		t.Errorf("got %q", got)
	}
	for f := range reflect.TypeFor[v1alpha1.PodMatch]().Fields() {
		if f.Tag.Get("json") == "" {
			t.Errorf("%s has no name in JSON", f.Name)
		}
	}
}
