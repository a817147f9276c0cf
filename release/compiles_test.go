package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The command line compiles for the platforms of which the dry run makes nothing: our packages are checked whole, of those of others what they declare. It
// takes seconds where compiling takes minutes.
func TestCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("reads all packages of the command line for three platforms")
	}
	for _, p := range commandLines {
		if slices.Contains(dryRun, p) {
			continue
		}
		t.Run(p.String(), func(t *testing.T) {
			for _, err := range checked(t, p, "./cmd/podgrace") {
				t.Error(err)
			}
		})
	}
}

// listed is what go list says of a package.
type listed struct {
	Dir, ImportPath string
	GoFiles         []string
	ImportMap       map[string]string // of the library's vendored packages
	Module          *struct{ GoVersion string }
}

// checked are the errors in our packages that a program of the product's module is made of on a platform.
func checked(t *testing.T, p platform, program string) []error {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,ImportPath,GoFiles,ImportMap,Module", program)
	list.Dir = ".."
	var err error
	if list.Env, err = environment(t.Context(), list.Dir, p); err != nil {
		t.Fatal(err)
	}
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []error
	files, made := token.NewFileSet(), map[string]*types.Package{"unsafe": types.Unsafe}
	// Each package comes after those that it imports.
	for packages := json.NewDecoder(strings.NewReader(string(text))); ; {
		var l listed
		if err := packages.Decode(&l); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		if l.ImportPath == "unsafe" {
			continue
		}
		ours := strings.HasPrefix(l.ImportPath, "github.com/podgrace/podgrace/")
		var syntax []*ast.File
		for _, name := range l.GoFiles {
			file, err := parser.ParseFile(files, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			syntax = append(syntax, file)
		}
		config := types.Config{
			Importer: importer(func(path string) (*types.Package, error) {
				if mapped := l.ImportMap[path]; mapped != "" {
					path = mapped
				}
				if made[path] == nil {
					return nil, errors.New("no package " + path)
				}
				return made[path], nil
			}),
			IgnoreFuncBodies: !ours, Sizes: types.SizesFor("gc", p.Arch),
			Error: func(err error) {
				if ours {
					found = append(found, err)
				}
			},
		}
		if l.Module != nil && l.Module.GoVersion != "" {
			config.GoVersion = "go" + l.Module.GoVersion
		}
		// What is wrong in a package of others shows where ours uses it.
		made[l.ImportPath], _ = config.Check(l.ImportPath, files, syntax, nil)
	}
}

type importer func(path string) (*types.Package, error)

// Import is of types.Importer.
func (i importer) Import(path string) (*types.Package, error) { return i(path) }
