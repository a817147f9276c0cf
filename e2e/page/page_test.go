package page

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

func TestPage(t *testing.T) {
	p := open(t, sample(t), "")
	if got := eval[string](p, "document.title"); got != "2 of 12 would be denied · Podgrace review" {
		t.Errorf("title %q", got)
	}
	p.shows("cart", "checkout", "db", "db-0", "db-1", "frontend", "impatient", "ledger", "metrics", "monthly", "proxy", "weekly")
	first := eval[string](p, `document.querySelector("#results summary").innerText.replace(/\s+/g, " ")`)
	for _, part := range []string{"Denied", "Deployment shop/impatient", "deploy/shop/workloads.yaml:71", "PriorityClassNotAllowed", "production-web"} {
		if !strings.Contains(first, part) {
			t.Errorf("the gravest result is not first, or lacks %q: %q", part, first)
		}
	}
	got := eval[[]string](p, `[...document.querySelectorAll(".errors li")].map((li) => li.innerText)`)
	want := []string{"deploy/shop/legacy.yaml:14 mapping values are not allowed in this context", "deploy/tools/values.bin not text: byte 0x00 at offset 12"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got): %s", diff)
	}
}

func TestEmptyReport(t *testing.T) {
	p := open(t, review.NewReport(0, 0, nil, nil), "")
	if got := eval[string](p, `document.getElementById("empty").innerText`); !strings.HasPrefix(got, "Nothing to review") {
		t.Errorf("the page says %q", got)
	}
}

func TestExpand(t *testing.T) {
	p := open(t, sample(t), "namespace=shop&decision=changed")
	p.click("#results > li:nth-child(2) summary")
	p.wait(`document.querySelector("#results > li:nth-child(2) .diff")`)
	diff := eval[string](p, `document.querySelector(".diff").textContent`)
	for _, line := range []string{"-   terminationGracePeriodSeconds: 30", "+   terminationGracePeriodSeconds: 45", "+   priorityClassName: web-high", "+     topologyKey: topology.kubernetes.io/zone"} {
		if !strings.Contains(diff, line+"\n") {
			t.Errorf("the diff lacks %q: %s", line, diff)
		}
	}
	if why := eval[string](p, `document.querySelector(".body table").textContent`); !strings.Contains(why, "default 45 s (30 counts as unset)") {
		t.Errorf("reasons %q", why)
	}
	p.click("#results > li:nth-child(2) summary")
	p.wait(`!document.querySelector("#results > li:nth-child(2) .diff").checkVisibility()`)

	// With everything open, each kind of remark is there.
	p.click("#reset")
	p.click("#expand")
	p.wait(`document.querySelectorAll("#results .body").length === 12`)
	// Not innerText: a row out of sight is not rendered (content-visibility), and has none from the next frame on.
	all := eval[string](p, `document.getElementById("results").textContent`)
	for _, part := range []string{"choose one of web-high, web-low", "the constraint is left out", "its labels, by which 2 policies select", "No policy changes it or objects.", "as alice", "gracePeriodSeconds: 120"} {
		if !strings.Contains(all, part) {
			t.Errorf("nowhere on the page: %q", part)
		}
	}
	p.click("#expand")
	p.wait(`![...document.querySelectorAll("details")].some((d) => d.open)`)
}

func TestKeyboard(t *testing.T) {
	p := open(t, sample(t), "")
	focused := `document.activeElement.querySelector(".name strong")?.textContent`
	p.do(chromedp.Focus(chromedp.CSS("#results summary")), chromedp.KeyEvent(kb.ArrowDown+kb.ArrowDown+kb.ArrowUp))
	if got := eval[string](p, focused); got != "db-0" {
		t.Errorf("arrows go to %q", got)
	}
	p.do(chromedp.KeyEvent(kb.Enter))
	p.wait(`document.activeElement.parentElement.open && document.activeElement.parentElement.querySelector(".note.denied")`)
	p.do(chromedp.KeyEvent("/"), chromedp.KeyEvent("monthly"))
	p.shows("monthly")
}

// Whatever can be operated has a name for those who do not see it.
func TestNames(t *testing.T) {
	p := open(t, sample(t), "result=1")
	// The browser builds this tree on its own, some time after the page was drawn: rows out of sight come last.
	var named map[string]int
	var nameless []string
	err := wait.PollUntilContextTimeout(p.ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		var err error
		named, nameless, err = controls(ctx)
		return named["button"] >= 6 && named["combobox"] == 3 && named["searchbox"] == 1 && named["DisclosureTriangle"] == 12, err
	})
	if err != nil {
		t.Errorf("controls %v: %v", named, err)
	}
	if len(nameless) > 0 {
		t.Errorf("without a name: %q", nameless)
	}
}

// controls counts what can be operated, by its role, and lists the roles of those without a name.
func controls(ctx context.Context) (named map[string]int, nameless []string, err error) {
	tree, err := chromedp.Call(ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		return nil, nil, err
	}
	named = map[string]int{}
	for _, node := range tree.Nodes {
		if node.Ignored || node.Role == nil {
			continue
		}
		switch role := strings.Trim(string(node.Role.Value), `"`); role {
		case "button", "combobox", "searchbox", "link", "DisclosureTriangle", "search", "status":
			named[role]++
			if name := strings.Trim(string(node.Name.Value), `" `); name == "" && role != "status" {
				nameless = append(nameless, role)
			}
		}
	}
	return named, nameless, nil
}

// contrasts are the texts that stand out less than WCAG 2.2 AA asks for.
const contrasts = `(() => {
  const rgb = (c) => c.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] !== 0) return c; } return [255, 255, 255]; };
  const poor = [];
  for (const e of document.body.querySelectorAll("*")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) poor.push(e.className + " " + e.textContent.slice(0, 30) + " " + ((a + .05) / (b + .05)).toFixed(2));
  }
  return poor;
})()`

func TestLooks(t *testing.T) {
	tests := map[string]Look{
		"light": desktop, "dark": {Width: 1280, Height: 900, Dark: true},
		"phone": {Width: 360, Height: 740}, "phone at night": {Width: 360, Height: 740, Dark: true},
	}
	for name, look := range tests {
		t.Run(name, func(t *testing.T) {
			p := open(t, long(t), "")
			if err := look.Set(p.ctx); err != nil {
				t.Fatal(err)
			}
			p.click("#expand")
			p.click("[data-decision=warned]")
			p.click("[data-decision=denied]")
			p.wait(`document.querySelectorAll("#results .body").length === 6`)
			if width := eval[int64](p, "document.documentElement.scrollWidth"); width > look.Width {
				t.Errorf("the page is %d wide in a window of %d", width, look.Width)
			}
			if poor := eval[[]string](p, contrasts); len(poor) > 0 {
				t.Errorf("hard to read: %q", poor)
			}
		})
	}
}

// long is the sample with a name, a file and a message that do not fit into a line, and without a blank to break it at.
func long(t *testing.T) *review.Report {
	t.Helper()
	r := sample(t)
	endless := strings.Repeat("endless", 60)
	results := append(r.Results, review.Result{
		Resource: manifest.Resource{APIVersion: "v1", Kind: endless, Namespace: endless, Name: endless}, Source: manifest.Source{File: endless, Line: 1},
		Operation: "CREATE", Decision: review.Denied, Reason: endless, Message: endless, Warnings: []string{endless}, Policies: []string{endless},
		Unknown: []string{endless}, User: endless, Changes: []review.Change{{Name: endless, Why: endless}},
		Patch: []review.Operation{set("/"+endless, `"`+endless+`"`)},
	})
	return review.NewReport(1, 0, results, []*manifest.Error{{File: endless, Line: 3, Message: endless}})
}
