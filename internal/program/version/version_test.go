package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestChoose(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	build := func(version string, settings ...string) *debug.BuildInfo {
		b := &debug.BuildInfo{Main: debug.Module{Version: version}}
		for i := 0; i < len(settings); i += 2 {
			b.Settings = append(b.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return b
	}
	for name, tc := range map[string]struct {
		linked string
		build  *debug.BuildInfo
		want   string
	}{
		"linked":           {"v1.2.3", build("v0.0.1", "vcs.revision", commit), "v1.2.3"},
		"linked alone":     {"v1.2.3", nil, "v1.2.3"},
		"installed":        {"", build("v0.1.0"), "v0.1.0"},
		"in a clone":       {"", build("v0.1.1-0.20260102030405-0123456789ab+dirty", "vcs.revision", commit, "vcs.modified", "true"), "v0.1.1-0.20260102030405-0123456789ab+dirty"},
		"commit":           {"", build("(devel)", "vcs.revision", commit, "vcs.modified", "false"), "0123456789ab"},
		"changed commit":   {"", build("", "vcs.revision", commit, "vcs.modified", "true"), "0123456789ab-dirty"},
		"short commit":     {"", build("", "vcs.revision", "0123"), "0123"},
		"no commit":        {"", build("(devel)", "vcs.modified", "true"), "unknown"},
		"nothing":          {"", build(""), "unknown"},
		"no build's facts": {"", nil, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := choose(tc.linked, tc.build); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestTold(t *testing.T) {
	i := Info{Program: Webhook, Version: "v1.2.3", Go: "go1.99", Platform: "linux/amd64"}
	if got, want := i.String(), "podgrace-webhook v1.2.3 (go1.99, linux/amd64)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	i.Commit, i.Date = "0123456789abcdef0123456789abcdef01234567", "2026-11-26T10:00:00Z"
	if got, want := i.String(), "podgrace-webhook v1.2.3 (commit 0123456789abcdef0123456789abcdef01234567 of 2026-11-26T10:00:00Z, go1.99, linux/amd64)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := i.UserAgent(), "podgrace-webhook/v1.2.3 (linux/amd64)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	of := Of(NodeEnforcer)
	if of.Program != NodeEnforcer || of.Version == "" || of.Go != runtime.Version() || of.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("got %+v", of)
	}
}

func TestMetric(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	NewMetric(registry, Info{Program: Webhook, Version: "v1.2.3", Go: "go1.99"})
	const want = `# HELP podgrace_build_info Always 1. Its labels are the version of this program, as its --version prints it, and that of Go.
# TYPE podgrace_build_info gauge
podgrace_build_info{go_version="go1.99",version="v1.2.3"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

var set = regexp.MustCompile(`-X (\S+)=\$`)

// The linker ignores a variable that is not there: a build by the names in Makefile and Dockerfile has the version.
func TestLinked(t *testing.T) {
	variables := map[string]bool{}
	for _, file := range []string{"../../../Makefile", "../../../Dockerfile"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := set.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Fatalf("%s gives no version", file)
		}
		for _, f := range found {
			variables[f[1]] = true
		}
	}
	for variable := range variables {
		out, err := exec.CommandContext(t.Context(), "go", "run", "-ldflags=-X "+variable+"=v1.2.3", "./testdata/tell").CombinedOutput()
		if err != nil || string(out) != "v1.2.3\n" {
			t.Errorf("with %s: %s, %v", variable, out, err)
		}
	}
}

// A program that is built in a clone, without the names that the linker gives, has the version that Go makes of the tag or the commit. Go knows no
// worktree of git (cmd/go/internal/vcs/vcs.go vcsGit, 1.26).
func TestBuiltInAClone(t *testing.T) {
	if info, err := os.Stat("../../../.git"); err != nil || !info.IsDir() {
		t.Skip("not a clone")
	}
	file := filepath.Join(t.TempDir(), "tell")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=true", "-o", file, "./testdata/tell").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), file).Output()
	if version := strings.TrimSpace(string(out)); err != nil || version == Unknown || version == "" {
		t.Errorf("got %q, %v", version, err)
	}
}
