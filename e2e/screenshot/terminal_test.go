package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	red := style{color: 2}
	tests := []struct {
		name, in string
		want     [][]span
	}{
		{"plain", "a b\n\nc\n\n", [][]span{{{"a b", style{}}}, nil, {{"c", style{}}}}},
		{"colour", "\x1b[31mred\x1b[0m not", [][]span{{{"red", red}, {" not", style{}}}}},
		{"colour over the end of the line", "\x1b[31mred\nred\x1b[m", [][]span{{{"red", red}}, {{"red", red}}}},
		{"bright and bold", "\x1b[1;91mx\x1b[22my\x1b[39mz", [][]span{{{"x", style{bold: true, color: 2}}, {"y", red}, {"z", style{}}}}},
		{"256 colours are left out", "\x1b[38;5;1mx", [][]span{{{"x", style{}}}}},
		{"tabs go on from the column before", "ab\x1b[2m\tc", [][]span{{{"ab", style{}}, {"      c", style{faint: true}}}}},
		{"a link, a cursor and a bell", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x07\x1b[2K\x07", [][]span{{{"link", style{}}}}},
		{"carriage returns", "a\r\nb\r\n", [][]span{{{"a", style{}}}, {{"b", style{}}}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, parse(test.in), cmp.AllowUnexported(span{}, style{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever was printed, the picture is XML, and has what prints.
func TestTerminal(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("ab <&>\"'\n\t\r\x1b[]0123;m\x00\u2028é"))))
	rapid.Check(t, func(t *rapid.T) {
		in := text.Draw(t, "text")
		var want strings.Builder
		for _, line := range parse(in) {
			for _, s := range line {
				want.WriteString(s.text)
			}
		}
		if got := blankless(texts(t, terminal("", in))); got != blankless(want.String()) {
			t.Fatalf("the picture has %q, want %q", got, want.String())
		}
	})
}

func TestTerminalPrompt(t *testing.T) {
	svg := terminal("podgrace review -f <file>", "\x1b[31mDenied\x1b[0m")
	for _, part := range []string{`class="bold">podgrace review -f &lt;file&gt;</text>`, `class="c1">Denied</text>`, `textLength="50.4"`} {
		if !bytes.Contains(svg, []byte(part)) {
			t.Errorf("the picture lacks %s: %s", part, svg)
		}
	}
}

func blankless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// texts of an SVG, in order.
func texts(t *rapid.T, svg []byte) string {
	var out strings.Builder
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	inside := false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inside = token.Name.Local == "text"
		case xml.EndElement:
			inside = false
		case xml.CharData:
			if inside {
				out.Write(token)
			}
		}
	}
}
