package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testNamed = regexp.MustCompile("`(Test[A-Z]\\w*)`")
	testFunc  = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
)

// A test that a page names is there.
func TestNamedTests(t *testing.T) {
	there := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" { // in a work tree it is a file, and SkipDir would skip what stands beside it
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			there[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range markdownFiles(t, "..") {
		for _, m := range testNamed.FindAllStringSubmatch(readPage(t, page), -1) {
			if named++; !there[m[1]] {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
	}
	// The claims of the volume lock name tests, and in quotes rules that TestHistoriesFind removes.
	claims, rules := readPage(t, "../volumelock/doc.go"), readPage(t, "../volumelock/history_test.go")
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(claims, -1) {
		if !there[name] {
			t.Errorf("volumelock/doc.go: there is no %s", name)
		}
	}
	for _, m := range regexp.MustCompile(`"[^"]+"`).FindAllString(claims, -1) {
		if !strings.Contains(rules, "\t"+m+":") {
			t.Errorf("volumelock/doc.go: history_test.go removes no rule %s", m)
		}
	}
	if named == 0 {
		t.Error("no page names a test")
	}
}

// A command that names PolicyExceptions has the group of the kind: Kyverno has a kind of the same name, and kubectl takes policyexceptions for whichever the API server lists first.
func TestPolicyExceptionsAreNamedInFull(t *testing.T) {
	command := regexp.MustCompile(`kubectl[^` + "`" + `\n]*?\bpolicyexceptions?\b(\.podgrace\.dev)?`)
	named := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err != nil || !d.Type().IsRegular() || !slices.Contains([]string{".md", ".go", ".yaml", ".txt", ".tpl", ".json"}, filepath.Ext(path)) || strings.HasSuffix(path, "named_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range command.FindAllStringSubmatch(string(text), -1) {
			if named++; m[1] == "" {
				t.Errorf("%s: %s: name policyexceptions.podgrace.dev", path, m[0])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 5 {
		t.Errorf("only %d commands name PolicyExceptions: what this test looks for is not there", named)
	}
}
