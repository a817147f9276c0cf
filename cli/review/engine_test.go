package review

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// engineOf knows these policies and objects, which are documents of YAML.
func engineOf(t testing.TB, policies string, state ...string) *Engine {
	t.Helper()
	parsed, err := policyfile.Parse("policy.yaml", []byte(policies))
	if err != nil {
		t.Fatal(err)
	}
	s := NewState()
	for _, text := range state {
		if err := s.Add(document(t, text), "default"); err != nil {
			t.Fatal(err)
		}
	}
	e, err := NewEngine(s, parsed...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func excluding(t testing.TB, e *Engine, patterns ...string) *Engine {
	t.Helper()
	exempt, err := e.Exempt.Excluding(patterns...)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.SetExempt(exempt); err != nil {
		t.Fatal(err)
	}
	return e
}

func document(t testing.TB, text string) *manifest.Document {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		APIVersion, Kind string
		Metadata         struct{ Namespace, Name string }
	}
	if err := yaml.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return &manifest.Document{File: "f.yaml", Line: 3, JSON: raw, APIVersion: m.APIVersion, Kind: m.Kind, Namespace: m.Metadata.Namespace, Name: m.Metadata.Name}
}

func mustReview(t testing.TB, e *Engine, text string, q Question) *Result {
	t.Helper()
	r, wrong := e.Review(t.Context(), document(t, text), q)
	if wrong != nil {
		t.Fatal(wrong)
	}
	return r
}

const (
	web = `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: web}
spec:
  priority: {className: high, allowedClassNames: [high, low]}
  gracePeriod: {minSeconds: 20}
  topologySpread:
    constraints:
    - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
  removal: {forceDelete: Deny, protect: All, evictionWithoutGrace: Raise}
`
	selecting = `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: selecting}
spec:
  match: {namespaceSelector: {matchLabels: {team: shop}}}
  gracePeriod: {minSeconds: 20}
`
	noZero = `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: no-zero}
spec:
  removal: {zeroGrace: Deny}
`
	shop    = `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: shop}}}`
	high    = `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}`
	service = `{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {selector: {app: web}}}`
	ready   = `{apiVersion: v1, kind: Node, metadata: {name: n1, uid: u}, status: {conditions: [{type: Ready, status: "True"}]}}`
	lease   = `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: n1, namespace: kube-node-lease}, spec: {}}`

	containers = `[{name: c, image: "web:1"}]`
	deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 10, containers: ` + containers + `}
`
	statefulSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {terminationGracePeriodSeconds: 0, containers: ` + containers + `}
`
	running = `
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop, uid: u}
spec: {nodeName: n1, terminationGracePeriodSeconds: 30, containers: ` + containers + `}
status: {phase: Running}
`
)

// patchOf is the patch by path.
func patchOf(r *Result) map[string]string {
	patch := map[string]string{}
	for _, o := range r.Patch {
		patch[o.Path] = string(o.Value)
	}
	return patch
}

func TestCreation(t *testing.T) {
	spread := `[{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"web"}},"matchLabelKeys":["pod-template-hash"]}]`
	for name, test := range map[string]struct {
		engine *Engine
		object string
		want   Result
		patch  map[string]string
		says   string // in the message or a warning
	}{
		"a Deployment's pod": {
			engine: engineOf(t, web, shop, high, service), object: deployment,
			want:  Result{Decision: Allowed, Via: ViaTemplate, Policies: []string{"web"}},
			patch: map[string]string{"/spec/priorityClassName": `"high"`, "/spec/priority": "1000", "/spec/preemptionPolicy": `"PreemptLowerPriority"`, "/spec/terminationGracePeriodSeconds": "20", "/spec/topologySpreadConstraints": spread},
			says:  "is now 20, not 10",
		},
		"services are unknown": {
			engine: engineOf(t, web, shop, high), object: strings.Replace(deployment, "labels: {app: web}", "labels: {app: web, tier: front}", 1),
			want: Result{Decision: Allowed, Via: ViaTemplate, Policies: []string{"web"}, Unknown: []string{"Services of Namespace shop"}},
		},
		"the class is unknown": {
			engine: engineOf(t, web, shop, service), object: deployment,
			want: Result{Decision: Allowed, Via: ViaTemplate, Policies: []string{"web"}, Unknown: []string{"PriorityClass high"}},
			says: `PriorityClass "high", but whether the cluster has it is not known`,
		},
		"its own class is unknown": {
			engine: engineOf(t, selecting, shop), object: strings.Replace(running, "nodeName: n1", "priorityClassName: high", 1),
			want: Result{Decision: Allowed, Policies: []string{"selecting"}, Unknown: []string{"PriorityClass high"}}, says: `"high" is not known here`,
		},
		"a wrong priority": {
			engine: engineOf(t, selecting, shop, high), object: strings.Replace(running, "nodeName: n1", "priorityClassName: high, priority: 7", 1),
			want: Result{Decision: Denied, Reason: "Priority"}, says: "the API server's own Priority plugin refuses it",
		},
		"the namespace is unknown, and no policy selects by it": {
			engine: engineOf(t, noZero), object: running, want: Result{Decision: Allowed, Policies: []string{"no-zero"}},
		},
		"the namespace is unknown": {
			engine: engineOf(t, selecting), object: running, want: Result{Decision: Allowed, Unknown: []string{"Namespace shop"}}, says: "could not be looked up",
		},
		"no grace in a StatefulSet": {
			engine: engineOf(t, noZero, shop), object: statefulSet, want: Result{Decision: Denied, Reason: "Forbidden"}, says: "PodPolicy no-zero refuses that",
		},
		"kube-system": {
			engine: engineOf(t, web, high), object: strings.Replace(running, "namespace: shop", "namespace: kube-system", 1),
			want: Result{Decision: Allowed, Reason: notJudged},
		},
		"an excluded namespace": {
			engine: excluding(t, engineOf(t, web, high), "shop"), object: running, want: Result{Decision: Allowed, Reason: notJudged},
		},
		"one by its beginning": {
			engine: excluding(t, engineOf(t, web, high), "openshift-*"), object: strings.Replace(running, "namespace: shop", "namespace: openshift-dns", 1),
			want: Result{Decision: Allowed, Reason: notJudged},
		},
		"a StatefulSet in one": {
			engine: excluding(t, engineOf(t, noZero, shop), "shop"), object: statefulSet, want: Result{Decision: Allowed, Via: "template", Reason: notJudged},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustReview(t, test.engine, test.object, Question{})
			got := Result{Decision: r.Decision, Via: r.Via, Reason: r.Reason, Policies: r.Policies, Unknown: r.Unknown}
			if test.want.Policies == nil {
				test.want.Policies = []string{}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s\n%s %v", diff, r.Message, r.Warnings)
			}
			if test.patch != nil {
				if diff := cmp.Diff(test.patch, patchOf(r)); diff != "" {
					t.Errorf("patch (-want +got)\n%s", diff)
				}
			}
			if all := r.Message + strings.Join(r.Warnings, "\n"); !strings.Contains(all, test.says) {
				t.Errorf("said %q", all)
			}
			if r.Source != (manifest.Source{File: "f.yaml", Line: 3}) || r.Operation != OperationCreate {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestRemoval(t *testing.T) {
	force, jane := new(int64(0)), authenticationv1.UserInfo{Username: "jane"}
	node := authenticationv1.UserInfo{Username: "system:node:n1", Groups: []string{"system:nodes"}}
	for name, test := range map[string]struct {
		state    []string
		object   string
		question Question
		want     Result
		says     string
	}{
		"plain delete":           {[]string{shop, ready, lease}, running, Question{Operation: OperationDelete, User: jane}, Result{Decision: Allowed, Reason: notJudged}, ""},
		"force delete":           {[]string{shop, ready, lease}, running, Question{Operation: OperationDelete, GracePeriodSeconds: force, User: jane}, Result{Decision: Denied, Reason: "Unsafe"}, "may still run on n1"},
		"force delete, no node":  {[]string{shop}, running, Question{Operation: OperationDelete, GracePeriodSeconds: force}, Result{Decision: Denied, Reason: "Unsafe", Unknown: []string{"Node n1"}}, "state could not be read"},
		"by its kubelet":         {[]string{shop, ready}, running, Question{Operation: OperationDelete, GracePeriodSeconds: force, User: node}, Result{Decision: Allowed, Reason: notJudged}, ""},
		"only a manifest":        {[]string{shop, high}, deployment, Question{Operation: OperationDelete, GracePeriodSeconds: force}, Result{Decision: Denied, Reason: "Unsafe", Unknown: []string{"the Node that it runs on"}}, "pod shop/web-revision-0"},
		"finished":               {[]string{shop}, strings.Replace(running, "Running", "Succeeded", 1), Question{Operation: OperationDelete, GracePeriodSeconds: force}, Result{Decision: Allowed, Reason: notJudged}, ""},
		"eviction":               {[]string{shop, ready, lease}, running, Question{Operation: OperationEvict}, Result{Decision: Allowed, Reason: "NotForced"}, ""},
		"eviction without grace": {[]string{shop, ready, lease}, running, Question{Operation: OperationEvict, GracePeriodSeconds: force}, Result{Decision: Allowed}, "a grace period of 0 was raised to its own 30 s"},
		"eviction, own grace 0":  {[]string{shop, ready, lease}, strings.Replace(running, "Seconds: 30", "Seconds: 0", 1), Question{Operation: OperationEvict}, Result{Decision: Allowed}, "a grace period of 0 was raised to 30 s"},
		"eviction, half-done":    {[]string{shop, ready, lease}, strings.Replace(running, "uid: u", `uid: u, deletionTimestamp: "2026-01-01T10:00:00Z", deletionGracePeriodSeconds: 0`, 1), Question{Operation: OperationEvict}, Result{Decision: Denied, Reason: "Unsafe"}, "a force delete of it was refused half-way"},
		"delete of a ready node": {[]string{shop, ready, lease}, ready, Question{Operation: OperationDelete}, Result{Decision: Denied, Reason: "Unsafe", Unknown: []string{"Pods of Node n1"}}, "n1"},
		"eviction of a node":     {nil, ready, Question{Operation: OperationEvict}, Result{}, ""},
		"delete of a Service":    {nil, service, Question{Operation: OperationDelete}, Result{}, ""},
		"delete of a VolumeAttachment": {
			nil, `{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: va}, spec: {nodeName: n1, attacher: a, source: {persistentVolumeName: pv}}, status: {attached: true}}`,
			Question{Operation: OperationDelete}, Result{Decision: Denied, Reason: "Unsafe", Unknown: []string{"Node n1"}}, "volume pv",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustReview(t, engineOf(t, web, test.state...), test.object, test.question)
			if r == nil {
				if test.want.Decision != "" {
					t.Error("it is not judged")
				}
				return
			}
			got := Result{Decision: r.Decision, Reason: r.Reason, Unknown: r.Unknown}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s\n%s %v", diff, r.Message, r.Warnings)
			}
			if all := r.Message + strings.Join(r.Warnings, "\n"); !strings.Contains(all, test.says) {
				t.Errorf("said %q", all)
			}
		})
	}
}

// Who creates a workload's pods is not the one who asks about their removal.
func TestRemovalByNobody(t *testing.T) {
	allowing := strings.Replace(web, "protect: All", "protect: All, allowedActors: ['system:serviceaccount:kube-system:replicaset-controller']", 1)
	r := mustReview(t, engineOf(t, allowing, shop, high), deployment, Question{Operation: OperationDelete, GracePeriodSeconds: new(int64(0))})
	if r.Decision != Denied {
		t.Errorf("%+v", r)
	}
}

// A pod that is there already is asked about as it is, and one of a ReplicaSet that a Deployment manages is not asked about twice.
func TestOthers(t *testing.T) {
	e := engineOf(t, web, shop, high)
	managed := `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-1, namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}}}`
	for name, text := range map[string]string{"a Service": service, "a ReplicaSet of a Deployment": managed, "an unknown kind": `{apiVersion: example.com/v1, kind: Thing, metadata: {name: t}}`} {
		if r := mustReview(t, e, text, Question{}); r != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for name, text := range map[string]string{
		"a wrong type":                       `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: 7}}`,
		"no version":                         `{apiVersion: a/b/c, kind: Pod}`,
		"a review without a request":         `{apiVersion: admission.k8s.io/v1, kind: AdmissionReview}`,
		"a ReplicationController of nothing": `{apiVersion: v1, kind: ReplicationController, metadata: {name: rc}}`,
	} {
		if _, wrong := e.Review(t.Context(), document(t, text), Question{}); wrong == nil || wrong.File != "f.yaml" || wrong.Line != 3 {
			t.Errorf("%s: %v", name, wrong)
		}
	}
}

func TestRecorded(t *testing.T) {
	e := engineOf(t, web, shop, ready, lease)
	review := `{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, request: {uid: r, operation: %s, kind: {version: v1, kind: Pod}, resource: {version: v1, resource: pods}, subResource: "%s", namespace: shop, name: p, userInfo: {username: jane, groups: []}, oldObject: %s, object: %s, options: %s}}`
	pod, err := yaml.YAMLToJSON([]byte(running))
	if err != nil {
		t.Fatal(err)
	}
	failed := strings.Replace(string(pod), "Running", "Failed", 1)
	fill := func(values ...string) string {
		text := review
		for _, v := range values {
			text = strings.Replace(text, "%s", v, 1)
		}
		return text
	}
	r := mustReview(t, e, fill("CREATE", "eviction", "null", "{}", "null"), Question{})
	if r.Decision != Denied || !slices.Equal(r.Unknown, []string{"Pod shop/p"}) || !strings.Contains(r.Message, "read pod shop/p") {
		t.Errorf("an eviction of a pod that is not known: %+v", r)
	}
	for name, test := range map[string]struct{ text, reason, subresource string }{
		"force delete": {fill("DELETE", "", string(pod), "null", `{gracePeriodSeconds: 0}`), "Unsafe", ""},
		"status":       {fill("UPDATE", "status", string(pod), failed, "null"), "Unsafe", "status"},
		"binding":      {fill("CREATE", "binding", "null", "null", "null"), notJudged, "binding"},
	} {
		r := mustReview(t, e, test.text, Question{})
		if r.Reason != test.reason || r.User != "jane" || r.Subresource != test.subresource || r.Resource.Name != "p" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// The results stand in the order of the documents, whoever was done first.
func TestAll(t *testing.T) {
	e := engineOf(t, web, shop, high)
	var documents []*manifest.Document
	for i := range 3*chunk + 7 {
		d := document(t, strings.Replace(deployment, "name: web,", "name: web-"+string(rune('a'+i%26))+",", 1))
		d.Line = i
		if i%10 == 9 {
			d = document(t, service)
		}
		documents = append(documents, d)
	}
	broken := document(t, `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: 7}`)
	documents = append(documents, broken)
	done := make(chan int, len(documents))
	results, other, errs, err := e.All(t.Context(), documents, Question{}, func(n int) { done <- n })
	if err != nil || len(errs) != 1 || other != 19 || len(results)+other+len(errs) != len(documents) {
		t.Fatalf("%d results, %d others, %v, %v", len(results), other, errs, err)
	}
	if !slices.IsSortedFunc(results, func(a, b Result) int { return a.Source.Line - b.Source.Line }) {
		t.Error("not in order")
	}
	close(done)
	total := 0
	for n := range done {
		total += n
	}
	if total != len(documents) {
		t.Errorf("%d were told of %d", total, len(documents))
	}
}

// Whatever stands in an object: an answer or an error, and the same one again.
func FuzzReview(f *testing.F) {
	for _, seed := range []string{deployment, statefulSet, running, ready, service} {
		raw, err := yaml.YAMLToJSON([]byte(seed))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, uint8(0))
		f.Add(raw, uint8(1))
	}
	e := engineOf(f, web, shop, high, ready)
	questions := []Question{{}, {Operation: OperationDelete, GracePeriodSeconds: new(int64(0))}, {Operation: OperationEvict, GracePeriodSeconds: new(int64(0))}}
	f.Fuzz(func(t *testing.T, raw []byte, which uint8) {
		var head struct{ APIVersion, Kind string }
		if json.Unmarshal(raw, &head) != nil {
			return
		}
		d := &manifest.Document{File: "f", Line: 1, JSON: raw, APIVersion: head.APIVersion, Kind: head.Kind}
		q := questions[int(which)%len(questions)]
		first, wrong := e.Review(t.Context(), d, q)
		if wrong != nil && (wrong.Message == "" || first != nil) {
			t.Fatalf("%+v, %+v", first, wrong)
		}
		again, _ := e.Review(t.Context(), d, q)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
