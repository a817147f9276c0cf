package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// openPreview shows a page of podgrace preview, as the preview's own tests hold it against the code. When the test ends, nothing must have been complained about or loaded.
func openPreview(t *testing.T, name string) *tab {
	t.Helper()
	html, err := os.ReadFile(filepath.Join("..", "..", "cli", "scheduling", "testdata", "page", name+".html"))
	if err != nil {
		t.Fatal(err)
	}
	p := openHTML(t, html, "")
	t.Cleanup(func() {
		if complaints := p.seen.all(); len(complaints) > 0 {
			t.Errorf("the browser complains, or the page loads something: %q", complaints)
		}
	})
	return p
}

func TestPreview(t *testing.T) {
	p := openPreview(t, "sample")
	if got := eval[string](p, "document.title"); got != "1 of 7 pods is refused · Podgrace preview" {
		t.Errorf("title %q", got)
	}
	got := eval[string](p, `[...document.querySelectorAll(".pod > summary strong")].map((e) => e.textContent).join(" ")`)
	if want := "shop/refused Deployment shop/web Deployment shop/patient shop/gated shop/other shop/urgent shop/calm"; got != want {
		t.Errorf("pods %q, want %q", got, want)
	}
	// The bars are as long as their counts: with the pod, n1 is beyond the limit and n2 is not.
	ends := `((host) => {
		const row = [...document.querySelectorAll("#pod-1 .domains tbody tr")].find((tr) => tr.querySelector("th").textContent === host);
		const right = (part) => row.querySelector(part).getBoundingClientRect().right;
		return Math.round(right(".with") - right(".limit"));
	})`
	if beyond, at := eval[int](p, ends+`("n1")`), eval[int](p, ends+`("n2")`); beyond < 20 || at < -2 || at > 2 {
		t.Errorf("the bar of n1 ends %d pixels beyond the limit, that of n2 %d", beyond, at)
	}
	// A link in the list opens the pod that it leads to, without a script.
	if eval[bool](p, `document.getElementById("pod-6").open`) {
		t.Fatal("the last pod is open at first")
	}
	p.click(`#pod-6 > summary`)
	p.wait(`document.querySelector("#pod-6 .scores").checkVisibility()`)
	if got := eval[string](p, `document.querySelector("#pod-6 .scores tbody tr:last-child").innerText.replace(/\s+/g, " ")`); got != "TaintToleration 100 × 3 300" {
		t.Errorf("score %q", got)
	}
}

// The page says everything also where scripts do not run, and on paper.
func TestPreviewOnPaper(t *testing.T) {
	p := openPreview(t, "sample")
	if n := eval[int](p, `document.scripts.length`); n != 0 {
		t.Errorf("%d scripts", n)
	}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}); err != nil {
		t.Fatal(err)
	}
	// Nothing can be opened there.
	if hidden := eval[[]string](p, `[...document.querySelectorAll(".pod .body > *, .groups .inner")].filter((e) => !e.checkVisibility()).map((e) => e.textContent.slice(0, 40))`); len(hidden) > 0 {
		t.Errorf("not on paper: %q", hidden)
	}
}

func TestPreviewLooks(t *testing.T) {
	tests := map[string]Look{
		"light": desktop, "dark": {Width: 1280, Height: 900, Dark: true},
		"phone": {Width: 360, Height: 740}, "phone at night": {Width: 360, Height: 740, Dark: true},
	}
	for name, look := range tests {
		t.Run(name, func(t *testing.T) {
			for _, page := range []string{"sample", "hostile", "large", "empty"} {
				p := openPreview(t, page)
				if err := look.Set(p.ctx); err != nil {
					t.Fatal(err)
				}
				eval[bool](p, `(document.querySelectorAll("details").forEach((d) => { d.open = true; }), true)`)
				if width := eval[int64](p, "document.documentElement.scrollWidth"); width > look.Width {
					t.Errorf("%s: the page is %d wide in a window of %d", page, width, look.Width)
				}
				if poor := eval[[]string](p, contrasts); len(poor) > 0 {
					t.Errorf("%s: hard to read: %q", page, poor)
				}
				if beyond := eval[[]string](p, overflowing); len(beyond) > 0 {
					t.Errorf("%s: it does not fit its box: %q", page, beyond)
				}
			}
		})
	}
}

// overflowing are cells whose text is wider than they are.
const overflowing = `[...document.querySelectorAll("th, td, summary, p, li")].filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0)
	.map((e) => e.tagName + " " + e.className + " " + e.textContent.slice(0, 40))`

// What somebody else wrote is shown, and never runs.
func TestPreviewHostile(t *testing.T) {
	p := openPreview(t, "hostile")
	if eval[bool](p, `"pwned" in window || document.querySelector("img, script, main style, [onfocus], [onerror]") !== null`) {
		t.Error("an attack became markup or ran")
	}
	text := eval[string](p, "document.body.textContent")
	for _, attack := range []string{`<script>window.pwned = 1</script>`, `"><img src=x onerror="window.pwned = 1">`, `javascript:window.pwned = 1`, `{{.}}`} {
		if n := strings.Count(text, attack); n < 20 {
			t.Errorf("%q is shown %d times", attack, n)
		}
	}
	if href := eval[string](p, `[...document.querySelectorAll("a")].map((a) => a.getAttribute("href")).filter((href) => !href.startsWith("#pod-")).join(" ")`); href != "" {
		t.Errorf("links %q", href)
	}
}
