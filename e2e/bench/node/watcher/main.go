// Command watcher runs in a guest and prints, as JSON, what it saw of a hog's end (e2e/bench/node/watch).
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/podgrace/podgrace/e2e/bench/node/watch"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "watcher:", err)
		os.Exit(1)
	}
}

func run() error {
	o := watch.Options{Root: "/sys/fs/cgroup", Proc: "/proc"}
	flag.StringVar(&o.Pod, "pod", "", "folder of the pod's cgroup")
	flag.Int64Var(&o.Threshold, "threshold", 0, "bytes")
	timeout := flag.Duration("timeout", 2*time.Minute, "when to give up")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	seen, err := watch.Watch(ctx, o)
	if err != nil {
		return fmt.Errorf("%w; seen so far: %+v", err, seen)
	}
	return json.NewEncoder(os.Stdout).Encode(seen)
}
