package box

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
)

// factsVariable names the file that the process inside writes.
const factsVariable = "PODGRACE_BOX_FACTS"

// facts are what the process inside sees.
type facts struct {
	PID        int
	Interfaces []string
}

func TestMain(m *testing.M) {
	if !Inside() {
		os.Exit(m.Run())
	}
	if err := inside(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(7)
}

// inside leaves a process and a mount behind.
func inside() error {
	if err := Furnish(context.Background()); err != nil {
		return err
	}
	file := os.Getenv(factsVariable)
	if err := exec.Command("sleep", "600").Start(); err != nil {
		return err
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "tmpfs", filepath.Dir(file)+"/mounted").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	seen := facts{PID: os.Getpid()}
	for _, i := range interfaces {
		seen.Interfaces = append(seen.Interfaces, i.Name)
	}
	text, err := json.Marshal(seen)
	return errors.Join(err, os.WriteFile(file, text, 0o600))
}

func TestRun(t *testing.T) {
	clustertest.Require(t, root())
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "mounted"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(factsVariable, filepath.Join(dir, "facts"))
	code, err := Run(t.Context())
	if err != nil || code != 7 {
		t.Fatalf("got exit code %d, %v", code, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "facts"))
	if err != nil {
		t.Fatal(err)
	}
	var got facts
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(facts{PID: 1, Interfaces: []string{"lo"}}, got); d != "" {
		t.Errorf("inside, want (-), got (+):\n%s", d)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || bytes.Contains(mounts, []byte(dir)) {
		t.Errorf("a mount of the box is seen outside (%v)", err)
	}
	if left := processesWith(t, filepath.Join(dir, "facts")); len(left) > 0 {
		t.Errorf("processes of the box are left: %v", left)
	}
}

// A box whose context ends is gone.
func TestRunEndsWithItsContext(t *testing.T) {
	clustertest.Require(t, root())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func root() error {
	if os.Geteuid() != 0 {
		return errors.New("namespaces need root")
	}
	return nil
}

// processesWith lists the processes, but for this one, with a text in their environment.
func processesWith(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		environment, err := os.ReadFile(file)
		if err == nil && bytes.Contains(environment, []byte(text)) && filepath.Base(filepath.Dir(file)) != fmt.Sprint(os.Getpid()) {
			found = append(found, filepath.Dir(file))
		}
	}
	return found
}
