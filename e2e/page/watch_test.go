package page

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// watch gathers what a page must not cause: words in the console, exceptions, dialogs, violations of its policy, requests.
type watch struct {
	own string // the page's address

	mu         sync.Mutex
	complaints []string
}

func newWatch(ctx context.Context, own string) (*watch, error) {
	w := &watch{own: own}
	if err := chromedp.Listen(ctx, w.event); err != nil {
		return nil, err
	}
	for _, enable := range []cdp.Command[cdp.Empty, cdp.Empty]{audits.Enable, log.Enable, runtime.Enable} {
		if _, err := chromedp.Call(ctx, enable, cdp.Empty{}); err != nil {
			return nil, err
		}
	}
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	return w, err
}

func (w *watch) event(event any) {
	switch e := event.(type) {
	case *log.EventEntryAdded:
		w.complain("log: %s", e.Entry.Text)
	case *runtime.EventConsoleAPICalled:
		w.complain("console: %s", e.Type)
	case *runtime.EventExceptionThrown:
		w.complain("exception: %s", e.ExceptionDetails.Text)
	case *audits.EventIssueAdded:
		w.complain("issue: %s", e.Issue.Code)
	case *page.EventJavascriptDialogOpening:
		w.complain("dialog: %s", e.Message)
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; url != w.own && url != "about:blank" && !strings.HasPrefix(url, "data:image/svg+xml,") {
			w.complain("request: %s", url)
		}
	}
}

func (w *watch) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complaints = append(w.complaints, fmt.Sprintf(format, args...))
}

func (w *watch) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.complaints
}

// A page that does what ours must not is complained about: the other tests would see it.
func TestWatchSees(t *testing.T) {
	tests := []struct{ name, html, want string }{
		{"a script that its policy forbids", `<meta http-equiv="Content-Security-Policy" content="script-src 'none'"><script>1</script>`, "issue: ContentSecurityPolicyIssue"},
		{"a style that its policy forbids", `<meta http-equiv="Content-Security-Policy" content="style-src 'none'"><p style="color: red">`, "issue: ContentSecurityPolicyIssue"},
		{"an exception", `<script>throw new Error("x")</script>`, "exception: Uncaught"},
		{"a word in the console", `<script>console.log(1)</script>`, "console: log"},
		{"a request", `<script>fetch("http://elsewhere.invalid/x").catch(() => 1)</script>`, "request: http://elsewhere.invalid/x"},
		{"an image", `<img src="other.png">`, "other.png"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := openHTML(t, []byte("<!doctype html>"+test.html), "")
			p.wait("document.readyState === 'complete'")
			if got := strings.Join(p.seen.all(), "\n"); !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
