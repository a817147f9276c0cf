package webpage

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A text of a stranger's stays a text, and the policy allows the very style and script that are in the page, and nothing of another host.
func TestPage(t *testing.T) {
	const script = "let a = 1 < 2 && 'b';"
	for name, script := range map[string]string{"with a script": script, "without one": ""} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			head := Head{Title: "</title><script>", Brand: "Podgrace", Verdict: "<b>", Tone: `"><b>`, Scope: "<b>", Made: MadeOn(time.Date(2026, 5, 1, 14, 30, 0, 0, time.FixedZone("", 2*60*60)), "<b>")}
			if err := New("<p>{{.}}</p>", ".own > b { color: red; }\n", script).Write(&out, head, "<b>"); err != nil {
				t.Fatal(err)
			}
			page := out.String()
			if strings.Contains(page, "<b>") || !strings.Contains(page, "<p>&lt;b&gt;</p>") || !strings.Contains(page, `<time datetime="2026-05-01T12:30:00Z">1 May 2026, 12:30 UTC</time> by podgrace &lt;b&gt;`) {
				t.Errorf("a text became markup, or is not there: %s", page)
			}
			policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
			if policy == nil {
				t.Fatal("no policy")
			}
			allowed := html.UnescapeString(policy[1])
			for tag, there := range map[string]bool{"style": true, "script": script != ""} {
				content := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(page, -1)
				if !there {
					if len(content) > 0 || strings.Contains(allowed, tag+"-src") {
						t.Errorf("it has or allows a %s: %q", tag, allowed)
					}
					continue
				}
				if len(content) != 1 {
					t.Fatalf("%d elements %s", len(content), tag)
				}
				if want := fmt.Sprintf("%s-src '%s';", tag, hash(content[0][1])); !strings.Contains(allowed, want) {
					t.Errorf("the policy %q lacks %q", allowed, want)
				}
			}
			if !strings.HasPrefix(allowed, "default-src 'none';") {
				t.Errorf("policy %q", allowed)
			}
			if rest := strings.ReplaceAll(page, "http://www.w3.org/2000/svg", ""); strings.Contains(rest, "http://") || strings.Contains(rest, "https://") || strings.Contains(rest, "@import") {
				t.Error("the page names another host")
			}
		})
	}
}

func TestLegible(t *testing.T) {
	tests := []struct{ in, want string }{
		{"two\nlines\tand \x1b[31mcolour", "two\nlines\\tand \\x1b[31mcolour"},
		{"\u202egnp.exe", `\u202egnp.exe`},
		{strings.Repeat("é", maxText), strings.Repeat("é", maxText)},
		{strings.Repeat("é", maxText+5), strings.Repeat("é", maxText) + "... (5 more characters)"},
	}
	for _, test := range tests {
		if got := Legible(test.in); got != test.want {
			t.Errorf("%q: got %q", test.in, got)
		}
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Number(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}
