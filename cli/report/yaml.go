package report

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/internal/console"
)

// yamlLines writes decoded JSON as YAML as kubectl would, but for strings, which are always in one line. The library is too slow for
// a report: it parses and writes some ten values a result, with buffers of its own for each.
func yamlLines(value any) []string {
	var lines []string
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			lines = append(lines, yamlField(yamlString(key)+":", value[key])...)
		}
	case []any:
		for _, element := range value {
			lead := "- "
			for _, line := range yamlLines(element) {
				lines = append(lines, lead+line)
				lead = "  "
			}
		}
	}
	if lines == nil {
		return []string{yamlScalar(value)}
	}
	return lines
}

// yamlField is a key and what stands beside it, or below it. Lists are not indented.
func yamlField(key string, value any) []string {
	within := yamlLines(value)
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			break
		}
		for i := range within {
			within[i] = "  " + within[i]
		}
		return append([]string{key}, within...)
	case []any:
		if len(value) > 0 {
			return append([]string{key}, within...)
		}
	}
	return []string{key + " " + within[0]}
}

func yamlScalar(value any) string {
	switch value := value.(type) {
	case string:
		return yamlString(value)
	case json.Number:
		return value.String()
	case bool:
		return strconv.FormatBool(value)
	case map[string]any:
		return "{}"
	case []any:
		return "[]"
	}
	return "null"
}

var (
	// plain strings need no quotes; reserved ones would be taken for something else, by YAML 1.1 or 1.2.
	plain    = regexp.MustCompile(`^[A-Za-z/]([A-Za-z0-9_./:-]*[A-Za-z0-9_/-])?$`)
	reserved = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
)

func yamlString(text string) string {
	switch {
	case plain.MatchString(text) && !slices.Contains(reserved, strings.ToLower(text)):
		return text
	case console.Visible(text) != text || strings.ContainsRune(text, '\'') || !strings.ContainsAny(text, " \"{}[]"):
		return strconv.Quote(text)
	}
	return "'" + text + "'"
}
