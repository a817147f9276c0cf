package vm

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/vm"
	"github.com/podgrace/podgrace/e2e/vm/guesttest"
)

// kernelTest is the test binary in the guest.
const kernelTest = "/var/tmp/kernel.test"

// What package kernel has for a machine that systemd has booted. It works on slices of its own, beside the kubelet's, and has systemd
// reload: what the kubelet set stays, but for memory.oom.group, which is no property of systemd's.
func TestSystemd(t *testing.T) {
	g := start(t)
	binary := filepath.Join(t.TempDir(), "kernel.test")
	if err := cluster.GoTestBinary(t.Context(), binary, "e2e/vm/kernel"); err != nil {
		t.Fatal(err)
	}
	if err := g.node.Copy(t.Context(), binary, kernelTest, 0o755); err != nil {
		t.Fatal(err)
	}
	p := g.Pod(g.Namespace(t), "beside", cluster.PauseImage, "250m/64Mi", "250m/64Mi", nil)
	g.Running(t, p)
	files := func() string {
		const names = "{cpu.weight,cpu.max,memory.max,memory.high,memory.low,memory.min,pids.max,cpuset.cpus}"
		return g.script(t, "cd "+vm.Kubepods+" && grep --with-filename '' "+names+" && cd "+vm.PodCgroup(p)+" && grep --recursive '' . --include="+names+" | sort")
	}
	before := files()
	var output string
	var err error
	g.keepingOOMGroups(t, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 21*time.Minute)
		defer cancel()
		output, err = g.node.Run(ctx, "cd /var/tmp && ./"+filepath.Base(kernelTest)+" "+guesttest.Verbose+" -test.run=^TestSystemd -test.timeout=20m")
	})
	exit, failed := errors.AsType[*vm.ExitError](err)
	if err != nil && !failed {
		t.Fatal(err)
	}
	guesttest.Report(t, []byte(output))
	if failed && !t.Failed() {
		t.Errorf("no test failed, but the binary's exit status is %d", exit.Status)
	}
	if diff := cmp.Diff(before, files()); diff != "" {
		t.Errorf("the kubelet's files changed (-before +after):\n%s", diff)
	}
	g.script(t, "rm "+kernelTest)
}
