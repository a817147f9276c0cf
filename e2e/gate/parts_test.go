package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// inGuest are packages whose tests are compiled for a guest in QEMU and run there by the tests of another package.
var inGuest = []string{"e2e/vm/kernel"}

// source is a package with tests, as its files are.
type source struct {
	module, dir string // folders: the module's in the repository, and the package's in the module
	tests       []string
}

func (s source) String() string { return path.Join(s.module, s.dir) }

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// sources returns the packages with tests of the repository.
func sources(t *testing.T) []source {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var all []source
	modules := map[string]string{} // by folder, both in the repository
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if base := path.Base(name); name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
			return fs.SkipDir // as the go command does
		}
		modules[name] = modules[path.Dir(name)]
		if _, err := os.Stat(filepath.Join(root, name, "go.mod")); err == nil {
			modules[name] = name
		}
		files, err := filepath.Glob(filepath.Join(root, name, "*_test.go"))
		if err != nil || len(files) == 0 {
			return err
		}
		dir, err := filepath.Rel(modules[name], name)
		if err != nil {
			return err
		}
		s := source{module: modules[name], dir: filepath.ToSlash(dir)}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
				s.tests = append(s.tests, m[1])
			}
		}
		all = append(all, s)
		return nil
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d packages, %v", len(all), err)
	}
	return all
}

// has reports whether a part runs a package, as the go command reads patterns.
func (p part) has(s source) bool {
	return p.dir == s.module && slices.ContainsFunc(p.packages, func(pattern string) bool {
		below, all := strings.CutSuffix(path.Clean(pattern), "...")
		below = strings.TrimSuffix(below, "/")
		return s.dir == path.Clean(below) || all && (below == "" || strings.HasPrefix(s.dir, below+"/"))
	})
}

func TestEachPackageIsInOnePart(t *testing.T) {
	all := sources(t)
	for _, s := range all {
		var in []string
		for _, p := range parts {
			if p.has(s) {
				in = append(in, p.name)
			}
		}
		want := 1
		if slices.Contains(inGuest, s.String()) {
			want = 0
		}
		if len(in) != want {
			t.Errorf("package %s is in the parts %q: it must be in %d (table.go)", s, in, want)
		}
	}
	for _, p := range parts {
		for _, pattern := range p.packages {
			one := part{dir: p.dir, packages: []string{pattern}}
			if !slices.ContainsFunc(all, one.has) {
				t.Errorf("%s: %s has no tests", p.name, pattern)
			}
		}
	}
}

// A test that left the gate exists, or the pattern that leaves it out does nothing. So do the tests that find its faults, and they run in
// the gate.
func TestMovedTestsExist(t *testing.T) {
	inGate := map[string]bool{}
	for _, s := range sources(t) {
		for _, p := range parts {
			if !p.has(s) || p.set == setAll {
				continue
			}
			for _, test := range s.tests {
				if !slices.ContainsFunc(p.moved, func(m moved) bool { return m.test == test }) {
					inGate[s.String()+" "+test] = true
				}
			}
		}
	}
	for _, p := range parts {
		for _, m := range p.moved {
			top, _, _ := strings.Cut(m.test, "/")
			if !slices.ContainsFunc(sources(t), func(s source) bool { return p.has(s) && slices.Contains(s.tests, top) }) {
				t.Errorf("%s: there is no test %s", p.name, m.test)
			}
			if len(m.foundBy) == 0 && m.other == "" {
				t.Errorf("%s: nothing is said to find the faults of %s", p.name, m.test)
			}
			for _, test := range m.foundBy {
				if !inGate[test] {
					t.Errorf("%s: %s, which is to find the faults of %s, is not in the gate", p.name, test, m.test)
				}
			}
		}
	}
}
