package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// chartReadme has the reference of the chart's values at its end.
const chartReadme = "../deploy/chart/podgrace/README.md"

// The reference in the chart's README is what the comments of values.yaml say. Each value has one.
func TestValuesAreFresh(t *testing.T) {
	text, err := os.ReadFile("../deploy/chart/podgrace/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(chartReadme)
	if err != nil {
		t.Fatal(err)
	}
	const heading = "## Values\n"
	before, _, found := strings.Cut(string(page), heading)
	if !found {
		t.Fatalf("%s has no heading %q", chartReadme, heading)
	}
	fresh(t, chartReadme, before+heading+"\n| value | default | |\n|---|---|---|\n"+strings.Join(valueRows(t, "", document.Content[0]), ""))
}

// valueRows are the rows for what is in a mapping. A mapping whose keys have no comments is a value itself, such as labels.
func valueRows(t *testing.T, prefix string, mapping *yaml.Node) (rows []string) {
	t.Helper()
	for pair := range slices.Chunk(mapping.Content, 2) {
		key, value := pair[0], pair[1]
		path := prefix + key.Value
		what := strings.Join(strings.Fields(strings.ReplaceAll(key.HeadComment, "# ", "")), " ")
		if _, last, separate := strings.Cut(key.HeadComment, "\n\n"); separate { // before it is the file's own
			what = strings.Join(strings.Fields(strings.ReplaceAll(last, "# ", "")), " ")
		}
		if what == "" {
			t.Errorf("%s has no comment in values.yaml", path)
		}
		what = strings.ReplaceAll(what, "|", `\|`)
		if value.Kind == yaml.MappingNode && slices.ContainsFunc(value.Content, func(n *yaml.Node) bool { return n.HeadComment != "" }) {
			rows = append(rows, fmt.Sprintf("| **`%s`** | | %s |\n", path, what))
			rows = append(rows, valueRows(t, path+".", value)...)
			continue
		}
		var decoded any
		if err := value.Decode(&decoded); err != nil {
			t.Fatal(err)
		}
		content, err := json.Marshal(decoded)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, fmt.Sprintf("| `%s` | `%s` | %s |\n", path, content, what))
	}
	return rows
}
