package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asProgram makes the test binary be the program.
const asProgram = "PODGRACE_TEST_AS_PROGRAM"

// program is the program itself, in a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

func TestSignalsEndWhatWaitsForInput(t *testing.T) {
	for name, test := range map[string]struct {
		sig  syscall.Signal
		args string
	}{
		"Ctrl-C":                {syscall.SIGINT, "review -f"},
		"SIGTERM":               {syscall.SIGTERM, "review -f"},
		"waiting for a policy":  {syscall.SIGINT, "review -f deploy --policy"},
		"waiting for the state": {syscall.SIGTERM, "explain web -f deploy --state"},
		"waiting for a side":    {syscall.SIGINT, "diff --from none -f deploy --to"},
	} {
		t.Run(name, func(t *testing.T) {
			inTree(t)
			sig := test.sig
			pipe := filepath.Join(t.TempDir(), "pipe.yaml")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := program(t, append(strings.Fields(test.args), pipe)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			// It opens once the program does: from then on that waits for a text that nobody writes.
			writer, err := os.OpenFile(pipe, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer writer.Close()
			if _, err := io.WriteString(writer, "kind: "); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
			case <-time.After(time.Minute): // it will never end
				_ = cmd.Process.Kill()
				<-ended
			}
			if status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != sig {
				t.Errorf("ended by %v", cmd.ProcessState)
			}
		})
	}
}
