package measure

import (
	"os/exec"
	"syscall"
	"time"
)

// Usage is what a process used from its start to its end.
type Usage struct {
	Took time.Duration
	// Processor is the time of all processors, the kernel's included.
	Processor time.Duration
	// Peak is the largest resident set, in bytes.
	Peak int64
}

// Run runs a command. One that ends with an exit code of its own was measured all the same.
func Run(cmd *exec.Cmd) (Usage, error) {
	began := time.Now()
	err := cmd.Run()
	u := Usage{Took: time.Since(began)}
	if cmd.ProcessState == nil {
		return u, err
	}
	u.Processor = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.Peak = usage.Maxrss << 10
	}
	return u, err
}
