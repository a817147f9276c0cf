package memory

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The garbage collector is told of the container's limit, but for who told it himself.
func TestBound(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for name, tc := range map[string]struct {
		limit, own string
		want       int64
		err        string
	}{
		"not known":  {want: before},
		"512Mi":      {limit: "536870912", want: 536870912 / 10 * 9},
		"told by us": {limit: "536870912", own: "100MiB", want: before},
		"quantity":   {limit: "512Mi", want: before, err: `POD_MEMORY_LIMIT: "512Mi" is no number of bytes`},
		"zero":       {limit: "0", want: before, err: "is no number of bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(Variable, tc.limit)
			t.Setenv("GOMEMLIMIT", tc.own)
			debug.SetMemoryLimit(before)
			limit, err := Limit()
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("got %v, want %q", err, tc.err)
			}
			Bound(limit)
			if got := debug.SetMemoryLimit(-1); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// Each workload's container has a limit, and tells its program.
func TestManifests(t *testing.T) {
	for _, file := range []string{"webhook/deployment.yaml", "nodeenforcer/daemonset.yaml", "components/fencer/deployment.yaml", "components/volumelock/deployment.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		var workload struct {
			Spec struct{ Template corev1.PodTemplateSpec }
		}
		first, _, _ := strings.Cut(string(text), "\n---\n")
		if err := yaml.Unmarshal([]byte(first), &workload); err != nil {
			t.Fatal(err)
		}
		c := workload.Spec.Template.Spec.Containers[0]
		i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == Variable })
		if i < 0 || c.Env[i].ValueFrom == nil || c.Env[i].ValueFrom.ResourceFieldRef == nil || c.Env[i].ValueFrom.ResourceFieldRef.Resource != "limits.memory" || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: its limit is %v, its environment %v", file, c.Resources.Limits, c.Env)
		}
	}
}
