package defaulting

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const annotationsPath = "/metadata/annotations"

// annotationPath is the JSON pointer of an annotation; a slash in a key is written ~1 (RFC 6901).
func annotationPath(key string) string {
	return annotationsPath + "/" + strings.ReplaceAll(key, "/", "~1")
}

// annotate sets an annotation that only Podgrace may set, and overwrites what the user put there.
func (r *Result) annotate(pod *corev1.Pod, section, key string, want from[string]) {
	have, present := pod.Annotations[key]
	if present && have == want.value {
		return
	}
	if present {
		r.warn("annotation %s is written by Podgrace only: it was replaced", key)
	}
	// JSON patch adds nothing to a missing map: it is added first, unless another annotation has done so.
	made := slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Path == annotationsPath })
	if len(pod.Annotations) == 0 && !made {
		r.change(section, OperationAdd, annotationsPath, map[string]string{key: want.value}, "PodPolicy %s", want.name())
		return
	}
	r.change(section, OperationAdd, annotationPath(key), want.value, "PodPolicy %s", want.name())
}

// unannotate removes an annotation that only Podgrace may set, from a pod that gets none.
func (r *Result) unannotate(pod *corev1.Pod, section, key, why string) {
	if _, present := pod.Annotations[key]; present {
		r.change(section, OperationRemove, annotationPath(key), nil, "%s", why)
		r.warn("annotation %s is written by Podgrace only: it was removed", key)
	}
}

// patchAnnotations makes a change of annotate or unannotate.
func patchAnnotations(pod *corev1.Pod, c Change) {
	if c.Path == annotationsPath {
		pod.Annotations = maps.Clone(c.Value.(map[string]string))
		return
	}
	key, ok := strings.CutPrefix(c.Path, annotationsPath+"/")
	if !ok {
		return
	}
	key = strings.ReplaceAll(key, "~1", "/")
	delete(pod.Annotations, key)
	if c.Operation == OperationAdd {
		pod.Annotations[key] = c.Value.(string)
	}
}
