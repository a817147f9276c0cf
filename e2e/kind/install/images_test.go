package install

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/e2e/kind"
	"github.com/podgrace/podgrace/internal/program/version"
)

// The images run as the user they are meant for, say their version, and hold a program that needs nothing else.
func TestImages(t *testing.T) {
	w := get(t)
	program := map[string]string{"webhook": version.Webhook, "podgrace": version.CommandLine, "nodeenforcer": version.NodeEnforcer, "volumelock": version.VolumeLock}
	for target, user := range map[string]string{"webhook": "65532:65532", "podgrace": "65532:65532", "nodeenforcer": "0:0", "volumelock": "65532:65532"} {
		t.Run(target, func(t *testing.T) {
			image := kind.Image(target, current)
			got, err := w.lab.Docker.Run(t.Context(), "image", "inspect", "--format={{.Config.User}} {{.Config.Entrypoint}} {{index .Config.Labels \"org.opencontainers.image.version\"}}", image)
			if err != nil {
				t.Fatal(err)
			}
			if want := user + " [/usr/local/bin/" + target + "] " + current; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			told, err := w.lab.Docker.Run(t.Context(), "run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL", image, "--version")
			if err != nil || !strings.HasPrefix(told, program[target]+" "+current+" (go") {
				t.Errorf("--version: %v\n%s", err, told)
			}
			out, err := w.lab.Docker.Run(t.Context(), "run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL", image, "--help")
			if err != nil || !strings.Contains(out, "Usage:") && target != "webhook" && target != "volumelock" {
				t.Errorf("--help: %v\n%s", err, out)
			}
		})
	}
}
