package page

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
)

// Each filter shows what it should, alone and with others, and the page's address says so: opened again, it shows the same.
func TestFilters(t *testing.T) {
	click := func(decisions ...string) func(*tab) {
		return func(p *tab) {
			for _, d := range decisions {
				p.click("[data-decision=" + d + "]")
			}
		}
	}
	choose := func(field, option string) func(*tab) { return func(p *tab) { p.choose(field, option) } }
	// By one key: several are one word only if they come within a second.
	typed := func(field, key string) func(*tab) {
		return func(p *tab) { p.do(chromedp.Focus(chromedp.CSS("#"+field)), chromedp.KeyEvent(key)) }
	}
	search := func(text string) func(*tab) {
		return func(p *tab) { p.do(chromedp.SendKeys(chromedp.CSS("#q"), text)) }
	}
	tests := []struct {
		name string
		do   []func(*tab)
		hash url.Values
		want []string
	}{
		{"denied", []func(*tab){click("denied")}, url.Values{"decision": {"denied"}}, []string{"impatient", "db-0"}},
		{"warned", []func(*tab){click("warned")}, url.Values{"decision": {"warned"}}, []string{"checkout", "ledger", "db-1"}},
		{"unknown", []func(*tab){click("unknown")}, url.Values{"decision": {"unknown"}}, []string{"ledger", "proxy"}},
		{"changed", []func(*tab){click("changed")}, url.Values{"decision": {"changed"}}, []string{"checkout", "ledger", "db-1", "frontend", "db", "monthly", "weekly"}},
		{"clean", []func(*tab){click("clean")}, url.Values{"decision": {"clean"}}, []string{"cart", "metrics"}},
		{"two decisions", []func(*tab){click("clean", "denied")}, url.Values{"decision": {"denied,clean"}}, []string{"cart", "metrics", "impatient", "db-0"}},
		{"a decision, and off again", []func(*tab){click("clean", "denied", "clean")}, url.Values{"decision": {"denied"}}, []string{"impatient", "db-0"}},
		{"namespace", []func(*tab){choose("namespace", "data")}, url.Values{"namespace": {"data"}}, []string{"db", "db-0", "db-1"}},
		{"a namespace, by the keyboard", []func(*tab){typed("namespace", "d")}, url.Values{"namespace": {"data"}}, []string{"db", "db-0", "db-1"}},
		{"kind", []func(*tab){choose("kind", "Job")}, url.Values{"kind": {"Job"}}, []string{"monthly", "weekly"}},
		{"policy", []func(*tab){choose("policy", "stateful")}, url.Values{"policy": {"stateful"}}, []string{"ledger", "db", "db-0", "db-1"}},
		{"a policy that is not the first", []func(*tab){choose("policy", "tenant")}, url.Values{"policy": {"tenant-limits"}}, []string{"ledger"}},
		{"no policy", []func(*tab){choose("policy", "(no")}, url.Values{"policy": {""}}, []string{"proxy", "metrics"}},
		{"text in a name", []func(*tab){search("FRONT")}, url.Values{"q": {"FRONT"}}, []string{"frontend"}},
		{"text in a place", []func(*tab){search("workloads.yaml:71")}, url.Values{"q": {"workloads.yaml:71"}}, []string{"impatient"}},
		{"text in a message", []func(*tab){search("web-low")}, url.Values{"q": {"web-low"}}, []string{"impatient"}},
		{"text in a diff", []func(*tab){search("priorityClassName: web-high")}, url.Values{"q": {"priorityClassName: web-high"}}, []string{"frontend"}},
		{"all words", []func(*tab){search("stateful 120 bank")}, url.Values{"q": {"stateful 120 bank"}}, []string{"ledger"}},
		{"text that is nowhere", []func(*tab){search("zebra")}, url.Values{"q": {"zebra"}}, []string{}},
		{
			"all together", []func(*tab){click("denied", "changed"), choose("namespace", "data"), choose("kind", "Pod"), choose("policy", "stateful"), search("descheduler")},
			url.Values{"decision": {"denied,changed"}, "namespace": {"data"}, "kind": {"Pod"}, "policy": {"stateful"}, "q": {"descheduler"}},
			[]string{"db-1"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := open(t, sample(t), "")
			for _, do := range test.do {
				do(p)
			}
			p.shows(test.want...)
			// The address follows once a person pauses.
			p.wait(fmt.Sprintf(`((hash) => { hash.sort(); return hash.toString(); })(new URLSearchParams(location.hash.slice(1))) === %q`, test.hash.Encode()))
			p.visit(eval[string](p, "location.hash.slice(1)"))
			p.shows(test.want...)
			if empty := eval[bool](p, `document.getElementById("empty").checkVisibility()`); empty != (len(test.want) == 0) {
				t.Errorf("the page says that it is empty: %t", empty)
			}
			p.click("#reset")
			if n := len(p.names()); n != 12 {
				t.Errorf("%d results without filters", n)
			}
		})
	}
}

// A link names a result of the report by its place, and it is opened.
func TestLinkToResult(t *testing.T) {
	p := open(t, sample(t), "result=5")
	if got := eval[string](p, `document.querySelector("details[open] .name strong").textContent`); got != "db" {
		t.Errorf("opened %q", got)
	}
	p.click("details[open] .facts a")
	p.wait(`location.hash === "#result=5"`)
	eval[bool](p, `(location.hash = "decision=warned") !== ""`)
	p.wait(`document.querySelectorAll("#results > li").length === 3`)
	if pressed := eval[[]string](p, `[...document.querySelectorAll("[aria-pressed=true]")].map((b) => b.dataset.decision)`); !cmp.Equal(pressed, []string{"warned"}) {
		t.Errorf("pressed: %q", pressed)
	}
}

// A link to another report may name what this one has not: nothing is shown, rather than everything.
func TestLinkFromElsewhere(t *testing.T) {
	p := open(t, sample(t), "namespace=gone&decision=nonsense")
	p.shows()
	if got := eval[string](p, `document.getElementById("namespace").selectedOptions[0].textContent`); got != "gone (0)" {
		t.Errorf("the namespace is %q", got)
	}
}
