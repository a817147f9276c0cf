package fidelity

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	jobregistry "k8s.io/kubernetes/pkg/registry/batch/job"
	testclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// exportPolicies are the sets of policies that the states are reviewed by: what depends on each kind of object in them.
var exportPolicies = []string{`
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: by-name}
spec:
  match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}
  priority: {className: high, allowedClassNames: [high, low]}
  gracePeriod: {minSeconds: 20, maxSeconds: 60, preStopMarginSeconds: 10}
  removal: {forceDelete: Deny, protect: Stateful, evictionWithoutGrace: Raise}
`, `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: not-by-name}
spec:
  match: {namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [legacy]}]}}
  gracePeriod: {defaultSeconds: 45}
  topologySpread:
    onInfeasible: Deny
    constraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
  removal: {forceDelete: Deny, protect: All, evictionWithoutGrace: Deny, zeroGrace: Deny}
`, `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: team}
spec:
  match: {namespaceSelector: {matchLabels: {team: till}}}
  priority: {className: low}
  topologySpread:
    ownerRules: [{apiGroup: batch, kind: Job, labelKeys: [job-name]}]
    constraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, matchLabelKeys: [controller-revision-hash]}]
---
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: stateful}
spec:
  weight: 3
  removal: {forceDelete: Warn, protect: Stateful}
`}

// exportVariants are what a file may have of a state: all that the API server stored, what somebody wrote, and what was stored but for
// the namespaces.
var exportVariants = []string{"as exported", "as written", "without namespaces"}

var exportQuestions = []review.Question{
	{}, {Operation: review.OperationDelete, GracePeriodSeconds: new(int64(0))}, {Operation: review.OperationEvict, GracePeriodSeconds: new(int64(0))},
}

// exportCase is a cluster's state as somebody wrote it.
type exportCase struct {
	Policies int
	// Variant of what is in the file, and the Question.
	Variant, Question int
	Objects           []client.Object
}

// GoString prints it.
func (c *exportCase) GoString() string {
	objects := make([]any, len(c.Objects))
	for i, o := range c.Objects {
		objects[i] = o
	}
	return fmt.Sprintf("policies %d, %s, question %d\n%s", c.Policies, exportVariants[c.Variant], c.Question, draw.Show(objects...))
}

var exportCases = draw.Of(func(s draw.Source) *exportCase {
	c := &exportCase{Policies: s.Below(len(exportPolicies)), Variant: s.Below(len(exportVariants)), Question: draw.Pick(s, 0, 0, 1, 2)}
	ns := draw.Pick(s, metav1.NamespaceDefault, "shop", "legacy")
	at := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	for _, name := range []string{metav1.NamespaceDefault, "shop", "legacy"} {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if s.Chance(8) {
			o.Labels = map[string]string{"team": "till"}
		}
		c.Objects = append(c.Objects, o)
	}
	c.Objects = append(c.Objects,
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000, PreemptionPolicy: draw.Maybe(s, 8, corev1.PreemptNever)},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low"}, Value: 10, GlobalDefault: s.Chance(6)},
		&corev1.Service{ObjectMeta: at("one"), Spec: corev1.ServiceSpec{Selector: draw.Pick(s, map[string]string{"app": "w"}, map[string]string{"app": "other"}, map[string]string{"app": "w", appsv1.StatefulSetPodNameLabel: "w-0"}, map[string]string{appsv1.PodIndexLabel: "0"})}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: draw.Pick(s, nil, map[string]string{corev1.LabelTopologyZone: "a"})}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: draw.Pick(s, corev1.ConditionTrue, corev1.ConditionUnknown)}},
		}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n1"}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: exportNow.Add(-time.Duration(s.Below(3)) * time.Hour)}}},
		&corev1.PersistentVolumeClaim{ObjectMeta: at("data"), Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{draw.Pick(s, corev1.ReadWriteOnce, corev1.ReadWriteMany)}}},
	)
	running := &corev1.Pod{ObjectMeta: at("running"), Spec: drawExported(s), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	running.Spec.NodeName, running.Spec.PriorityClassName, running.Spec.Priority, running.Spec.PreemptionPolicy = "n1", "system-node-critical", new(int32(2000001000)), new(corev1.PreemptLowerPriority)
	c.Objects = append(c.Objects, running, drawExportedWorkload(s, at("w")))
	return c
})

// drawExported is a pod's spec, with some of what policies look at.
func drawExported(s draw.Source) corev1.PodSpec {
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, PriorityClassName: draw.Pick(s, "", "", "high", "low"), TerminationGracePeriodSeconds: draw.Maybe[int64](s, 8, 30, 0, 10, 100)}
	if s.Chance(4) {
		spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 25}}}
	}
	if s.Chance(4) {
		spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	return spec
}

func drawExportedWorkload(s draw.Source, meta metav1.ObjectMeta) client.Object {
	if s.Chance(5) {
		meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: draw.Pick(s, "Prometheus", "Deployment"), Name: "o", UID: "8f0c", Controller: new(true)}}
	}
	labels := map[string]string{"app": "w"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: drawExported(s)}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	switch s.Below(7) {
	case 0:
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
	case 1:
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}
	case 2:
		return &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}
	case 3:
		return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}
	case 4:
		return &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: draw.Pick(s, nil, labels), Template: &template}}
	}
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := batchv1.JobSpec{Template: template, CompletionMode: draw.Maybe(s, 6, batchv1.IndexedCompletion)}
	if job.CompletionMode != nil {
		job.Completions = new(int32(2))
	}
	if s.Chance(8) {
		return &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "@daily", JobTemplate: batchv1.JobTemplateSpec{Spec: job}}}
	}
	return &batchv1.Job{ObjectMeta: meta, Spec: job}
}

var exportNow = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// storedObject is what the API server makes of an object that is created.
func storedObject(t *rapid.T, o client.Object, n int) client.Object {
	o = o.DeepCopyObject().(client.Object)
	o.SetUID(types.UID(fmt.Sprintf("uid-%d", n)))
	legacyscheme.Scheme.Default(o)
	if job, ok := o.(*batchv1.Job); ok { // the only one whose strategy adds to what the review reads
		var internal batch.Job
		if err := legacyscheme.Scheme.Convert(job, &internal, nil); err != nil {
			t.Fatalf("converting to the internal version: %v", err)
		}
		jobregistry.Strategy.PrepareForCreate(context.Background(), &internal)
		stored := &batchv1.Job{}
		if err := legacyscheme.Scheme.Convert(&internal, stored, nil); err != nil {
			t.Fatalf("converting to v1: %v", err)
		}
		o = stored
	}
	o.SetResourceVersion("7")
	o.SetCreationTimestamp(metav1.NewTime(exportNow.Add(-24 * time.Hour)))
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(o)
	if err != nil {
		t.Fatalf("its kind: %v", err)
	}
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	return o
}

func list(objects []client.Object) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}
}

// listed is what kubectl get -o yaml prints of objects.
func listed(t *rapid.T, objects []client.Object) string {
	text, err := yaml.Marshal(list(objects))
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	return string(text)
}

func documentsOf(t *rapid.T, text string) []*manifest.Document {
	in := review.Read(&input.Reader{Stdin: strings.NewReader(text)}, "-")
	for _, err := range in.Errors {
		t.Fatalf("reading: %v", err)
	}
	return in.Documents
}

// told is all that a review reports of the documents that it judges, but for where they stand. written: but for what keeps an eviction to the very
// pod that was judged, which nobody can write into a file, as its UID is the API server's.
func told(t *rapid.T, engine *review.Engine, state *review.State, namespace string, q review.Question, written bool, documents []*manifest.Document) string {
	with := *engine
	with.State, with.Lean, with.Clock = state, true, testclock.NewFakePassiveClock(exportNow)
	if namespace != "" {
		with.Namespace = namespace
	}
	var all []string
	for _, d := range documents {
		r, wrong := with.Review(context.Background(), d, q)
		if wrong != nil {
			t.Fatalf("reviewing: %v", wrong)
		}
		if r == nil {
			continue
		}
		r.Source = manifest.Source{}
		if written {
			r.Patch = slices.DeleteFunc(r.Patch, func(p review.Operation) bool { return p.Path == "/deleteOptions/preconditions" })
		}
		text, err := json.MarshalIndent(r, "", " ")
		if err != nil {
			t.Fatalf("encoding: %v", err)
		}
		all = append(all, string(text))
	}
	return strings.Join(all, "\n")
}

// TestFidelityReviewExport: the review of a state that an API server has, from a file with all of it, says what the review with the
// cluster says: whether the file has what the API server added, or what somebody wrote, or no namespaces.
func TestFidelityReviewExport(t *testing.T) {
	t.Parallel()
	var engines []*review.Engine
	for _, text := range exportPolicies {
		policies, err := policyfile.Parse("policies.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		engine, err := review.NewEngine(review.NewState(), policies...)
		if err != nil {
			t.Fatal(err)
		}
		engines = append(engines, engine)
	}
	wanted := draw.Shares{"denied": 10, "warned": 20, "changed": 20, "spread nothing": 0.1, "spread": 4, "as exported": 20, "as written": 20, "without namespaces": 20}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := exportCases.Draw(t, "case")
		live, engine, q := review.NewState(), engines[c.Policies], exportQuestions[c.Question]
		var stored, file []client.Object
		var namespace string // of the file
		for i, o := range c.Objects {
			kept := storedObject(t, o, i)
			live.Set(kept)
			live.Complete(kept)
			stored = append(stored, kept)
			in := kept.DeepCopyObject().(client.Object)
			switch exportVariants[c.Variant] {
			case "as written":
				in = o.DeepCopyObject().(client.Object)
				in.GetObjectKind().SetGroupVersionKind(kept.GetObjectKind().GroupVersionKind())
			case "without namespaces":
				if in.GetName() == "w" && in.GetNamespace() != metav1.NamespaceDefault { // where nobody need say it
					namespace = in.GetNamespace()
				}
				in.SetNamespace("")
			}
			file = append(file, in)
		}
		for _, kind := range []client.Object{&appsv1.StatefulSet{}, &appsv1.ReplicaSet{}, &corev1.ReplicationController{}} {
			live.Complete(kind)
		}
		want := told(t, engine, live, "", q, exportVariants[c.Variant] == "as written", documentsOf(t, encoded(t, list(stored))))
		state, documents := review.NewState(), documentsOf(t, listed(t, file))
		for _, d := range documents {
			if err := state.Add(d, namespace); err != nil {
				t.Fatalf("adding: %v", err)
			}
		}
		if diff := cmp.Diff(want, told(t, engine, state, namespace, q, false, documents)); diff != "" {
			t.Fatalf("with the cluster (-) and from a file (+):\n%s", diff)
		}
		counts.Add(exportVariants[c.Variant])
		countTold(want, counts)
	})
}

func countTold(text string, counts *draw.Tally) {
	for what, words := range map[string]string{
		"denied": `"decision": "Denied"`, "warned": "\"warnings\": [\n", "changed": "\"patch\": [\n", "spread": `"path": "/spec/topologySpreadConstraints"`, "spread nothing": "spread nothing",
	} {
		if strings.Contains(text, words) {
			counts.Add(what)
		}
	}
}
