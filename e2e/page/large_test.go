package page

import (
	"bytes"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/podgrace/podgrace/cli/report"
)

const many = 10_000

// A page of many results is drawn as far as it is read, and in full by its filters. What it takes is logged.
func TestMany(t *testing.T) {
	r, err := Large(many)
	if err != nil {
		t.Fatal(err)
	}
	var html bytes.Buffer
	if err := report.Write(&html, report.FormatHTML, r, report.Options{}); err != nil {
		t.Fatal(err)
	}
	p := open(t, r, "")
	t.Logf("%d results: %.1f MB, loaded in %.0f ms", many, float64(html.Len())/1e6,
		eval[float64](p, `performance.getEntriesByType("navigation")[0].domComplete`))
	drawn := func() int { return eval[int](p, `document.querySelectorAll("#results > li").length`) }
	first := drawn()
	if first == 0 || first > 500 {
		t.Errorf("%d rows are drawn at first", first)
	}
	eval[bool](p, `(scrollTo(0, document.documentElement.scrollHeight), true)`)
	p.wait(`document.querySelectorAll("#results > li").length > 60`)
	// A key that is typed, until the next frame is drawn.
	took := eval[float64](p, `(() => {
		const q = document.getElementById("q");
		const start = performance.now();
		q.value = "web-low";
		q.dispatchEvent(new Event("input"));
		document.body.getBoundingClientRect();
		return performance.now() - start;
	})()`)
	t.Logf("first search: %.0f ms", took)
	if got, want := eval[string](p, `document.getElementById("count").textContent`), "834 of 10,000 results"; got != want {
		t.Errorf("count %q, want %q", got, want)
	}
	took = eval[float64](p, `(() => {
		const start = performance.now();
		document.querySelector("[data-decision=changed]").click();
		document.getElementById("reset").click();
		document.querySelector("[data-decision=changed]").click();
		document.body.getBoundingClientRect();
		return performance.now() - start;
	})()`)
	t.Logf("three filters: %.0f ms", took)
	p.visit("result=9999")
	p.wait(`document.querySelector("details[open] .name strong")`)
}

// Paper has all results.
func TestPrint(t *testing.T) {
	r, err := Large(250)
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, r, "")
	pdf, err := chromedp.Run(p.ctx, chromedp.PrintToPDF())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.names()); n != 250 || !bytes.HasPrefix(pdf, []byte("%PDF-")) {
		t.Errorf("%d results were printed, to %d bytes", n, len(pdf))
	}
}
