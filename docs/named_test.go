package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
	if named == 0 {
		t.Error("no page names a test")
	}
}
