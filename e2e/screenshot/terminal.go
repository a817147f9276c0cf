package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The measures of the picture, in pixels. A monospaced letter is 0.6 of its size wide; each span of text is given its width, so
// that columns hold also in a reader's font that is not.
const (
	fontSize   = 14.0
	cellWidth  = 0.6 * fontSize
	lineHeight = 20.0
	margin     = 20.0
	titleBar   = 36.0
	minColumns = 60
)

// terminal draws a window of a terminal as SVG: what was typed, if anything, and what was printed, with its colours.
func terminal(prompt, text string) []byte {
	lines := parse(text)
	if prompt != "" {
		typed := []span{{text: "$ ", style: style{faint: true}}, {text: prompt, style: style{bold: true}}}
		lines = append([][]span{typed}, lines...)
	}
	columns := minColumns
	for _, line := range lines {
		columns = max(columns, width(line))
	}
	var svg bytes.Buffer
	w, h := 2*margin+cellWidth*float64(columns), titleBar+lineHeight*float64(len(lines))+margin
	fmt.Fprintf(&svg, head, w, h, w-1, h-1)
	for i, line := range lines {
		drawLine(&svg, line, titleBar+lineHeight*float64(i)+lineHeight-5)
	}
	svg.WriteString("</g>\n</svg>\n")
	return svg.Bytes()
}

// head of the file, with the window and the terminal's colours.
const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]g" width="%[1]g" height="%[2]g">
<style>
text { font: 14px ui-monospace, "SF Mono", "JetBrains Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d5dae2; white-space: pre }
.bold { font-weight: 700; fill: #f2f4f8 } .faint { fill: #8a94a3 } .italic { font-style: italic } .underline { text-decoration: underline }
.c0 { fill: #5c6675 } .c1 { fill: #ff8b81 } .c2 { fill: #7fd6a2 } .c3 { fill: #f2bd66 } .c4 { fill: #8dbefa } .c5 { fill: #c9adff } .c6 { fill: #74d4dd } .c7 { fill: #d5dae2 }
</style>
<rect x=".5" y=".5" width="%[3]g" height="%[4]g" rx="10" fill="#171b21" stroke="#39424e"/>
<circle cx="20" cy="18" r="5.5" fill="#ff5f57"/><circle cx="38" cy="18" r="5.5" fill="#febc2e"/><circle cx="56" cy="18" r="5.5" fill="#28c840"/>
<g xml:space="preserve">
`

func width(line []span) int {
	n := 0
	for _, r := range line {
		n += utf8.RuneCountInString(r.text)
	}
	return n
}

func drawLine(svg *bytes.Buffer, line []span, y float64) {
	column := 0
	for _, r := range line {
		length := utf8.RuneCountInString(r.text)
		if strings.TrimSpace(r.text) != "" {
			fmt.Fprintf(svg, `<text x="%.1f" y="%g" textLength="%.1f"%s>`, margin+cellWidth*float64(column), y, cellWidth*float64(length), r.style.class())
			_ = xml.EscapeText(svg, []byte(r.text)) // a buffer takes everything
			svg.WriteString("</text>\n")
		}
		column += length
	}
}

// class is the attribute of the style.
func (s style) class() string {
	var names []string
	for _, c := range []struct {
		name string
		has  bool
	}{{"bold", s.bold}, {"faint", s.faint}, {"italic", s.italic}, {"underline", s.underline}} {
		if c.has {
			names = append(names, c.name)
		}
	}
	if s.color > 0 { // after bold and faint in the style sheet, so that it is the colour that shows
		names = append(names, fmt.Sprintf("c%d", s.color-1))
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(` class="%s"`, strings.Join(names, " "))
}
