package console_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/internal/console"
)

func TestPage(t *testing.T) {
	rows := [][]string{{"a", "b", "one two three four five six seven eight"}, {"long name", "", "x"}, {"alone, and longer than any"}}
	for name, tc := range map[string]struct {
		style console.Style
		write func(*console.Page)
		want  string
	}{
		"row": {console.Style{Width: 40}, func(p *console.Page) { p.Row("Label", "one two three four five six seven eight", "more") }, `
Label   one two three four five six
        seven eight
        more
`},
		"not wrapped": {console.Style{}, func(p *console.Page) { p.Row("Label", "one  two three four five six seven eight") }, "\nLabel   one  two three four five six seven eight\n"},
		"too narrow":  {console.Style{Width: 20}, func(p *console.Page) { p.Row("Label", "one two three four five six seven eight") }, "\nLabel   one two three four five six seven eight\n"},
		"a long word": {console.Style{Width: 40}, func(p *console.Page) {
			p.Row("Label", "one "+strings.Repeat("twö", 24)+" three", strings.Repeat("/path", 8)+" one")
		}, `
Label   one
        twötwötwötwötwötwötwötwötwötwötw
        ötwötwötwötwötwötwötwötwötwötwöt
        wötwötwö three
        /path/path/path/path/path/path/path/path
        one
`},
		"blanks": {console.Style{}, func(p *console.Page) { p.Row("Label", "a\u2800\u3164\u115f\u1160\uffa0\u17b4b\u00a0\u200bc") }, "\nLabel   a??????b??c\n"},
		"table":  {console.Style{Width: 50}, func(p *console.Page) { p.Table("T", [][]string{{"a", "b"}, {"ccc", strings.Repeat("d", 50)}}) }, "\nT       a    b\n        ccc  " + strings.Repeat("d", 50) + "\n"},
		"columns": {console.Style{Width: 60}, func(p *console.Page) { p.Columns("", "T", rows) }, `
T       a          b  one two three four five six seven
                      eight
        long name     x
        alone, and longer than any
`},
		"color":         {console.Style{Color: true}, func(p *console.Page) { p.Marked(console.Red, "Bad", "x") }, "\n\x1b[1m\x1b[31mBad\x1b[0m     x\n"},
		"no color":      {console.Style{}, func(p *console.Page) { p.Marked(console.Red, "Bad", "x") }, "\nBad     x\n"},
		"command":       {console.Style{}, func(p *console.Page) { p.Command("kubectl get pod", "looks"); p.Gap() }, "\n  # looks\n  kubectl get pod\n\n"},
		"hostile":       {console.Style{}, func(p *console.Page) { p.Row("L", "a\x1b[2J\nb\u202e"); p.Table("", [][]string{{"\x1b"}}) }, "\nL       a?[2J?b?\n        ?\n"},
		"other letters": {console.Style{}, func(p *console.Page) { p.Table("", [][]string{{"äöü", "x"}, {"abcd", "x"}}) }, "\n        äöü   x\n        abcd  x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := console.New(tc.style, 8)
			tc.write(p)
			if diff := cmp.Diff(tc.want, "\n"+p.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Whatever is written, nothing steers a terminal, and no word is lost.
func TestAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		p := console.New(console.Style{Width: rapid.IntRange(0, 90).Draw(t, "width")}, 8)
		p.Row("", text)
		p.Columns("", "", [][]string{{text, text}, {}, {"x"}})
		for _, r := range p.String() {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("character %U in %q", r, p.String())
			}
		}
		if !utf8.ValidString(p.String()) {
			t.Fatalf("no UTF-8: %q", p.String())
		}
		words := strings.Join(strings.Fields(console.Printable(text)), "")
		if got := strings.Join(strings.Fields(p.String()), ""); got != words+words+words+"x" {
			t.Fatalf("got %q of %q", got, words)
		}
	})
}
