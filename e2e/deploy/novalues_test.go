package deploy

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// What docs/install.md says is no value is none: one that becomes one is taken off that list.
func TestWhatIsNoValue(t *testing.T) {
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### What is no value\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := 0
	for _, row := range regexp.MustCompile(`(?m)^\| (.*`+"`"+`.*?) \| `).FindAllStringSubmatch(section, -1) {
		for _, value := range regexp.MustCompile("`([\\w.]+)`").FindAllStringSubmatch(row[1], -1) {
			listed++
			name := value[1][strings.LastIndex(value[1], ".")+1:]
			if value[1] == "guard.nodes.enabled" {
				name = "guard"
			}
			if _, err := helm(t, "template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry, "--set", value[1]+".x=y"); err == nil || !strings.Contains(err.Error(), "'"+name+"' not allowed") {
				t.Errorf("%s: got %v", value[1], err)
			}
		}
	}
	if listed < 9 {
		t.Errorf("only %d are listed", listed)
	}
}
