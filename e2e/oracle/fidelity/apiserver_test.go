package fidelity

import (
	"context"
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"pgregory.net/rapid"
	kjson "sigs.k8s.io/json"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// apiServer does to a pod at creation what the API server does, with its own code and in its order: decode, the in-tree
// Priority plugin, our patch, the plugin once more, the strategy's PrepareForCreate and Validate.
type apiServer struct {
	priority *priority.Plugin
	classes  cache.Indexer
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	s := &apiServer{priority: priority.NewPlugin(), classes: factory.Scheduling().V1().PriorityClasses().Informer().GetIndexer()}
	s.priority.SetExternalKubeInformerFactory(factory)
	return s
}

func (s *apiServer) setClasses(t *rapid.T, classes map[string]*schedulingv1.PriorityClass) {
	list := make([]any, 0, len(classes))
	for _, c := range classes {
		list = append(list, c)
	}
	if err := s.classes.Replace(list, ""); err != nil {
		t.Fatalf("filling the lister of PriorityClasses: %v", err)
	}
}

// admit runs the in-tree Priority plugin, which writes into the pod.
func (s *apiServer) admit(pod *core.Pod) error {
	attributes := admission.NewAttributesRecord(pod, nil, core.Kind("Pod").WithVersion("v1"), pod.Namespace, pod.Name,
		core.Resource("pods").WithVersion("v1"), "", admission.Create, &metav1.CreateOptions{}, false, nil)
	return s.priority.Admit(context.Background(), attributes, nil)
}

// received is a pod as decoding gives it: defaulted, and in the internal version.
func received(t *rapid.T, pod *corev1.Pod) *core.Pod {
	pod = pod.DeepCopy()
	legacyscheme.Scheme.Default(pod)
	internal := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, internal, nil); err != nil {
		t.Fatalf("converting to the internal version: %v", err)
	}
	return internal
}

// sent is a pod as a webhook gets it. It shares nothing with the internal one, as if it had gone through JSON: the
// conversions themselves copy pointers.
func sent(t *rapid.T, internal *core.Pod) *corev1.Pod {
	pod := &corev1.Pod{}
	if err := legacyscheme.Scheme.Convert(internal.DeepCopy(), pod, nil); err != nil {
		t.Fatalf("converting to v1: %v", err)
	}
	return pod
}

// patched makes the changes as a JSON patch. The API server would ignore an unknown field; here it is an error.
func patched(t *rapid.T, pod *corev1.Pod, changes []defaulting.Change) *corev1.Pod {
	if len(changes) == 0 {
		return pod
	}
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatalf("encoding the pod: %v", err)
	}
	patch, err := jsonpatch.DecodePatch(encodePatch(t, changes))
	if err != nil {
		t.Fatalf("reading the patch: %v", err)
	}
	after, err := patch.Apply(before)
	if err != nil {
		t.Fatalf("applying the patch: %v\n%s", err, draw.Show(pod, changes))
	}
	result := &corev1.Pod{}
	if strict, err := kjson.UnmarshalStrict(after, result); err != nil || len(strict) > 0 {
		t.Fatalf("decoding the patched pod: %v %v\n%s", err, strict, draw.Show(pod, changes))
	}
	return result
}

func encodePatch(t *rapid.T, changes []defaulting.Change) []byte {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	operations := make([]operation, 0, len(changes))
	for _, c := range changes {
		operations = append(operations, operation{string(c.Operation), c.Path, c.Value})
	}
	text, err := json.Marshal(operations)
	if err != nil {
		t.Fatalf("encoding the patch: %v", err)
	}
	return text
}

// generatedName is what the API server puts after metadata.generateName.
const generatedName = "x7k2p"

// prepared is the pod that would be stored: matchLabelKeys merged into the selectors, a name generated.
func prepared(internal *core.Pod) *core.Pod {
	internal = internal.DeepCopy()
	podregistry.Strategy.PrepareForCreate(context.Background(), internal)
	if internal.Name == "" && internal.GenerateName != "" {
		internal.Name = internal.GenerateName + generatedName
	}
	return internal
}

// judged says what the API server's validation has against a prepared pod.
func judged(internal *core.Pod) field.ErrorList {
	return podregistry.Strategy.Validate(context.Background(), internal)
}
