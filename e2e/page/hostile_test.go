package page

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

// What a manifest's author writes is shown, and never runs.
func TestHostile(t *testing.T) {
	attacks := []string{
		`<script>window.pwned = 1</script>`, `</script><script>window.pwned = 1</script>`, `<!--<script>`, `"><img src=x onerror="window.pwned = 1">`,
		`' onfocus='window.pwned = 1' autofocus='`, `{{.}}`, "${window.pwned = 1}", "a\u2028window.pwned = 1//", `javascript:window.pwned = 1`, `</style><b>`, "\x1b[31mred\x07", "\u202egnp.exe", `\u003cscript\u003e`,
	}
	results := make([]review.Result, 0, len(attacks))
	errs := make([]*manifest.Error, 0, len(attacks))
	for _, a := range attacks {
		results = append(results, review.Result{
			Resource: manifest.Resource{APIVersion: a, Kind: a, Namespace: a, Name: a}, Source: manifest.Source{File: a}, Operation: a, User: a, Via: a,
			Decision: review.Denied, Reason: a, Message: a, Warnings: []string{a}, Policies: []string{a}, Unknown: []string{a},
			Changes: []review.Change{{Name: a, Value: a, Why: a}}, Patch: []review.Operation{set("/"+a, `"x"`)},
		})
		errs = append(errs, &manifest.Error{File: a, Message: a})
	}
	p := open(t, review.NewReport(1, 0, results, errs), "")
	p.click("#expand")
	p.wait(`document.querySelectorAll("#results .body").length === 13`)
	if eval[bool](p, `"pwned" in window || document.querySelector("#results img, #results script, .errors img, .errors script, select script") !== null`) {
		t.Error("an attack became markup or ran")
	}
	text := eval[string](p, "document.body.textContent")
	for _, a := range attacks[:7] {
		if n := strings.Count(text, a); n < 10 {
			t.Errorf("%q is shown %d times", a, n)
		}
	}
	if strings.ContainsAny(eval[string](p, `document.getElementById("results").textContent + document.querySelector(".errors").textContent`), "\x1b\x07\u2028\u202e") {
		t.Error("a control character reached the page")
	}
	if href := eval[[]string](p, `[...document.querySelectorAll("a")].map((a) => a.getAttribute("href"))`); strings.Contains(strings.Join(href, " "), "javascript") {
		t.Errorf("links %q", href)
	}
}
