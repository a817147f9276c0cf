package diff

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/cli/delta"
	"github.com/podgrace/podgrace/cli/review"
)

// said is what a Diff says, a line for each change.
func said(d *Diff) []string {
	var all []string
	for _, w := range d.Workloads {
		for i := range w.Changes {
			c := &w.Changes[i]
			for _, l := range c.lines(false) {
				value, _, _ := strings.Cut(l.Value, ":")
				all = append(all, strings.Join([]string{w.Resource.Name, string(c.Kind), l.Sign, l.Name, value}, " "))
			}
		}
	}
	for _, r := range d.Running {
		for _, l := range (&runningGroup{running: []*Running{&r}}).lines() {
			value, _, _ := strings.Cut(l.Value, ":")
			all = append(all, fmt.Sprintf("%d/%d of %s %s %s %s", len(r.Pods), r.Of, r.Owner, l.Sign, l.Name, value))
		}
	}
	return all
}

const (
	web   = "terminationGracePeriodSeconds: 10,"
	guard = "{removal: {forceDelete: %s, protect: All, evictionWithoutGrace: %s}}"
)

// pod that runs on a node, owned by somebody.
func pod(name, owner, spec string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: %s, uid: %[1]s, labels: {app: web, pod-template-hash: abc}, ownerReferences: [%s]}
spec: {nodeName: n1, %s, containers: [{name: c, image: "i:1"}]}
status: {phase: Running}
`, name, owner, spec)
}

func controlled(kind, name string) string {
	return fmt.Sprintf("{apiVersion: apps/v1, kind: %s, name: %s, uid: u, controller: true}", kind, name)
}

var cases = []struct {
	name, from, to, manifests string
	want                      []string
}{
	{"a limit on the grace period", policies("p", "{gracePeriod: {minSeconds: 20}}"), policies("p", "{gracePeriod: {minSeconds: 45}}"), workload("Deployment", "shop", "web", web), []string{
		"web Changed ~ terminationGracePeriodSeconds 20 → 45",
		"web WarnedOtherwise ~ warning terminationGracePeriodSeconds is now 45, not 10",
	}},
	{"a warning comes with a limit", "", policies("p", "{gracePeriod: {minSeconds: 45}}"), workload("Deployment", "shop", "web", web), []string{
		"web Changed ~ terminationGracePeriodSeconds 10 → 45",
		"web Warned + warning terminationGracePeriodSeconds is now 45, not 10",
	}},
	{"a class", policies("p", "{priority: {className: low}}"), policies("p", "{priority: {className: high}}"), workload("Deployment", "shop", "web", ""), []string{
		"web Changed ~ priority 10 → 1000",
		"web Changed ~ priorityClassName low → high",
	}},
	{"constraints come without their selectors", "", policies("p", "{topologySpread: {constraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}}"),
		workload("StatefulSet", "shop", "db", ""), []string{"db Changed + topologySpread[topology.kubernetes.io/zone] maxSkew 1, ScheduleAnyway"}},
	{"the fields of the annotation", policies("p", "{node: {oom: {rank: 20}, cpu: {weight: 50}}}"), policies("p", "{node: {oom: {rank: 30}, io: {weight: 50}}}"), workload("Deployment", "shop", "web", ""), []string{
		"web Changed - enforcement.cpu.weight 50",
		"web Changed + enforcement.io.weight 50",
		"web Changed ~ enforcement.oom.rank 20 → 30",
	}},
	{"the annotation as a whole", "", policies("p", "{node: {oom: {rank: 30}}}"), workload("Deployment", "shop", "web", ""), []string{"web Changed + enforcement.oom.rank 30"}},
	{"a class that is allowed no more", policies("p", "{priority: {allowedClassNames: [low, high]}}"), policies("p", "{priority: {allowedClassNames: [low]}}"),
		workload("Deployment", "shop", "web", "priorityClassName: high,"), []string{`web Refused + refusal PriorityClassNotAllowed`}},
	{"another namespace is left alone", policies("p", "{gracePeriod: {minSeconds: 20}}"), policies("p", "{match: {namespaceSelector: {matchLabels: {team: data}}}, gracePeriod: {minSeconds: 20}}"),
		workload("Deployment", "data", "db", web) + workload("Deployment", "shop", "web", web), []string{
			"web Changed ~ terminationGracePeriodSeconds 20 → 10",
			"web Unwarned - warning terminationGracePeriodSeconds is now 20, not 10",
		}},
	{"removals are guarded", "", policies("g", fmt.Sprintf(guard, "Deny", "Deny")), workload("Deployment", "shop", "web", ""), []string{
		"web ForceDeleteForbidden ~ force delete Allowed → Denied (Unsafe)",
		"web EvictionForbidden ~ eviction without grace Allowed → Denied (Unsafe)",
	}},
	{"removals are warned about", policies("g", fmt.Sprintf(guard, "Deny", "Deny")), policies("g", fmt.Sprintf(guard, "Warn", "Raise")), workload("Deployment", "shop", "web", ""), []string{
		"web ForceDeleteWarned ~ force delete Denied → Warned (Unsafe)",
		"web EvictionWarned ~ eviction without grace Denied → Warned (Unsafe)",
	}},
	{"evictions are raised", policies("g", fmt.Sprintf(guard, "Deny", "Deny")), policies("g", fmt.Sprintf(guard, "Deny", "Raise")), workload("Deployment", "shop", "web", ""), []string{
		"web EvictionRaised ~ eviction without grace Denied → Raised",
	}},
	{"what runs keeps what it has", policies("p", "{gracePeriod: {defaultSeconds: 30}}"), policies("p", "{gracePeriod: {defaultSeconds: 45}}"),
		workload("Deployment", "shop", "web", "") + pod("web-abc-1", controlled("ReplicaSet", "web-abc"), "terminationGracePeriodSeconds: 30") + pod("web-abc-2", controlled("ReplicaSet", "web-abc"), "terminationGracePeriodSeconds: 45"), []string{
			"web Changed ~ terminationGracePeriodSeconds 30 → 45",
			"1/2 of Deployment shop/web ~ terminationGracePeriodSeconds 30 → 45",
		}},
	{"a pod that runs is no creation", "", policies("p", "{priority: {allowedClassNames: [low]}}"), pod("bare", "", "priorityClassName: high, priority: 1000"), []string{
		"1/1 of Pod shop/bare + refusal PriorityClass \"high\" is not allowed here",
	}},
	{"of a pod that runs the annotation is compared without its owner", "", policies("p", "{node: {oom: {rank: 30}}}"), pod("bare", "", "priority: 0"), []string{
		"1/1 of Pod shop/bare + enforcement.oom.rank 30",
	}},
	{"a pod that runs is guarded", "", policies("g", fmt.Sprintf(guard, "Deny", "Deny")), pod("bare", "", "priority: 0"), []string{
		"bare ForceDeleteForbidden ~ force delete Allowed → Denied (Unsafe)",
		"bare EvictionForbidden ~ eviction without grace Allowed → Denied (Unsafe)",
	}},
	{"a node is guarded", "", policies("g", fmt.Sprintf(guard, "Deny", "Deny")), `{apiVersion: v1, kind: Node, metadata: {name: n1, uid: n1}}` + "\n" + pod("bare", "", "priority: 0"), []string{
		"n1 DeleteForbidden ~ delete Allowed → Denied (Unsafe)",
		"bare ForceDeleteForbidden ~ force delete Allowed → Denied (Unsafe)",
		"bare EvictionForbidden ~ eviction without grace Allowed → Denied (Unsafe)",
	}},
}

func TestChanges(t *testing.T) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			d := diff(t, tc.from, tc.to, tc.manifests)
			if diff := cmp.Diff(tc.want, said(d)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if d.Summary.Affected != len(d.Workloads) {
				t.Errorf("%d affected, %d told", d.Summary.Affected, len(d.Workloads))
			}
		})
	}
}

func TestTheSamePoliciesChangeNothing(t *testing.T) {
	for _, tc := range cases {
		for _, p := range []string{tc.from, tc.to} {
			if d := diff(t, p, p, tc.manifests); d.Summary.Affected != 0 || len(d.Workloads) != 0 {
				t.Errorf("%s: %q", tc.name, said(d))
			}
		}
	}
}

// mirrored are the kinds that a change turns into the other way round. What a removal becomes follows from its old verdict.
var mirrored = map[Kind]Kind{Refused: Admitted, Admitted: Refused, Changed: Changed, Warned: Unwarned, Unwarned: Warned, WarnedOtherwise: WarnedOtherwise, RefusedOtherwise: RefusedOtherwise}

func mirror(t *testing.T, c Change) Change {
	m := Change{Kind: mirrored[c.Kind], From: c.To, To: c.From}
	for _, q := range []*removal{&forceDelete, &eviction, &deletion} {
		if q.kinds[Verdict(c.To)] == c.Kind {
			m.Kind = q.kinds[Verdict(c.From)]
		}
	}
	if m.Kind == "" {
		t.Errorf("%s has no mirror", c.Kind)
	}
	for _, f := range c.Fields {
		m.Fields = append(m.Fields, delta.Field{Path: f.Path, From: f.To, To: f.From})
	}
	return m
}

func sorted(changes []Change) []Change {
	bare := slices.Clone(changes)
	for i := range bare {
		bare[i].Reason, bare[i].Message = "", ""
	}
	slices.SortFunc(bare, func(a, b Change) int { return strings.Compare(string(a.Kind)+a.From+a.To, string(b.Kind)+b.From+b.To) })
	return bare
}

func TestTheOtherWayRoundIsTheMirror(t *testing.T) {
	for _, tc := range cases {
		there, back := diff(t, tc.from, tc.to, tc.manifests), diff(t, tc.to, tc.from, tc.manifests)
		if len(there.Workloads) != len(back.Workloads) {
			t.Errorf("%s: %q and back %q", tc.name, said(there), said(back))
			continue
		}
		for i := range there.Workloads {
			var want []Change
			for _, c := range there.Workloads[i].Changes {
				want = append(want, mirror(t, c))
			}
			if diff := cmp.Diff(sorted(want), sorted(back.Workloads[i].Changes)); diff != "" {
				t.Errorf("%s: -mirrored +back:\n%s", tc.name, diff)
			}
		}
	}
}

// What is asked of a pod that was made to run must be what the engine itself says of the workload.
func TestRemovalsAreTheEnginesOwn(t *testing.T) {
	for _, tc := range cases {
		s := stateOf(t, append(documents(t, state), documents(t, tc.manifests)...)...)
		from, to := engine(t, s, tc.from), engine(t, s, tc.to)
		d, err := (&Comparison{From: from, To: to}).Of(t.Context(), documents(t, tc.manifests))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents(t, tc.manifests) {
			if document.Kind == "Node" {
				continue
			}
			for _, q := range []*removal{&forceDelete, &eviction} {
				before, wrong := from.Review(t.Context(), document, q.question)
				if wrong != nil {
					t.Fatal(wrong)
				}
				after, wrong := to.Review(t.Context(), document, q.question)
				if wrong != nil {
					t.Fatal(wrong)
				}
				want := verdict(before) != verdict(after)
				got := slices.ContainsFunc(d.Workloads, func(w Workload) bool {
					return w.Resource.Name == document.Name && slices.ContainsFunc(w.Changes, func(c Change) bool {
						return q.kinds[Verdict(c.To)] == c.Kind && c.From == string(verdict(before)) && c.To == string(verdict(after))
					})
				})
				if got != want {
					t.Errorf("%s: %s of %s: told %v, the engine says %s and %s", tc.name, q.question.Operation, document.Name, got, verdict(before), verdict(after))
				}
			}
		}
	}
}

func TestAReplicaSetOfARunningPodHasItsOwnTemplate(t *testing.T) {
	old := strings.Replace(workload("ReplicaSet", "shop", "web-abc", "terminationGracePeriodSeconds: 50,"), "name: web-abc}", "name: web-abc, ownerReferences: ["+controlled("Deployment", "web")+"]}", 1)
	manifests := workload("Deployment", "shop", "web", "") + old + pod("web-abc-1", controlled("ReplicaSet", "web-abc"), "terminationGracePeriodSeconds: 50, priority: 0")
	if d := diff(t, "", policies("p", "{gracePeriod: {defaultSeconds: 45}}"), manifests); len(d.Running) != 0 || d.Summary.Other != 1 {
		t.Errorf("%q %+v", said(d), d.Summary)
	}
	d := diff(t, "", policies("p", "{gracePeriod: {defaultSeconds: 60, minSeconds: 60}}"), manifests)
	want := []string{"1/1 of Deployment shop/web ~ terminationGracePeriodSeconds 50 → 60"}
	if got := said(d); !slices.Contains(got, want[0]) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnknownIsSaid(t *testing.T) {
	d := diff(t, "", policies("g", fmt.Sprintf(guard, "Deny", "Deny")), workload("Deployment", "shop", "web", ""))
	if !slices.Contains(d.Summary.Unknown, Unknown{"the Node that it runs on", 1}) {
		t.Errorf("%+v", d.Summary.Unknown)
	}
	d = diff(t, "", policies("p", "{node: {oom: {rank: 30}}}"), pod("web-abc-1", controlled("ReplicaSet", "web-abc"), "priority: 0"))
	if !slices.Contains(d.Summary.Unknown, Unknown{unknownTemplate, 1}) {
		t.Errorf("%+v", d.Summary.Unknown)
	}
}

func TestWhatIsWrongIsToldAndTheRestCompared(t *testing.T) {
	manifests := workload("Deployment", "shop", "web", web) + "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: bad}\nspec: {template: 5}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n"
	s := stateOf(t, documents(t, state)...)
	c := Comparison{From: engine(t, s, ""), To: engine(t, s, policies("p", "{gracePeriod: {minSeconds: 45}}"))}
	d, err := c.Of(t.Context(), documents(t, manifests))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Errors) != 1 || d.Errors[0].Line == 0 || d.Summary.Errors != 1 || d.Summary.Affected != 1 || d.Summary.Other != 1 {
		t.Errorf("%+v %+v", d.Summary, d.Errors)
	}
}

// A recorded request asks its own question.
func TestRecordedRequest(t *testing.T) {
	recorded := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"namespace":"shop","name":"db-0","operation":"DELETE","userInfo":{"username":"eve"},"options":{"apiVersion":"meta.k8s.io/v1","kind":"DeleteOptions","gracePeriodSeconds":0},"oldObject":{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"db-0","uid":"1"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}}}`
	d := diff(t, "", policies("g", fmt.Sprintf(guard, "Deny", "Deny")), recorded)
	if len(d.Workloads) != 1 || d.Workloads[0].Changes[0].Kind != Refused || d.Workloads[0].User != "eve" || d.Workloads[0].Request != "DELETE" {
		t.Errorf("%+v", d.Workloads)
	}
}

func TestEachKindHasAPlace(t *testing.T) {
	for _, q := range []*removal{&forceDelete, &eviction, &deletion} {
		for _, k := range q.kinds {
			mirrored[k] = k
		}
	}
	for k := range mirrored {
		if k.rank() == len(kinds) {
			t.Errorf("%s is not in kinds", k)
		}
	}
	if len(mirrored) != len(kinds) {
		t.Errorf("%d kinds, %d have a place", len(mirrored), len(kinds))
	}
}

func TestVerdict(t *testing.T) {
	for want, r := range map[Verdict]*review.Result{
		Allowed:   {Decision: review.Allowed},
		Denied:    {Decision: review.Denied, Warnings: []string{"w"}},
		WithAWord: {Decision: review.Allowed, Warnings: []string{"w"}},
		Raised:    {Decision: review.Allowed, Warnings: []string{"w"}, Patch: []review.Operation{{}}},
	} {
		if got := verdict(r); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
