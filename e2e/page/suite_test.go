package page

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/podgrace/podgrace/cli/report"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
)

// stop ends the browser that the tests share, each with a tab of its own.
var (
	stop   = func() {}
	shared = sync.OnceValues(func() (context.Context, error) {
		ctx, cancel, err := Tab(context.Background())
		if err != nil {
			return nil, err
		}
		stop = cancel
		return ctx, chromedp.Do(ctx) // starts it
	})
)

func TestMain(m *testing.M) {
	code := m.Run()
	stop()
	os.Exit(code)
}

// tab is a page in the browser.
type tab struct {
	*testing.T
	ctx  context.Context
	file string
	seen *watch
}

var desktop = Look{Width: 1280, Height: 900}

// open shows a report. When the test ends, nothing must have been complained about or loaded.
func open(t *testing.T, r *review.Report, hash string) *tab {
	t.Helper()
	var html bytes.Buffer
	if err := report.Write(&html, report.FormatHTML, r, report.Options{}); err != nil {
		t.Fatal(err)
	}
	page := openHTML(t, html.Bytes(), hash)
	t.Cleanup(func() {
		if complaints := page.seen.all(); len(complaints) > 0 {
			t.Errorf("the browser complains, or the page loads something: %q", complaints)
		}
	})
	return page
}

func openHTML(t *testing.T, html []byte, hash string) *tab {
	t.Helper()
	clustertest.Require(t, Supported())
	parent, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, html, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(parent)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	page := &tab{T: t, ctx: ctx, file: file}
	if page.seen, err = newWatch(ctx, "file://"+file); err != nil {
		t.Fatal(err)
	}
	if err := desktop.Set(ctx); err != nil {
		t.Fatal(err)
	}
	page.visit(hash)
	return page
}

// visit opens the page at a hash, from the start.
func (p *tab) visit(hash string) {
	p.Helper()
	address := url.URL{Scheme: "file", Path: p.file}
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address.String()+"#"+hash))
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.Fatal(err)
	}
}

func (p *tab) click(css string) {
	p.Helper()
	p.do(chromedp.Click(chromedp.CSS(css)))
}

// choose takes the option of a select whose text begins so.
func (p *tab) choose(field, option string) {
	p.Helper()
	if !eval[bool](p, fmt.Sprintf(`((select) => {
		const option = [...select.options].find((o) => o.text.startsWith(%q));
		if (option) { select.value = option.value; select.dispatchEvent(new Event("change")); }
		return !!option;
	})(document.getElementById(%q))`, option, field)) {
		p.Fatalf("%s has no option %q", field, option)
	}
}

func (p *tab) wait(condition string) {
	p.Helper()
	if err := Wait(p.ctx, condition); err != nil {
		p.Fatal(err)
	}
}

// eval is the value of an expression in the page.
func eval[T any](p *tab, expression string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
	return value
}

// names of the results that are shown.
func (p *tab) names() []string {
	p.Helper()
	return eval[[]string](p, `[...document.querySelectorAll("#results > li")].filter((li) => li.checkVisibility()).map((li) => li.querySelector(".name strong").textContent)`)
}

func (p *tab) shows(want ...string) {
	p.Helper()
	if diff := cmp.Diff(want, p.names(), cmpopts.SortSlices(strings.Compare), cmpopts.EquateEmpty()); diff != "" {
		p.Errorf("results (-want +got): %s", diff)
	}
}

// sample is the report that most tests look at.
func sample(t *testing.T) *review.Report {
	t.Helper()
	r, err := Sample()
	if err != nil {
		t.Fatal(err)
	}
	return r
}
