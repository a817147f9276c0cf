package scheduling

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/internal/manifest"
)

// by is the scheduler of the pages.
const by = "kube-scheduler 1.36.3"

var update = flag.Bool("update", false, "write the pages of testdata, which e2e/page shows in a browser")

func written(t *testing.T, r *Report, made Made) string {
	t.Helper()
	var out bytes.Buffer
	if err := HTML(&out, r, made); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestGoldenPages(t *testing.T) {
	for name, r := range map[string]*Report{"sample": sample(), "hostile": hostile(), "large": large(5000), "empty": NewReport(by, "", nil)} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "page", name+".html")
			got := written(t, r, Made{Time: time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC), Version: "v1.2.3"})
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the page is another one (-want +got; -update writes it):\n%s", diff)
			}
		})
	}
}

func domain(value string, count, skewAfter int) Domain {
	return Domain{Value: value, Count: count, SkewAfter: skewAfter}
}

// web is the design's own example: two zones, three hosts, and two constraints of which each can be met.
func web() Preview {
	deployment := manifest.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	return Preview{
		Resource: deployment, Source: manifest.Source{File: "web.yaml", Line: 1}, Via: "template", Outcome: Nowhere, Nodes: 3,
		Policies: []string{"spread"}, Changed: map[string]string{"topologySpreadConstraints": "PodPolicy spread: default"},
		Groups: []Group{{Plugin: "PodTopologySpread", Reasons: []string{"node(s) didn't match pod topology spread constraints"}, MayPreempt: true, Nodes: []string{"n1", "n2", "n3"}}},
		Spread: []Spread{
			{TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: 1, SelfMatch: true, Minimum: 2, Domains: []Domain{domain("A", 3, 2), domain("B", 2, 1)}},
			{TopologyKey: corev1.LabelHostname, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: 1, SelfMatch: true, Minimum: 1, Domains: []Domain{domain("n1", 2, 2), domain("n2", 1, 1), domain("n3", 2, 2)}},
		},
		Zones: []Zone{{"A", []string{"n1", "n2"}}, {"B", []string{"n3"}}},
		Contradictions: []Contradiction{{
			Constraints: []int{0, 1}, Allows: [][]string{{"n3"}, {"n2"}},
			Ways: []Way{{Constraint: 0, MaxSkew: 2, Nodes: []string{"n2"}}, {Constraint: 0, Nodes: []string{"n2"}}, {Constraint: 1, MaxSkew: 2, Nodes: []string{"n3"}}, {Constraint: 1, Nodes: []string{"n3"}}},
		}},
	}
}

// sample has all that a page can show.
func sample() *Report {
	pod := func(name string, o Outcome) Preview {
		return Preview{Resource: manifest.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: name}, Source: manifest.Source{File: "pods.yaml", Line: 3}, Outcome: o, Nodes: 3}
	}
	scores := []Score{{Plugin: "ImageLocality", Weight: 1}, {Plugin: "NodeResourcesFit", Score: 95, Weight: 1}, {Plugin: "TaintToleration", Score: 100, Weight: 3}}
	urgent := pod("urgent", Preempts)
	urgent.Groups = []Group{{Plugin: "NodeResourcesFit", Reasons: []string{"Insufficient cpu"}, MayPreempt: true, Nodes: []string{"n1", "n2"}}, {Plugin: "NodeUnschedulable", Reasons: []string{"node(s) were unschedulable"}, Nodes: []string{"n3"}}}
	urgent.Preemption = &Preemption{Decided: "5 as the highest priority of a victim, against 10", Candidates: []Candidate{
		{Node: "n2", Victims: []Victim{{Namespace: "shop", Name: "db-0", Priority: 5, Budget: new(int32(1)), Guard: "pod shop/db-0 may still run on n2"}}},
		{Node: "n1", Victims: []Victim{{Namespace: "shop", Name: "web-0", Priority: 10, GraceSeconds: 300}}, GoneWithin: 300},
		{Node: "n4", Victims: []Victim{{Namespace: "shop", Name: "web-1", Priority: 10, GraceSeconds: 30}}, GoneWithin: 30},
	}}
	patient := web()
	patient.Resource.Name, patient.Outcome, patient.Fit, patient.Contradictions, patient.Spread = "patient", Fits, 3, nil, web().Spread[1:]
	patient.Groups = []Group{{Fits: true, Scores: scores, Total: 395, Nodes: []string{"n1", "n2", "n3"}}}
	end := web().Spread[1]
	end.Domains = []Domain{domain("n1", 2, 2), domain("n2", 1, 1), domain("n3", 2, 2)}
	patient.Rollout = &Rollout{
		Down: &ScaleDown{
			From: 7, To: 5, Removed: []Removed{{Name: "patient-a", OnNode: 0}, {Name: "patient-b", Node: "n1", Ready: true, DeletionCost: -5, OnNode: 2}},
			Left: Placement{Placed: 5, Nodes: []Count{{"n1", 2}, {"n2", 1}, {"n3", 2}}, Spread: []Spread{end}},
		},
		Replicas: 5, MaxSurge: 2, Left: 5, First: Placement{Placed: 5, Nodes: []Count{{"n1", 2}, {"n2", 1}, {"n3", 2}}, Spread: []Spread{end}},
		Second: &Placement{Pending: 2, Why: "0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints", Nodes: []Count{}, Spread: []Spread{end},
			Contradictions: []Contradiction{{Constraints: []int{0}, Allows: [][]string{{}}, Ways: []Way{{NodeTaintsPolicy: corev1.NodeInclusionPolicyHonor, Nodes: []string{"n2"}}}}},
		},
	}
	calm := pod("calm", Fits)
	calm.Fit, calm.Notes = 2, []string{"The scheduler takes one of the 2 best by chance."}
	calm.Groups = []Group{{Fits: true, Scores: scores, Total: 395, Nodes: []string{"n1", "n2"}}, {Plugin: "NodeName", Reasons: []string{"node(s) didn't match the requested node name"}, Nodes: []string{"n3"}}}
	calm.Rollout = &Rollout{Replicas: 2, First: Placement{Placed: 2, Nodes: []Count{{"n1", 1}, {"n2", 1}}}}
	gated, refused, other := pod("gated", Gated), pod("refused", Refused), pod("other", NotKnown)
	gated.Why, refused.Why, other.Why = "waiting for scheduling gates", "the policies say no", "another scheduler decides"
	return NewReport(by, "", []Preview{web(), urgent, patient, calm, gated, refused, other})
}

// attacks are texts that would act on a reader.
var attacks = []string{
	`<script>window.pwned = 1</script>`, `</style><script>window.pwned = 1</script>`, `<!--<script>`, `"><img src=x onerror="window.pwned = 1">`, `' onfocus='window.pwned = 1' autofocus='`,
	`{{.}}`, "a\u2028window.pwned = 1//", `javascript:window.pwned = 1`, "\x1b[31mred\x07", "\u202egnp.exe", "\xff\xfe", strings.Repeat("endless", 60),
}

// hostile has a pod for each attack, which stands in all of its texts.
func hostile() *Report {
	all := make([]Preview, 0, len(attacks))
	for _, a := range attacks {
		all = append(all, filled(a, Preempts))
	}
	return NewReport(by, "", all)
}

// filled is a preview that has a text everywhere.
func filled(text string, o Outcome) Preview {
	var p Preview
	fill(reflect.ValueOf(&p).Elem(), text)
	p.Outcome, p.Spread[1].TopologyKey = o, corev1.LabelHostname
	return p
}

func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), text)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(text), reflect.ValueOf(text))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				fill(v.Field(i), text)
			}
		}
	default:
		panic(fmt.Sprintf("a preview has a %s", v.Kind()))
	}
}

// Whatever a text is, it stays in its place: the page has as many tags as without it, and nothing that acts.
func TestPageOfHostileTexts(t *testing.T) {
	for o := range outcomes {
		plain := written(t, NewReport(by, "", []Preview{filled("x", o)}), Made{})
		if n := strings.Count(plain, "x"); n < 40 {
			t.Errorf("%s: the text is on the page %d times", o, n)
		}
		for _, a := range attacks {
			page := written(t, NewReport(by, "", []Preview{filled(a, o)}), Made{Version: a})
			if got, want := strings.Count(page, "<"), strings.Count(plain, "<"); got != want {
				t.Errorf("%s, %q: %d tags, want %d", o, a, got, want)
			}
			if i := strings.IndexFunc(page, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%s: the page has %q", o, page[i:i+4])
			}
		}
	}
}

// large is a pod in a cluster of n nodes and three zones, of which each node is another case.
func large(n int) *Report {
	p := web()
	p.Outcome, p.Nodes, p.Contradictions, p.Groups = Preempts, n, nil, nil
	hosts := &p.Spread[1]
	hosts.Domains, p.Zones, p.Preemption = nil, make([]Zone, 3), &Preemption{}
	victims := make([]Victim, 30)
	for i := range n {
		name := fmt.Sprintf("node-%05d", i)
		hosts.Domains = append(hosts.Domains, Domain{Value: name, Count: i % 17, SkewAfter: i%17 + 1})
		zone := &p.Zones[i%3]
		zone.Name, zone.Hostnames = string(rune('A'+i%3)), append(zone.Hostnames, name)
		p.Preemption.Candidates = append(p.Preemption.Candidates, Candidate{Node: name, Victims: victims})
		p.Groups = append(p.Groups, Group{Plugin: "NodeResourcesFit", Reasons: []string{fmt.Sprintf("reason %d", i)}, Nodes: []string{name}})
	}
	hosts.Minimum = 0
	all := Group{Plugin: "NodeAffinity", Reasons: []string{"node(s) didn't match Pod's node affinity/selector"}}
	for _, g := range p.Groups {
		all.Nodes = append(all.Nodes, g.Nodes...)
	}
	p.Groups = append([]Group{all}, p.Groups...)
	return NewReport(by, "", []Preview{p})
}

// A page does not grow with its cluster, and of many pods it shows some.
func TestPageStaysSmall(t *testing.T) {
	style := len(written(t, NewReport(by, "", nil), Made{}))
	small, big := len(written(t, large(5000), Made{}))-style, len(written(t, large(50_000), Made{}))-style
	if small > 40_000 || big > small+small/50 {
		t.Errorf("%d bytes at 5,000 nodes, %d at 50,000", small, big)
	}
	many, some := NewReport(by, "", nil), large(500).Previews
	for range 1000 {
		many.Previews = append(many.Previews, some...)
	}
	page := written(t, many, Made{})
	if len(page) > 4_000_000 || !strings.Contains(page, "and 900 more pods") {
		t.Errorf("%d bytes of 1,000 pods", len(page))
	}
	page = written(t, large(5000), Made{})
	for _, says := range []string{"node-00000 and 4999 like it", "and 4,960 more nodes", "and 4,989 more kinds of nodes", "and 10 more pods", "and 4,988 more nodes", "and 9 more counts of pods", "zone A <span>1,667 hosts"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page of 5,000 nodes lacks %q", says)
		}
	}
}

func TestVerdict(t *testing.T) {
	pod := func(o Outcome) Preview {
		p := web()
		p.Outcome, p.Contradictions, p.Preemption = o, nil, &Preemption{}
		return p
	}
	stuck := pod(Fits)
	stuck.Rollout = &Rollout{First: Placement{Pending: 1}}
	for want, previews := range map[string][]Preview{
		"No pod was judged":        nil,
		"Deployment shop/web fits": {pod(Fits)},
		"Deployment shop/web fits, and some of its replicas stay pending": {stuck},
		"All 2 pods fit":                                          {pod(Fits), pod(Fits)},
		"1 of 2 pods fits nowhere":                                {pod(Fits), pod(Nowhere)},
		"2 of 3 pods fit only where others go":                    {pod(Preempts), pod(Fits), pod(Preempts)},
		"1 of 2 pods fits, and some of its replicas stay pending": {pod(Fits), stuck},
	} {
		if page := written(t, NewReport(by, "", previews), Made{}); !strings.Contains(page, "<title>"+want+" ·") {
			t.Errorf("no title %q", want)
		}
	}
}

// A bar is as long as the domain has pods, the pod itself goes on from there, and the lines are at the minimum and at the most that is allowed.
func TestBars(t *testing.T) {
	hosts := web().Spread[1]
	got := drawn(&hosts, append(web().Zones, Zone{"C", []string{"n9"}})[1:], true)
	want := pageSpread{
		Key: corev1.LabelHostname, Rule: "maxSkew 1, DoNotSchedule", After: true, Minimum: 1, Limit: 2,
		Zones: []pageZone{
			{Name: "B", Says: "1 host, 2 pods", Rows: []pageRow{{Names: "n3", Count: 2, Skew: 2, Verdict: "too much", Tone: "denied", Have: 646, With: 323, Minimum: 323, Limit: 646, HasMinimum: true, HasLimit: true}}},
			{Name: noZone, Says: "2 hosts, 3 pods", Rows: []pageRow{
				{Names: "n1", Count: 2, Skew: 2, Verdict: "too much", Tone: "denied", Have: 646, With: 323, Minimum: 323, Limit: 646, HasMinimum: true, HasLimit: true},
				{Names: "n2", Count: 1, Skew: 1, Tone: "clean", Have: 323, With: 323, Minimum: 323, Limit: 646, HasMinimum: true, HasLimit: true},
			}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}

	// Without the pod: the skew is what there is. A limit far away is not drawn, and a wish is not too much.
	hosts.MaxSkew, hosts.WhenUnsatisfiable = 100, corev1.ScheduleAnyway
	if row := drawn(&hosts, nil, false).Zones[0].Rows[0]; row.Skew != 1 || row.With != 0 || row.Have != 485 || row.HasLimit {
		t.Errorf("row %+v", row)
	}
	hosts.MaxSkew = 1
	if row := drawn(&hosts, nil, true).Zones[0].Rows[0]; row.Tone != "warned" || row.Verdict != "more than wished" {
		t.Errorf("row %+v", row)
	}
}

func TestPageError(t *testing.T) {
	reader, writer := io.Pipe()
	reader.Close()
	if err := HTML(writer, sample(), Made{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v", err)
	}
}
