package docs_test

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	inCode  = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)(?:\s+"[^"]*")?\)`)
	inHTML  = regexp.MustCompile(`(?:src|srcset|href)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Every relative link of every page leads to a file of the repository, and its anchor to a heading there.
func TestLinks(t *testing.T) {
	pages := markdownFiles(t, "..")
	if len(pages) < 10 {
		t.Fatalf("only %d pages were found", len(pages))
	}
	for _, page := range pages {
		text := readPage(t, page)
		for _, target := range linksOf(text) {
			if err := resolves(page, target); err != nil {
				t.Errorf("%s: link to %s: %v", page, target, err)
			}
		}
	}
}

func markdownFiles(t *testing.T, root string) (pages []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "testdata"):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".md"):
			pages = append(pages, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// linksOf are the targets of a page's links and pictures, not those in code.
func linksOf(text string) (targets []string) {
	text = inCode.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
	for _, pattern := range []*regexp.Regexp{link, inHTML} {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			targets = append(targets, m[1])
		}
	}
	return targets
}

// resolves says what is wrong with a link. What has a scheme is not looked at: that is elsewhere.
func resolves(page, target string) error {
	u, err := url.Parse(target)
	if err != nil || u.IsAbs() {
		return err
	}
	file := page
	if u.Path != "" {
		file = filepath.Join(filepath.Dir(page), filepath.FromSlash(u.Path))
	}
	if _, err := os.Stat(file); err != nil {
		return err
	}
	if u.Fragment == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !anchors(string(text))[u.Fragment] {
		return fmt.Errorf("there is no heading #%s", u.Fragment)
	}
	return nil
}

// anchors are those of the headings, as code hosts make them: lower case, blanks to hyphens, without punctuation; numbered when they
// come again.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		base := slug(m[1])
		name := base
		for n := 1; all[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		all[name] = true
	}
	return all
}

func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, linked.ReplaceAllString(title, "$1"))
}

func TestLinksThatAreWrong(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	const text = "# Here\n## `code`, and \"more\": what now?\n## Here\n```\n# not a heading\n[no](link)\n```\n`[no](link)` [x](gone.md) <img src=\"gone.svg\">\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := linksOf(text); len(got) != 2 || got[0] != "gone.md" || got[1] != "gone.svg" {
		t.Errorf("links %q", got)
	}
	for target, good := range map[string]bool{
		"#here": true, "#here-1": true, "page.md#code-and-more-what-now": true, "https://example.org/x#y": true, "page.md": true,
		"#here-2": false, "#not-a-heading": false, "gone.md": false, "gone.md#here": false, "page.md#Here": false,
	} {
		if err := resolves(page, target); (err == nil) != good {
			t.Errorf("%s: %v", target, err)
		}
	}
}
