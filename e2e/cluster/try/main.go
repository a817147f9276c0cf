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

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"terminationGracePeriodSeconds":5,"containers":[{"name":"c","image":"localhost/podgrace/pause:1","imagePullPolicy":"Never","resources":{"requests":{"cpu":"100m","memory":"32Mi"},"limits":{"memory":"64Mi"}}}]}}`
const static = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"st","namespace":"default"},"spec":{"containers":[{"name":"c","image":"localhost/podgrace/pause:1","imagePullPolicy":"Never"}]}}`

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	t := time.Now()
	lap := func(s string) { fmt.Printf("%6.2fs %s\n", time.Since(t).Seconds(), s) }
	full := len(os.Args) > 1
	c, err := cluster.Start(ctx, cluster.Options{ControllerManager: full, Scheduler: full, Log: os.Stdout})
	if err != nil {
		return err
	}
	lap("started")
	defer func() { lap("stopping"); fmt.Println("stop:", c.Stop()); lap("stopped") }()
	n, err := c.StartKubelet(ctx, cluster.KubeletOptions{Name: "k1", Labels: map[string]string{"node-role.kubernetes.io/x": "", "topology.kubernetes.io/zone": "a"}})
	if err != nil {
		return err
	}
	lap("node")
	kc := func(args ...string) error {
		o, e, err := c.Kubectl(ctx, args...)
		lap(fmt.Sprint(args, "\n", o, e, err))
		return err
	}
	kc("get", "nodes", "-o", "wide", "--show-labels")
	os.WriteFile("/tmp/p.json", []byte(pod), 0o644)
	kc("create", "-f", "/tmp/p.json")
	if !full {
		os.WriteFile("/tmp/b.json", []byte(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"apiVersion":"v1","kind":"Node","name":"k1"}}`), 0o644)
		kc("create", "--raw", "/api/v1/namespaces/default/pods/p/binding", "-f", "/tmp/b.json")
	}
	os.WriteFile(n.StaticPodDir+"/st.json", []byte(static), 0o644)
	kc("wait", "--for=condition=Ready", "pod/p", "--timeout=60s")
	kc("wait", "--for=create", "pod/st-k1", "--timeout=60s")
	kc("wait", "--for=condition=Ready", "pod/st-k1", "--timeout=60s")
	kc("get", "pods", "-o", "wide")
	kc("logs", "p")
	kc("get", "--raw", "/api/v1/nodes/k1/proxy/configz")
	if s := os.Getenv("WAIT"); s != "" {
		d, _ := time.ParseDuration(s)
		time.Sleep(d)
	}
	if os.Getenv("DIE") != "" {
		os.Exit(9)
	}
	kc("delete", "pod", "p")
	kc("get", "events", "-o", "custom-columns=R:.reason,M:.message")
	return nil
}
