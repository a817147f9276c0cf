package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/internal/program/version"
)

// TestMain lets the test program stand for podgrace itself, where a script calls it by that name or a test runs it in a process of its own.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == version.Preview {
		fakePreview()
	}
	if filepath.Base(os.Args[0]) == "podgrace" || os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// step is one of a GitHub action or of a job.
type step struct {
	Uses, If, Run string
	Env, With     map[string]string
}

func decodeCI(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "deploy", "ci", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// repository is the root of this one, before a test goes elsewhere.
var repository, _ = filepath.Abs(filepath.Join("..", ".."))

func actionSteps(t *testing.T) []step {
	t.Helper()
	var action struct{ Runs struct{ Steps []step } }
	decodeCI(t, "podgrace-review/action.yml", &action)
	return action.Runs.Steps
}

// runner is the machine that scripts of deploy/ci are run on: a folder with manifests and policies, one of programs, and nothing else.
type runner struct{ programs, temp string }

func newRunner(t *testing.T, programs ...string) *runner {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	inTree(t)
	r := &runner{programs: t.TempDir(), temp: t.TempDir()}
	r.link(t, bash, "bash")
	for _, name := range []string{"mkdir", "cat", "git", "env"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("no %s", name)
		}
		r.link(t, path, name)
	}
	for _, name := range programs {
		r.fake(t, name, `echo "$0 $*" >>"$RUNNER_TEMP/called"`)
	}
	return r
}

func (r *runner) link(t *testing.T, path, name string) {
	t.Helper()
	if err := os.Symlink(path, filepath.Join(r.programs, name)); err != nil {
		t.Fatal(err)
	}
}

// podgrace puts the program under test on the PATH.
func (r *runner) podgrace(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.link(t, self, "podgrace")
}

// fake is a program of one line, which cd and PATH do not change.
func (r *runner) fake(t *testing.T, name, line string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.programs, name), []byte("#!"+filepath.Join(r.programs, "bash")+"\n"+line+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// run runs a script as GitHub does, and returns its exit code and what it printed.
func (r *runner) run(t *testing.T, script string, env ...string) (code int, out string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(r.programs, "bash"), "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
	cmd.Env = append([]string{
		"PATH=" + r.programs, "HOME=" + r.temp, "RUNNER_TEMP=" + r.temp, "GITHUB_PATH=" + filepath.Join(r.temp, "path"), "GITHUB_STEP_SUMMARY=" + filepath.Join(r.temp, "summary"),
	}, env...)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return code, both.String()
}

func (r *runner) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// The action's own scripts find, build and run the program, and leave the files that others read.
func TestActionRuns(t *testing.T) {
	steps := actionSteps(t)
	r := newRunner(t)
	if code, out := r.run(t, steps[0].Run, "SOURCE="); code != 2 || !strings.Contains(out, "::error::podgrace is not on the PATH") {
		t.Errorf("without a program: exit %d, %s", code, out)
	}
	r.fake(t, "go", `echo "$*" >"$RUNNER_TEMP/go"`)
	code, out := r.run(t, steps[0].Run, "SOURCE=.podgrace")
	built := filepath.Join(r.temp, "podgrace")
	if want := "build -C .podgrace -o " + built + "/podgrace ./cmd/podgrace\n"; code != 0 || r.read(t, filepath.Join(r.temp, "go")) != want || r.read(t, filepath.Join(r.temp, "path")) != built+"\n" {
		t.Errorf("exit %d, %s", code, out)
	}
	r.podgrace(t)
	if code, out := r.run(t, steps[0].Run, "SOURCE="); code != 0 {
		t.Errorf("with a program: exit %d, %s", code, out)
	}
	for manifests, want := range map[string]int{"deploy\ncluster": 0, "denied": 1, "broken": 2} {
		code, out := r.run(t, steps[1].Run, "MANIFESTS="+manifests, "POLICIES=policies\n", "STATE=cluster", "FAIL_ON=deny", "SARIF=out.sarif")
		if code != want || !strings.Contains(out, "Podgrace: ") {
			t.Errorf("%q: exit %d, %s", manifests, code, out)
		}
		if summary := r.read(t, filepath.Join(r.temp, "summary")); !strings.HasPrefix(summary, "### Podgrace: ") {
			t.Errorf("%q: the summary is %q", manifests, summary)
		}
		if sarif := r.read(t, "out.sarif"); !strings.Contains(sarif, "sarif-schema-2.1.0.json") {
			t.Errorf("%q: no file for code scanning: %q", manifests, sarif)
		}
	}
}

type workflow struct {
	Env  map[string]string
	Jobs map[string]struct {
		Permissions map[string]string
		Steps       []step
	}
}

// What the workflow writes it has the right to, and a fork's pull request, which has none, needs none.
func TestWorkflow(t *testing.T) {
	var w workflow
	decodeCI(t, "workflow.yaml", &w)
	job := w.Jobs["review"]
	if !strings.Contains(w.Env["MAY_WRITE"], "head.repo.fork") {
		t.Errorf("MAY_WRITE is %q", w.Env["MAY_WRITE"])
	}
	var action struct{ Inputs map[string]any }
	decodeCI(t, "podgrace-review/action.yml", &action)
	uploads, comments := false, false
	for _, s := range job.Steps {
		switch {
		case strings.HasPrefix(s.Uses, "./"):
			for name := range s.With {
				if action.Inputs[name] == nil {
					t.Errorf("the action has no input %s", name)
				}
			}
		case strings.Contains(s.Uses, "upload-sarif"):
			uploads = true
			if job.Permissions["security-events"] != "write" || !strings.Contains(s.If, "!cancelled()") || !strings.Contains(s.If, "env.MAY_WRITE == 'true'") {
				t.Errorf("the upload: %+v", s)
			}
		case strings.Contains(s.Run, "gh pr comment"):
			comments = true
			commentsIfItMay(t, s)
		}
	}
	if !uploads || !comments || job.Permissions["pull-requests"] != "write" {
		t.Errorf("uploads %v, comments %v, permissions %v", uploads, comments, job.Permissions)
	}
}

// commentsIfItMay runs the step that comments, in a repository where a pull request brings the first policies, and in one that had some.
func commentsIfItMay(t *testing.T, s step) {
	t.Helper()
	for name, test := range map[string]struct {
		had  bool
		may  string
		says string
	}{"first policies": {false, "true", "affects 2 of them"}, "same policies": {true, "true", "changes nothing"}, "fork": {false, "false", "affects 2 of them"}} {
		t.Run(name, func(t *testing.T) {
			r := newRunner(t, "gh")
			r.podgrace(t)
			add := "git add README"
			if test.had {
				add = "git add README policies"
			}
			setUp := "echo x >README; git init -q; " + add + "; git -c user.name=a -c user.email=a@example.com commit -qm a; git rev-parse HEAD"
			code, base := r.run(t, setUp)
			if code != 0 {
				t.Fatalf("exit %d, %s", code, base)
			}
			code, out := r.run(t, s.Run, "BASE="+strings.TrimSpace(base), "PULL_REQUEST=7", "MAY_WRITE="+test.may)
			if code != 0 || !strings.Contains(r.read(t, filepath.Join(r.temp, "summary")), test.says) {
				t.Errorf("exit %d, %s\n%s", code, out, r.read(t, filepath.Join(r.temp, "summary")))
			}
			if called := r.read(t, filepath.Join(r.temp, "called")); strings.Contains(called, "gh pr comment 7") != (test.may == "true") {
				t.Errorf("called %q", called)
			}
		})
	}
}

// GitLab reads what the job's script leaves.
func TestGitLab(t *testing.T) {
	var ci struct {
		Podgrace struct {
			BeforeScript []string `json:"before_script"`
			Script       []string
			Artifacts    struct {
				When    string
				Reports map[string]string
			}
		}
	}
	decodeCI(t, "gitlab-ci.yml", &ci)
	r := newRunner(t, "go")
	if err := os.Remove(filepath.Join(r.programs, "git")); err != nil {
		t.Fatal(err)
	}
	r.fake(t, "git", `echo "$0 $*" >>"$RUNNER_TEMP/called"`)
	r.podgrace(t)
	if code, out := r.run(t, strings.Join(ci.Podgrace.BeforeScript, "\n"), "PODGRACE_REPOSITORY=r"); code != 0 {
		t.Fatalf("exit %d, %s", code, out)
	}
	if called := r.read(t, filepath.Join(r.temp, "called")); !strings.Contains(called, "clone --depth 1 r .podgrace") || !strings.Contains(called, "build -C .podgrace") {
		t.Errorf("called %s", called)
	}
	script := ci.Podgrace.Script
	if code, out := r.run(t, script[len(script)-1]); code != 0 || !strings.Contains(out, "Reviewed 2") {
		t.Errorf("exit %d, %s", code, out)
	}
	report := ci.Podgrace.Artifacts.Reports["junit"]
	if text := r.read(t, report); !strings.Contains(text, "<testsuites") || ci.Podgrace.Artifacts.When != "always" {
		t.Errorf("%s: %q", report, text)
	}
}
