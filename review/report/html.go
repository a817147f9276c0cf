package report

import (
	"crypto/sha256"
	_ "embed" // the parts of the page
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"github.com/podgrace/podgrace/review"
)

// The parts of the page. Style and script stand in it as they are: the hashes of its policy are those of the files.
var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string

	pageTemplate = template.Must(template.New("page.html").Parse(pageHTML))
)

// writeHTML writes the report as one page that needs no other file and loads none. Texts and lines of diffs are written once, however
// many results share them, so that a result takes a few hundred bytes.
//
// The input may be a stranger's: every text goes through html/template, the page's script makes text nodes only, and the
// page's own policy lets nothing else run or load.
func writeHTML(w io.Writer, r *review.Report, o Options) error {
	if err := pageTemplate.Execute(w, newPage(r, o)); err != nil {
		return fmt.Errorf("writing the report as a page: %w", err)
	}
	return nil
}

// contentPolicy allows this style and this script, and the icon that is in the page.
func contentPolicy() string {
	return fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; img-src data:; base-uri 'none'; form-action 'none'; "+
		"require-trusted-types-for 'script'; trusted-types 'none'", hash(pageCSS), hash(pageJS))
}

// hash is a text in the words of a Content-Security-Policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
