package input

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// IgnoreFile in a folder has patterns, as .gitignore has them, of what below it is not read.
const IgnoreFile = ".podgraceignore"

// ignored are patterns of which the last that matches decides.
type ignored []pattern

// pattern is one line of an ignore file (gitignore(5)).
type pattern struct {
	// base is the folder whose pattern it is; "." matches paths as they are.
	base string
	// match is about the path below the base, with slashes.
	match *regexp.Regexp
	// not: what matches is read after all. folder: only folders match.
	not, folder bool
}

// parsePatterns reads the lines of an ignore file.
func parsePatterns(base string, from io.Reader) (ignored, error) {
	var all ignored
	lines := bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		p, is, err := parsePattern(base, strings.TrimSuffix(strings.TrimPrefix(lines.Text(), "\ufeff"), "\r"))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if is {
			all = append(all, p)
		}
	}
	return all, lines.Err()
}

// parsePattern reads one pattern. False: the line has none.
func parsePattern(base, line string) (p pattern, is bool, err error) {
	text := line
	for strings.HasSuffix(text, " ") && !strings.HasSuffix(text, `\ `) {
		text = strings.TrimSuffix(text, " ")
	}
	if text == "" || strings.HasPrefix(text, "#") {
		return p, false, nil
	}
	p.base = base
	text, p.not = strings.CutPrefix(text, "!")
	text, p.folder = strings.CutSuffix(text, "/")
	anchored := strings.Contains(text, "/")
	expression, ok := globExpression(strings.TrimPrefix(text, "/"))
	if text == "/**" { // all that is in the folder; without the slash it is any one name
		expression = ".+"
	}
	if text == "" || !ok {
		return p, false, fmt.Errorf("%q is no pattern", line)
	}
	if !anchored {
		expression = "(?:.*/)?" + expression
	}
	if p.match, err = regexp.Compile("(?s)^" + expression + "$"); err != nil {
		return p, false, fmt.Errorf("%q is no pattern: %w", line, err)
	}
	return p, true, nil
}

// globExpression is a glob as a regular expression, which takes a time that is linear in the path. False: it is none.
func globExpression(glob string) (string, bool) {
	var out strings.Builder
	for i := 0; i < len(glob); i++ {
		begins := i == 0 || glob[i-1] == '/'
		switch rest := glob[i:]; {
		case begins && strings.HasPrefix(rest, "**/"):
			out.WriteString("(?:.*/)?")
			i += 2
		case begins && i > 0 && rest == "**":
			out.WriteString(".+")
			i++
		case rest[0] == '*':
			out.WriteString("[^/]*")
		case rest[0] == '?':
			out.WriteString("[^/]")
		case rest[0] == '[':
			end := classEnd(rest)
			if end < 0 {
				return "", false
			}
			out.WriteString(classExpression(rest[1:end]))
			i += end
		case rest[0] == '\\':
			if i++; i == len(glob) {
				return "", false
			}
			out.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		default:
			out.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		}
	}
	return out.String(), true
}

// classEnd is the offset of the bracket that closes a class; -1: there is none. One that comes first is a member.
func classEnd(class string) int {
	from := 1
	if strings.HasPrefix(class[from:], "!") || strings.HasPrefix(class[from:], "^") {
		from++
	}
	for i := from; i < len(class); i++ {
		switch {
		case class[i] == '\\':
			i++
		case class[i] == ']' && i > from:
			return i
		}
	}
	return -1
}

// classExpression is what is between the brackets as a regular expression; no class matches a slash.
func classExpression(class string) string {
	not := strings.HasPrefix(class, "!") || strings.HasPrefix(class, "^")
	if not {
		class = class[1:]
	}
	var members strings.Builder
	for i := 0; i < len(class); i++ {
		switch c := class[i]; {
		case c == '-' && i > 0 && i < len(class)-1:
			members.WriteByte('-')
		case c == '\\' && i < len(class)-1:
			i++
			members.WriteString(quoteMember(class[i]))
		case c == '/' && !not:
		default:
			members.WriteString(quoteMember(c))
		}
	}
	if not {
		return "[^/" + members.String() + "]"
	}
	return "[" + members.String() + "]"
}

// quoteMember is a member of a class in a regular expression.
func quoteMember(c byte) string {
	if strings.IndexByte(`\]^-[`, c) >= 0 {
		return `\` + string(rune(c))
	}
	return string([]byte{c})
}

// excludes reports whether a path is not to be read. Of several lists, the first with a pattern that matches decides.
func excludes(path string, folder bool, lists ...ignored) bool {
	path = filepath.ToSlash(path)
	for _, list := range lists {
		for _, p := range slices.Backward(list) {
			if below, ok := p.below(path); ok && (folder || !p.folder) && p.match.MatchString(below) {
				return !p.not
			}
		}
	}
	return false
}

// ValidatePatterns says what is wrong with patterns of Reader.Exclude.
func ValidatePatterns(patterns ...string) error {
	_, err := parsePatterns(".", strings.NewReader(strings.Join(patterns, "\n")))
	return err
}

// below is the path relative to the pattern's folder.
func (p *pattern) below(path string) (string, bool) {
	if p.base == "." {
		return path, true
	}
	return strings.CutPrefix(path, filepath.ToSlash(p.base)+"/")
}

// readIgnoreFile reads the patterns of a folder, if it has any.
func readIgnoreFile(dir string) (ignored, error) {
	f, err := os.Open(filepath.Join(dir, IgnoreFile))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parsePatterns(dir, f)
}
