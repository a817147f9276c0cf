package podgrace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// Replica is one of a program that watches the cluster and serves nobody: the fencer, the volume lock, the node enforcer of a node.
type Replica struct {
	// MetricsURL serves /metrics, HealthURL /readyz, LogPath is the file with what it logs.
	MetricsURL, HealthURL, LogPath string

	name  string
	child *cluster.Process
}

// startReplica starts one on this machine, and returns when it is ready. It may not lead yet.
func startReplica(ctx context.Context, c *cluster.Cluster, name, program, kubeconfig string, args ...string) (*Replica, error) {
	r, err := LaunchReplica(c, name, program, kubeconfig, args...)
	if err != nil {
		return nil, err
	}
	if err := r.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

// LaunchReplica starts one on this machine, and does not wait until it is ready.
func LaunchReplica(c *cluster.Cluster, name, program, kubeconfig string, args ...string) (*Replica, error) {
	return launch(c, name, program, kubeconfig, append([]string{"--namespace", "podgrace-system"}, args...)...)
}

// launch is LaunchReplica for a program that need not know Podgrace's namespace.
func launch(c *cluster.Cluster, name, program, kubeconfig string, args ...string) (*Replica, error) {
	ports, err := cluster.FreePorts(2)
	if err != nil {
		return nil, err
	}
	r := &Replica{
		MetricsURL: "http://127.0.0.1:" + ports[1], HealthURL: "http://127.0.0.1:" + ports[0], LogPath: filepath.Join(c.Dir, "log", name+"-"+ports[0]+".log"), name: name,
	}
	args = append([]string{"--kubeconfig", kubeconfig, "--bind-address", "127.0.0.1", "--health-port", ports[0], "--metrics-port", ports[1]}, args...)
	if r.child, err = cluster.StartProcess(name, r.LogPath, program, args...); err != nil {
		return nil, err
	}
	return r, nil
}

// WaitReady returns when it is ready.
func (r *Replica) WaitReady(ctx context.Context) error {
	return waitReady(ctx, r.name, r.child, r.HealthURL)
}

// PID is its process.
func (r *Replica) PID() int { return r.child.PID() }

// Exited returns nil while it runs, and afterwards why it ended.
func (r *Replica) Exited() error { return r.child.Exited() }

// Kill ends it by SIGKILL: it gives nothing back, and what it was doing is not ended.
func (r *Replica) Kill() error { return r.child.Kill() }

// Stop ends it.
func (r *Replica) Stop() error {
	if err := r.child.Stop(); err != nil {
		return errors.Join(err, fmt.Errorf("its log is %s", r.LogPath))
	}
	return nil
}
