package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/internal/manifest"
)

// podsOfSets are the StatefulSets that would make a pod of the name that is asked for, each as if its first pod were that one. The error says
// which pods there are of a StatefulSet that does not make it.
func (o *explainOptions) podsOfSets(documents []*manifest.Document) (found []*manifest.Document, err error) {
	kind, name, qualified := strings.Cut(o.name, "/")
	if !qualified {
		kind, name = "Pod", o.name
	}
	set, ordinal, ok := cutOrdinal(name)
	if !ok || !kindIs(kind, podKind) {
		return nil, nil
	}
	for _, d := range documents {
		if d.Kind != "StatefulSet" || d.APIVersion != appsv1.SchemeGroupVersion.String() || d.Name != set || !o.inNamespace(d) {
			continue
		}
		made, wrong := podOfSet(d, ordinal)
		if wrong != nil {
			err = wrong
			continue
		}
		found = append(found, made)
	}
	return found, err
}

// cutOrdinal takes the name of a StatefulSet's pod apart.
func cutOrdinal(name string) (set string, ordinal int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	return name[:i], int32(n), err == nil && strconv.FormatInt(n, 10) == name[i+1:] && n >= 0
}

func podOfSet(d *manifest.Document, ordinal int32) (*manifest.Document, error) {
	var set appsv1.StatefulSet
	if json.Unmarshal(d.JSON, &set) != nil {
		return d, nil // whose reader says what is wrong with it
	}
	first := int32(0)
	if set.Spec.Ordinals != nil {
		first = set.Spec.Ordinals.Start
	}
	last := first + ptr.Deref(set.Spec.Replicas, 1) - 1
	if ordinal < first || ordinal > last {
		return nil, fmt.Errorf("StatefulSet %s (%s:%d) makes no pod %s-%d: %s", d.Name, d.File, d.Line, d.Name, ordinal, podsFrom(d.Name, first, last))
	}
	raw, err := jsonpatch.MergePatch(d.JSON, fmt.Appendf(nil, `{"spec":{"ordinals":{"start":%d}}}`, ordinal))
	if err != nil {
		return nil, fmt.Errorf("StatefulSet %s: %w", d.Name, err)
	}
	made := *d
	made.JSON = raw
	return &made, nil
}

func podsFrom(set string, first, last int32) string {
	switch {
	case last < first:
		return "it has no replicas"
	case last == first:
		return fmt.Sprintf("its only pod is %s-%d", set, first)
	}
	return fmt.Sprintf("its pods are %s-%d to %s-%d", set, first, set, last)
}

// madeAtRandom is a workload by whose name that of a pod begins which is asked for: its pods' names are made up in the cluster.
func (o *explainOptions) madeAtRandom(documents []*manifest.Document) *manifest.Document {
	name := o.name[strings.LastIndexByte(o.name, '/')+1:]
	makers := []string{"Deployment", "ReplicaSet", "DaemonSet", "Job", "CronJob", "ReplicationController"}
	i := slices.IndexFunc(documents, func(d *manifest.Document) bool {
		return slices.Contains(makers, d.Kind) && strings.HasPrefix(name, d.Name+"-") && o.inNamespace(d)
	})
	if i < 0 {
		return nil
	}
	return documents[i]
}
