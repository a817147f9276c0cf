package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/e2e/cluster"
)

func main() {
	if err := run(); err != nil {
		fmt.Println("ERR", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	t := time.Now()
	lap := func(s string) { fmt.Printf("%6.2fs %s\n", time.Since(t).Seconds(), s) }
	full := len(os.Args) > 1
	c, err := cluster.Start(ctx, cluster.Options{ControllerManager: full, Scheduler: full, AuditLog: true, Log: os.Stdout, APIServerArgs: []string{os.Getenv("ARG")}})
	if err != nil {
		return err
	}
	lap("started")
	defer func() { lap("stopping"); fmt.Println("stop:", c.Stop()); lap("stopped") }()
	for _, n := range []string{"a", "b"} {
		if err := c.AddNode(ctx, n, map[string]string{"topology.kubernetes.io/zone": "z" + n}, corev1.Taint{Key: "x", Effect: "PreferNoSchedule"}); err != nil {
			return err
		}
	}
	lap("nodes")
	kc := func(args ...string) error {
		o, e, err := c.Kubectl(ctx, args...)
		lap(fmt.Sprint(args, "\n", o, e, err))
		return err
	}
	kc("get", "nodes", "-o", "custom-columns=N:.metadata.name,T:.spec.taints")
	kc("version")
	u, err := c.User("alice", "devs")
	if err != nil {
		return err
	}
	_ = u
	kc("auth", "whoami", "--as", "bob")
	if full {
		kc("create", "deployment", "web", "--image", "x", "--replicas", "4")
		kc("wait", "--for=condition=PodScheduled", "pod", "--all", "--timeout=30s")
		kc("get", "pods", "-o", "wide")
		kc("get", "sa,cm")
	}
	if s := os.Getenv("WAIT"); s != "" {
		d, _ := time.ParseDuration(s)
		time.Sleep(d)
		kc("get", "nodes")
	}
	b, _ := os.ReadFile(c.AuditLog)
	fmt.Println("audit bytes", len(b), string(b[:min(len(b), 600)]))
	return nil
}
