package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// inGuest are packages whose tests no tier runs, since they are built for a guest, where those of another package run them.
var inGuest = []string{"e2e/vm/kernel"}

// Whoever adds a package adds it to a tier; one that is in two would run twice.
func TestEachPackageIsInOneTier(t *testing.T) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	packages := testedPackages(t, root)
	if len(packages) == 0 {
		t.Fatalf("no tests below %s", root)
	}
	for _, p := range packages {
		var in []string
		for _, tier := range tiers {
			if tier.has(p) {
				in = append(in, tier.name)
			}
		}
		switch dir := path.Join(p.module, p.dir); {
		case slices.Contains(inGuest, dir):
			if len(in) > 0 {
				t.Errorf("%s is for a guest, but in the tiers %q", dir, in)
			}
		case len(in) == 0:
			t.Errorf("no tier has %s: add it to one in main.go", dir)
		case len(in) > 1:
			t.Errorf("%s is in the tiers %q", dir, in)
		}
	}
}

func TestHas(t *testing.T) {
	for _, test := range []struct {
		dir, pattern string
		p            testedPackage
		want         bool
	}{
		{".", "./a", testedPackage{".", "a"}, true},
		{".", "./a", testedPackage{".", "a/b"}, false},
		{".", "./a/...", testedPackage{".", "a"}, true},
		{".", "./a/...", testedPackage{".", "a/b"}, true},
		{".", "./a/...", testedPackage{".", "ab"}, false},
		{".", "./a/...", testedPackage{"a", "."}, false},
		{"a", "./...", testedPackage{"a", "."}, true},
		{"a", "./...", testedPackage{"a", "b"}, true},
		{"a", "./...", testedPackage{".", "b"}, false},
	} {
		if got := (tier{dir: test.dir, packages: []string{test.pattern}}).has(test.p); got != test.want {
			t.Errorf("%s in %s has %+v: got %v", test.pattern, test.dir, test.p, got)
		}
	}
}

// testedPackage is a package with tests.
type testedPackage struct{ module, dir string } // folders: from the root, and from the module's

// has says if a tier runs a package, as the go command reads patterns: they end at another module.
func (t tier) has(p testedPackage) bool {
	return t.dir == p.module && slices.ContainsFunc(t.packages, func(pattern string) bool {
		below, all := strings.CutSuffix(path.Clean(pattern), "...")
		below = strings.TrimSuffix(below, "/")
		return p.dir == path.Clean(below) || all && (below == "" || strings.HasPrefix(p.dir, below+"/"))
	})
}

// testedPackages lists folders with test files, but for those that the go command ignores too.
func testedPackages(t *testing.T, root string) []testedPackage {
	t.Helper()
	var packages []testedPackage
	modules := map[string]string{} // of folders, both from the root
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if base := path.Base(name); name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
			return fs.SkipDir
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
		packages = append(packages, testedPackage{modules[name], filepath.ToSlash(dir)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}
