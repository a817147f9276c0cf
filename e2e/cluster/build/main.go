// Command build builds the programs of Kubernetes that tests need into the user's cache folder, unless they are there already.
//
//	go run -C e2e ./cluster/build control-plane|node
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/podgrace/podgrace/e2e/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("name one of control-plane and node")
	}
	names := map[string][]string{
		"control-plane": cluster.Options{ControllerManager: true, Scheduler: true}.Programs(),
		"node":          {"kubelet", "kubeadm", "kube-proxy"},
	}[args[0]]
	if names == nil {
		return fmt.Errorf("invalid name %q: must be control-plane or node", args[0])
	}
	_, err := cluster.Binaries(ctx, os.Stdout, names...)
	return err
}
