package docs_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is what is looked at of a workflow.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Timeout     int               `json:"timeout-minutes"`
		Steps       []struct {
			Uses, Run string
		} `json:"steps"`
	} `json:"jobs"`
}

var (
	pinned     = regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)
	makeTarget = regexp.MustCompile(`(?:\bmake|\.ci/run) ([a-z0-9-]+)`) // .ci/run installs packages first
)

// may are the rights of jobs that do more than read: a release's page, images, and the identity that signs them.
var may = map[string]map[string]string{"release": {"contents": "write", "packages": "write", "id-token": "write", "attestations": "write"}}

// showPage is the one step that is no command of ours: it comes after actions that our commands can't run.
const showPage = `gh release edit "$GITHUB_REF_NAME" --draft=false --verify-tag`

// The workflows run commands of this repository and nothing else, with actions that can't be replaced, and may read only, unless it is said above.
func TestWorkflowsRunOurCommands(t *testing.T) {
	makefile := readPage(t, "../Makefile")
	files, err := filepath.Glob("../.github/workflows/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("workflows %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: permissions %v", file, w.Permissions)
		}
		for name, job := range w.Jobs {
			if !maps.Equal(job.Permissions, may[name]) || job.Timeout == 0 {
				t.Errorf("%s: job %s has permissions %v and a timeout of %d", file, name, job.Permissions, job.Timeout)
			}
			for _, step := range job.Steps {
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s: %s is not pinned by its commit", file, step.Uses)
				}
				if step.Run == "" || step.Run == showPage {
					continue
				}
				target := makeTarget.FindStringSubmatch(step.Run)
				if target == nil || !strings.Contains(makefile, "\n"+target[1]+":") {
					t.Errorf("%s: %q is no target of the Makefile", file, step.Run)
				}
			}
		}
	}
}
