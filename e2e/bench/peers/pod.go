package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/google/go-cmp/cmp"
)

func labelsOf(namespace string) labels.Set { return labels.Set{corev1.LabelMetadataName: namespace} }

// newPod is a pod as the controller of a ReplicaSet creates it, in JSON. It chooses nothing.
func newPod(of *appsv1.ReplicaSet) ([]byte, error) {
	yes := true
	pod := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: of.Name + "-", Namespace: of.Namespace, Labels: of.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: of.Name, UID: of.UID, Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		Spec: of.Spec.Template.Spec,
	}
	text, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("write a pod: %w", err)
	}
	return text, nil
}

// fields are what every pod gets by the policy, as they stand in the API server's answer.
var fields = [][]byte{
	[]byte(`"priorityClassName":"web-high"`), []byte(`"priority":100000`), []byte(`"terminationGracePeriodSeconds":45`),
	[]byte(`"topologyKey":"topology.kubernetes.io/zone"`), []byte(`"topologyKey":"kubernetes.io/hostname"`),
}

// glance reports whether a pod that came back has the policy's fields. It costs next to nothing.
func (s *side) glance(answer []byte) error {
	for _, f := range fields {
		if bytes.Contains(answer, f) == s.without {
			return fmt.Errorf("side %s: a pod came back with %s: %t: %s", s.name, f, !s.without, answer)
		}
	}
	return nil
}

// post asks the API server to create a pod, and to store nothing.
func (l *laboratory) post(ctx context.Context, s *side, pod []byte) ([]byte, error) {
	result := l.clients.CoreV1().RESTClient().Post().Namespace(s.namespace).Resource("pods").
		VersionedParams(&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ParameterCodec).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(pod).Do(ctx)
	if err := result.Error(); err != nil { // has the message, which that of Raw has not
		return nil, err
	}
	return result.Raw()
}

// create creates a side's pod.
func (l *laboratory) create(ctx context.Context, s *side) error {
	answer, err := l.post(ctx, s, s.pod)
	if err != nil {
		return fmt.Errorf("side %s: %w", s.name, err)
	}
	return s.glance(answer)
}

// refused is an error unless a pod of a class that the policy forbids is refused by it: the message names what it allows.
func (l *laboratory) refused(ctx context.Context, s *side) error {
	forbidden := bytes.Replace(s.pod, []byte(`"spec":{`), []byte(`"spec":{"priorityClassName":"web-forbidden",`), 1)
	answer, err := l.post(ctx, s, forbidden)
	switch {
	case err == nil:
		return fmt.Errorf("side %s took a pod of class web-forbidden: %s", s.name, answer)
	case !strings.Contains(err.Error(), "web-low"):
		return fmt.Errorf("side %s refused a pod, and not by the policy: %w", s.name, err)
	}
	return nil
}

// same says which sides' pods differ from the first that has the policy.
func (l *laboratory) same(ctx context.Context) error {
	pods := map[string]*corev1.Pod{}
	for _, s := range l.sides {
		if s.without {
			continue
		}
		answer, err := l.post(ctx, s, s.pod)
		if err != nil {
			return fmt.Errorf("side %s: %w", s.name, err)
		}
		var pod corev1.Pod
		if err := json.Unmarshal(answer, &pod); err != nil {
			return fmt.Errorf("side %s: read a pod: %w", s.name, err)
		}
		pods[s.name] = &pod
	}
	if diff := differences(pods); diff != "" {
		return fmt.Errorf("not all sides give the same pod:\n%s", diff)
	}
	fmt.Fprintf(l.progress, "all %d sides with the policy give the same pod\n", len(pods))
	return nil
}

// differences between the pods of the sides and that of the API server's own policies; empty: none but in what each pod has for itself, and in what the
// sides note about themselves.
func differences(pods map[string]*corev1.Pod) string {
	var text strings.Builder
	for name, pod := range pods {
		if diff := cmp.Diff(plain(pods[inProcess]), plain(pod)); diff != "" {
			fmt.Fprintf(&text, "%s (-) and %s (+):\n%s", inProcess, name, diff)
		}
	}
	return text.String()
}

// plain is a pod without its names, and without annotations and managed fields.
func plain(pod *corev1.Pod) *corev1.Pod {
	p := pod.DeepCopy()
	p.ObjectMeta = metav1.ObjectMeta{Labels: pod.Labels}
	return p
}
