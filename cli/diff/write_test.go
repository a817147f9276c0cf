package diff

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"gotest.tools/v3/golden"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/delta"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
)

var formats = []struct {
	name, format string
	Options
}{
	{"text", "text", Options{}},
	{"text at 100 columns", "text", Options{Style: console.Style{Width: 100}}},
	{"text at 60 columns, in colours, all", "text", Options{Style: console.Style{Width: 60, Color: true}, All: true}},
	{"markdown", "markdown", Options{}},
	{"json", "json", Options{}},
}

// samples by name.
func samples(t *testing.T) map[string]*Diff {
	var many strings.Builder
	for i := range 37 {
		many.WriteString(workload("Deployment", "shop", fmt.Sprintf("web-%d", i), "priorityClassName: low,"))
	}
	for i := range 3 {
		many.WriteString(pod(fmt.Sprintf("web-0-abc-%d", i), controlled("ReplicaSet", "web-0-abc"), "terminationGracePeriodSeconds: 30, priorityClassName: low, priority: 10"))
	}
	many.WriteString(workload("StatefulSet", "shop", "db", "priorityClassName: high, terminationGracePeriodSeconds: 20,"))
	from := policies("defaults", "{gracePeriod: {defaultSeconds: 30}, node: {oom: {rank: 20}, cpu: {weight: 200}}}")
	to := policies("defaults", "{gracePeriod: {defaultSeconds: 45}, priority: {allowedClassNames: [low]}, node: {oom: {rank: 30}}, topologySpread: {constraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}}",
		"guard", fmt.Sprintf(guard, "Deny", "Raise"))
	mixed := diff(t, from, to, many.String())
	mixed.AddErrors(&manifest.Error{File: "broken.yaml", Line: 3, Message: "half a document"})
	none := diff(t, "", "", workload("Deployment", "shop", "web", ""))
	none.Summary.NoPolicies = true
	nodes := diff(t, from, from, workload("Deployment", "shop", "web", ""))
	nodes.AddThresholds([]Threshold{
		{NodePolicy: "workers", Threshold: "hard memory.available of 90%", Nodes: []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7"}, Of: 9, Unknown: 1},
		{NodePolicy: "workers", Threshold: "soft pid.available of 10%", Of: 9, Unknown: 1},
	})
	return map[string]*Diff{"thresholds": nodes, "mixed": mixed, "unjudged": none, "nothing": diff(t, from, from, many.String())}
}

func TestGolden(t *testing.T) {
	for name, d := range samples(t) {
		t.Run(name, func(t *testing.T) {
			got := &txtar.Archive{}
			for _, g := range formats {
				text := strings.ReplaceAll(printed(t, g.format, d, g.Options), "\x1b", "␛")
				got.Files = append(got.Files, txtar.File{Name: g.name, Data: []byte(text)})
			}
			golden.Assert(t, string(txtar.Format(got)), name+".txtar")
		})
	}
}

func printed(t testing.TB, format string, d *Diff, o Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, format, d, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestJSONIsTheDiff(t *testing.T) {
	d := samples(t)["mixed"]
	var read Diff
	decoder := json.NewDecoder(strings.NewReader(printed(t, "json", d, Options{})))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(printed(t, "json", d, Options{}), printed(t, "json", &read, Options{})); diff != "" || read.Kind != "PolicyDiff" {
		t.Errorf("%s:\n%s", read.Kind, diff)
	}
}

// hostile has every text from a generator.
func hostile(t *rapid.T) *Diff {
	text := func() string {
		return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"\x1b[31mred", "::error::x", "##[error]x", "##vso[task.x]", "\u202eevil", "a\nb\r\nc", "```\n", "<script>", "@team #1", "|x|", "\x9b2J", "</code></details>", "\xff",
		})).Draw(t, "text")
	}
	raw := func() json.RawMessage { out, _ := json.Marshal(text()); return out }
	d := newDiff()
	for range rapid.IntRange(0, 3).Draw(t, "workloads") {
		w := Workload{Resource: manifest.Resource{Kind: text(), Namespace: text(), Name: text()}, Source: manifest.Source{File: text(), Line: 1}, User: text(), Request: text(), Unknown: []string{text()}}
		for _, k := range kinds {
			w.Changes = append(w.Changes, Change{Kind: k.kind, From: text(), To: text(), Reason: text(), Message: text(), Fields: []delta.Field{{Path: text(), From: raw()}, {Path: "spec.topologySpreadConstraints[" + text() + "]", To: json.RawMessage(`{"whenUnsatisfiable":` + string(raw()) + `}`)}}})
		}
		d.Workloads = append(d.Workloads, w)
	}
	d.Running = append(d.Running, Running{Owner: manifest.Resource{Kind: text(), Namespace: text(), Name: text()}, Pods: []string{text()}, Of: 1, Refused: text()})
	d.Summary.Unknown = []Unknown{{text(), 1}}
	d.AddErrors(&manifest.Error{File: text(), Message: text()})
	return d
}

// marker is that of logging commands.
var marker = regexp.MustCompile(`##\w*\[`)

func TestHostileTextIsHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := hostile(t)
		for _, format := range Formats() {
			var out bytes.Buffer
			if err := Write(&out, format, d, Options{Style: console.Style{Width: rapid.SampledFrom([]int{0, 60}).Draw(t, "width")}, All: true}); err != nil {
				t.Fatal(err)
			}
			text := out.String()
			if !utf8.ValidString(text) || marker.MatchString(text) {
				t.Fatalf("%s: %q", format, text)
			}
			for _, r := range text {
				if r != '\n' && r != '\u200b' && !unicode.IsPrint(r) {
					t.Fatalf("%s: %q in %q", format, r, text)
				}
			}
			for l := range strings.Lines(text) {
				if strings.HasPrefix(strings.TrimSpace(l), "::") {
					t.Fatalf("%s: a command: %q", format, l)
				}
			}
			for l := range strings.Lines(text) {
				// Within a fence a line begins with its sign, and nothing means anything.
				if format == "markdown" && !strings.ContainsRune("+-!", rune(l[0])) && (strings.Contains(l, "<script") || strings.Contains(l, "@team")) {
					t.Fatalf("%q in\n%s", l, text)
				}
			}
		}
	})
}

func TestTextFitsAScreen(t *testing.T) {
	d := newDiff()
	for i := range 500 {
		d.Workloads = append(d.Workloads, Workload{Resource: manifest.Resource{Kind: "Deployment", Name: fmt.Sprint("d", i)}, Changes: []Change{{Kind: Refused, To: fmt.Sprint("reason ", strings.Repeat("x", i))}}})
		d.Running = append(d.Running, Running{Owner: manifest.Resource{Kind: "Deployment", Name: fmt.Sprint("d", i)}, Pods: []string{"p"}, Of: 1, Refused: fmt.Sprint("reason ", i)})
	}
	if lines := strings.Count(printed(t, "text", d, Options{Style: console.Style{}}), "\n"); lines > 60 {
		t.Errorf("%d lines", lines)
	}
	if text := printed(t, "text", d, Options{All: true}); !strings.Contains(text, "Deployment d0 ") || strings.Contains(text, "--all shows") {
		t.Error("not all")
	}
	if size := len(printed(t, "markdown", d, Options{})); size > delta.MaxComment+500 {
		t.Errorf("a comment of %d bytes", size)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// What a block is called after is told, however many fields change.
func TestTextTellsTheUrgentFirst(t *testing.T) {
	to := policies("all", "{priority: {className: high}, gracePeriod: {defaultSeconds: 45, maxSeconds: 50}, node: {oom: {rank: 20}, cpu: {weight: 200}, memory: {protection: Min}, eviction: {order: 3}}}", "guard", fmt.Sprintf(guard, "Deny", "Raise"))
	var out strings.Builder
	if err := Write(&out, "text", diff(t, "", to, workload("StatefulSet", "shop", "db", "")), Options{}); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(out.String(), "\n")
	if !strings.HasPrefix(rows[0], "FORBIDDEN StatefulSet shop/db") || !strings.HasPrefix(rows[1], "  ~       force delete ") || !strings.Contains(out.String(), "more changes (--all shows them)") {
		t.Errorf("got\n%s", out.String())
	}
}

func TestWriteErrors(t *testing.T) {
	for _, format := range Formats() {
		if err := Write(fullDisk{}, format, newDiff(), Options{}); err == nil || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("%s: %v", format, err)
		}
	}
	if err := Write(fullDisk{}, "yaml", newDiff(), Options{}); err == nil || !strings.Contains(err.Error(), "text, json, markdown") {
		t.Error(err)
	}
}
