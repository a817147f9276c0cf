// Package webpage is what the pages that podgrace writes have in common: the head with its policy, the brand, colours in light and dark, and how a stranger's text is made harmless. A page
// is one file that needs no other one and loads none.
package webpage

import (
	"crypto/sha256"
	_ "embed" // the parts of all pages
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/podgrace/podgrace/internal/console"
)

// Page is a kind of page.
type Page struct {
	layout *template.Template
	policy string
	style  template.CSS
	script template.JS
}

// Head is what each page begins with.
type Head struct {
	// Title of the window; Brand says which command's page it is.
	Title, Brand string
	// Verdict is the page in one line, and Tone the class of its colour; Scope says what was looked at.
	Verdict, Tone, Scope string
	Made                 *Made
}

// Made is when a page was made, for programs and for people, and by which version.
type Made struct{ Time, Text, Version string }

// MadeOn is nil where the time is not known.
func MadeOn(at time.Time, version string) *Made {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &Made{at.Format(time.RFC3339), at.Format("2 January 2006, 15:04 UTC"), version}
}

// The parts of all pages. Style and script stand in a page as they are: the hashes of its policy are those of the texts.
var (
	//go:embed page.html
	layoutHTML string
	//go:embed page.css
	layoutCSS string
)

// New makes a kind of page of what is in its body (a template), the style beside that of all pages, and its script, if it has any. A template that can't be read panics.
func New(body, style, script string) *Page {
	layout := template.Must(template.New("page").Parse(layoutHTML))
	template.Must(layout.New("body").Parse(body))
	all := layoutCSS + style
	return &Page{layout: layout, policy: contentPolicy(all, script), style: template.CSS(all), script: template.JS(script)}
}

// Write fills a page. Every text goes through html/template, and the page's own policy lets nothing run or load but its own style and script.
func (p *Page) Write(w io.Writer, h Head, body any) error {
	filled := struct {
		Head
		Policy string
		Style  template.CSS
		Script template.JS
		Body   any
	}{h, p.policy, p.style, p.script, body}
	if err := p.layout.Execute(w, filled); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// contentPolicy allows this style and this script, and the icon that is in the page.
func contentPolicy(style, script string) string {
	allowed := fmt.Sprintf("default-src 'none'; style-src '%s'; ", hash(style))
	if script != "" {
		allowed += fmt.Sprintf("script-src '%s'; ", hash(script))
	}
	return allowed + "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}

// hash is a text in the words of a Content-Security-Policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// maxText is the longest text on a page, in characters: a megabyte of annotation helps no reader.
const maxText = 2000

// Legible is a text without what would act on the reader instead of being read; it keeps its lines.
func Legible(text string) string {
	lines := strings.Split(console.Clip(text, maxText), "\n")
	for i, line := range lines {
		lines[i] = console.Visible(line)
	}
	return strings.Join(lines, "\n")
}

// Many is plural with a comma between thousands.
func Many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Number(n) + " " + what + "s"
}

// Number has a comma between thousands.
func Number(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
