package defaulting

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/internal/fieldpath"
)

const annotationsPath = "/metadata/annotations"

// annotationPath is the JSON pointer of an annotation.
func annotationPath(key string) string {
	return fieldpath.Path{"metadata", "annotations", key}.Pointer()
}

// annotate sets an annotation that only Podgrace may set, and overwrites what the user put there.
func (r *Result) annotate(pod *corev1.Pod, section, key string, want from[string]) {
	have, present := pod.Annotations[key]
	if present && have == want.value {
		return
	}
	if present {
		r.warn(becauseAnnotationReserved, "", "annotation %s is written by Podgrace only: it was replaced", key)
	}
	// JSON patch adds nothing to a missing map: it is added first, unless another annotation has done so.
	made := slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Path == annotationsPath })
	c := Change{Section: section, Policy: want.name(), Path: annotationPath(key), Value: want.value, Why: "PodPolicy " + want.name()}
	if present {
		c.Before = have
	}
	if len(pod.Annotations) == 0 && !made {
		c.Path, c.Value = annotationsPath, map[string]string{key: want.value}
	}
	r.change(c)
}

// unannotate removes an annotation that only Podgrace may set, from a pod that gets none.
func (r *Result) unannotate(pod *corev1.Pod, section, key, why string) {
	if have, present := pod.Annotations[key]; present {
		r.change(Change{Section: section, Path: annotationPath(key), Before: have, Why: why})
		r.warn(becauseAnnotationReserved, "", "annotation %s is written by Podgrace only: it was removed", key)
	}
}

// patchAnnotations makes a change of annotate or unannotate.
func patchAnnotations(pod *corev1.Pod, c Change) {
	if c.Path == annotationsPath {
		pod.Annotations = maps.Clone(c.Value.(map[string]string))
		return
	}
	if !strings.HasPrefix(c.Path, annotationsPath+"/") {
		return
	}
	key := fieldpath.OfPointer(c.Path)[2]
	delete(pod.Annotations, key)
	if c.Operation == OperationAdd {
		pod.Annotations[key] = c.Value.(string)
	}
}
