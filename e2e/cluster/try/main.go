package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
)

func main() {
	if err := run(); err != nil {
		fmt.Println("ERR", err)
		os.Exit(1)
	}
}

const pod = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"p"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"p"}},"template":{"metadata":{"labels":{"a":"p"}},"spec":{"terminationGracePeriodSeconds":5,"containers":[{"name":"c","image":"localhost/podgrace/pause:1","imagePullPolicy":"Never","resources":{"requests":{"cpu":"100m","memory":"32Mi"},"limits":{"memory":"64Mi"}}}]}}}}`

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	t := time.Now()
	lap := func(s string) { fmt.Printf("%6.2fs %s\n", time.Since(t).Seconds(), s) }
	c, err := cluster.Start(ctx, cluster.Options{ControllerManager: true, Scheduler: true, SharedControllerCredentials: true, AuditLog: true, Log: os.Stdout})
	if err != nil {
		return err
	}
	defer func() { lap("stopping"); fmt.Println("stop:", c.Stop()); lap("stopped") }()
	n, err := c.StartKubelet(ctx, cluster.KubeletOptions{Config: map[string]any{"maxPods": 7}})
	if err != nil {
		return err
	}
	lap("node")
	kc := func(args ...string) error {
		o, e, err := c.Kubectl(ctx, args...)
		lap(fmt.Sprint(args, "\n", o, e, err))
		return err
	}
	os.WriteFile("/tmp/p.json", []byte(pod), 0o644)
	kc("create", "-f", "/tmp/p.json")
	kc("wait", "--for=condition=Available", "deploy/p", "--timeout=60s")
	fmt.Println(n.StopKubelet())
	lap("kubelet stopped")
	kc("delete", "deploy", "p", "--wait=false")
	kc("wait", "--for=delete", "pod", "-l", "a=p", "--timeout=3s")
	fmt.Println(n.RestartKubelet(ctx))
	lap("kubelet started")
	kc("wait", "--for=delete", "pod", "-l", "a=p", "--timeout=60s")
	kc("get", "pods")
	kc("get", "nodes", "-o", "custom-columns=P:.status.capacity.pods,T:.spec.taints")
	b, _ := os.ReadFile(c.AuditLog)
	os.WriteFile("/tmp/audit.out", b, 0o644)
	if os.Getenv("BLOCK") != "" {
		os.WriteFile("/tmp/blocked", nil, 0o644)
		time.Sleep(100 * time.Second)
	}
	return nil
}
