package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// released runs deploy/release, and returns the folder with the chart and install.yaml.
func released(t *testing.T, registry string) (string, error) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "release")
	text, err := exec.CommandContext(t.Context(), manifests+"/release", "1.2.3", registry, out).CombinedOutput()
	if err != nil {
		t.Log(string(text))
	}
	return out, err
}

// A released chart needs no value and names no path of a clone. The chart and install.yaml have the images of the release and no other.
func TestReleasedChart(t *testing.T) {
	out, err := released(t, "registry.example.com/podgrace")
	if err != nil {
		t.Fatal(err)
	}
	chart := filepath.Join(out, "podgrace-1.2.3.tgz")
	rendered, err := helm(t, "template", "podgrace", chart, "--namespace="+namespace, "--set=nodeEnforcer.enabled=true,fencer.enabled=true,volumeLock.enabled=true")
	if err != nil {
		t.Fatal(err, rendered)
	}
	install, err := os.ReadFile(filepath.Join(out, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		text     string
		programs []string
	}{
		"chart":        {rendered, []string{"fencer", "nodeenforcer", "volumelock", "webhook"}},
		"install.yaml": {string(install), []string{"webhook"}},
	} {
		var got, want []string
		for line := range strings.Lines(test.text) {
			if image, found := strings.CutPrefix(strings.TrimLeft(line, " -"), "image: "); found {
				got = append(got, strings.Trim(strings.TrimSpace(image), `"`))
			}
		}
		for _, program := range test.programs {
			want = append(want, "registry.example.com/podgrace/"+program+":v1.2.3")
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s has the images %q, want %q", name, got, want)
		}
	}
	all, err := exec.CommandContext(t.Context(), "tar", "--extract", "--to-stdout", "--file", chart).Output()
	if err != nil {
		t.Fatal(err)
	}
	shown := string(all)
	for _, want := range []string{"\nversion: 1.2.3\n", "\nappVersion: v1.2.3\n", "helm install podgrace oci://registry.example.com/podgrace/charts/podgrace --version=1.2.3 ", "https://github.com/podgrace/podgrace/blob/v1.2.3/docs/install.md"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the chart does not have %q", want)
		}
	}
	for _, wrong := range []string{"../docs", " docs/", "(docs/", " deploy/", "(deploy/", " examples/", "(examples/"} {
		for line := range strings.Lines(shown) {
			if strings.Contains(line, wrong) {
				t.Errorf("the chart has a path of a clone: %s", line)
			}
		}
	}
}

// The repositories in the chart's values begin with podgrace/.
func TestReleaseRefusesAnotherRegistry(t *testing.T) {
	if _, err := released(t, "registry.example.com/other"); err == nil {
		t.Error("a chart was made that names images of another repository")
	}
}

// Whoever pushes a tag chooses its name. Only names of versions are taken, and neither make nor its shell runs what a name holds.
func TestReleaseTakesOnlyVersions(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	for _, version := range []string{"1.2.3", "v1.2", "v1.2.3+x", "v1.2.3 x", "v1.2.3';touch${IFS}" + ran + ";'", "v1.2.3$(shell touch " + ran + ")", "v1.2.3\";touch${IFS}" + ran + ";\"", "v1.2.3`touch${IFS}" + ran + "`"} {
		for _, target := range []string{"release", "publish"} {
			c := exec.CommandContext(t.Context(), "make", "-C", "../..", target)
			c.Env = []string{"PATH=" + os.Getenv("PATH"), "VERSION=" + version} // a make that runs this test would hand its own variables on
			if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "VERSION is no tag like v1.2.3") {
				t.Errorf("make %s VERSION=%s: %v, %s", target, version, err, out)
			}
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("make ran what the name of a tag holds")
	}
}
