package deploy

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The images are built from what .dockerignore lets through: a folder that is missing there fails the build of whoever makes images, and no other test, since ours compile in the repository.
func TestImagesHaveTheirSources(t *testing.T) {
	text, err := os.ReadFile("../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	const module = "github.com/podgrace/podgrace/"
	for dir, programs := range map[string]string{"..": "./cmd/...", "../preview": "./cmd/..."} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", programs)
		list.Dir = dir
		packages, err := list.Output()
		if err != nil {
			t.Fatalf("list the packages of %s: %v", dir, err)
		}
		ours := 0
		for path := range strings.Lines(string(packages)) {
			of, ok := strings.CutPrefix(strings.TrimSpace(path), module)
			if !ok {
				continue
			}
			ours++
			if folder, _, _ := strings.Cut(of, "/"); !slices.Contains(lines, "!"+folder) {
				t.Errorf("the programs of %s need %s, and .dockerignore leaves %s out", dir, of, folder)
			}
		}
		if ours == 0 {
			t.Errorf("%s needs no package of ours", dir)
		}
	}
}
