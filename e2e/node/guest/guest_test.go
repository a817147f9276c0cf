package guest

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/vm"
	"github.com/podgrace/podgrace/e2e/vm/guesttest"
)

// Whatever package kernel has for a bare machine, each under its own name.
func TestGuest(t *testing.T) {
	clustertest.Require(t, "virtual machine", vm.GuestSupported())
	binary := filepath.Join(t.TempDir(), "kernel.test")
	if err := cluster.GoTestBinary(t.Context(), binary, "e2e/vm/kernel"); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	code, err := vm.RunGuest(t.Context(), vm.GuestOptions{
		Binary: binary,
		Args:   []string{guesttest.Verbose, "-test.run=^Test(V2|Pressure)", "-test.timeout=20m"},
		Output: io.MultiWriter(&text, t.Output()),
	})
	if err != nil {
		t.Fatal(err)
	}
	guesttest.Report(t, text.Bytes())
	if code != 0 && !t.Failed() {
		t.Errorf("no test failed, but the binary's exit code is %d", code)
	}
}
