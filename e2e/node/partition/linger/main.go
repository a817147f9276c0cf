// Command linger is a workload that stops when it gets SIGTERM, at once or, with the argument "until-told", when it gets
// SIGUSR1 as well. Until then its process is named "stopping", which a test can see from outside, without a kubelet. It
// exits with 0 if it was given the time.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	stop, told := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	signal.Notify(told, syscall.SIGUSR1)
	<-stop
	if !slices.Contains(args, "until-told") {
		return nil
	}
	if err := os.WriteFile("/proc/self/comm", []byte("stopping"), 0); err != nil {
		return fmt.Errorf("rename the process: %w", err)
	}
	<-told
	return nil
}
