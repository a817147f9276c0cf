package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
)

// RestartAPIServer kills the API server as the kernel's OOM killer would, starts it again with the arguments that it had, and returns
// when it is ready. etcd stays. The scheduler and the controller manager are kept running from then on.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	var err error
	if c.apiServer, err = again(ctx, "the API server", "--cert-dir="+c.env.ControlPlane.APIServer.CertDir, "kube-apiserver-again", c.logPath("kube-apiserver-again")); err != nil {
		return err
	}
	c.keepComponents()
	return c.apiServerReady(ctx, c.apiServer)
}

// RestartEtcd kills etcd as the kernel's OOM killer would, starts it again with the arguments that it had, and returns when the API server, which stays, is ready again. The scheduler and
// the controller manager are kept running from then on.
func (c *Cluster) RestartEtcd(ctx context.Context) error {
	var err error
	if c.etcd, err = again(ctx, "etcd", "--data-dir="+c.env.ControlPlane.Etcd.DataDir, "etcd-again", c.logPath("etcd-again")); err != nil {
		return err
	}
	c.keepComponents()
	return c.apiServerReady(ctx, c.etcd)
}

// again kills the child of this process that has an argument, and starts it again with those that it had.
func again(ctx context.Context, what, arg, name, logPath string) (*process, error) {
	pid, args, err := childWith(arg)
	if err != nil {
		return nil, fmt.Errorf("restart %s: %w", what, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return nil, fmt.Errorf("kill %s: %w", what, err)
	}
	// Whoever started it waits for it. Until then threads of it may still hold the port.
	gone := func(context.Context) (bool, error) {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH), nil
	}
	if err := Until(ctx, "the end of "+what, gone); err != nil {
		return nil, err
	}
	return startProcess(name, logPath, args[0], args[1:]...)
}

// apiServerReady returns when the API server is ready after something was restarted.
func (c *Cluster) apiServerReady(ctx context.Context, restarted *process) error {
	kube, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return Until(ctx, "the API server to be ready again", func(ctx context.Context) (bool, error) {
		return kube.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	}, restarted)
}

// RestartControllerManager kills the controller manager as the kernel's OOM killer would, starts it again, and returns when it is healthy: what its controllers only had in memory is gone. It is kept
// running from then on, also where it ends while it starts, because the API server is away too.
func (c *Cluster) RestartControllerManager(ctx context.Context) error {
	if !c.options.ControllerManager {
		return errors.New("restart the controller manager: this cluster has none")
	}
	return c.restart(ctx, "the controller manager", &c.controllerManager, c.startControllerManager)
}

// ShareControllerCredentials restarts the controller manager with Options.SharedControllerCredentials as given, if it is not so already.
func (c *Cluster) ShareControllerCredentials(ctx context.Context, shared bool) error {
	c.mu.Lock() // whoever starts the controller manager has it
	was := c.options.SharedControllerCredentials
	c.options.SharedControllerCredentials = shared
	c.mu.Unlock()
	if was == shared {
		return nil
	}
	return c.RestartControllerManager(ctx)
}

// restart kills a component, keeps it running from then on, and returns when it is healthy again.
func (c *Cluster) restart(ctx context.Context, what string, component **process, start func(context.Context) error) error {
	was, err := c.kill(component)
	if err != nil {
		return fmt.Errorf("restart %s: %w", what, err)
	}
	if was != nil { // else who keeps it running is about to start it
		go c.keep(component, was, start)
	}
	return Until(ctx, what+" to be healthy again", func(context.Context) (bool, error) {
		c.mu.Lock() // whoever starts it has the lock until it is healthy
		defer c.mu.Unlock()
		return *component != nil && *component != was, nil
	})
}

// kill kills a component, and returns what it killed: nil, if it has ended by itself and could not be started again so far.
func (c *Cluster) kill(component **process) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := *component
	if was == nil {
		return nil, nil
	}
	return was, was.Kill()
}

// keepComponents starts the scheduler and the controller manager again from now on when they end, as a kubelet does. Both may end of what cuts watches, or takes the API server away. The scheduler of
// 1.36.3 ends where a pod that was bound was deleted, and recreated under its name, while its watch was cut (pkg/scheduler/backend/cache/cache.go UpdatePod: it takes the two for one); a controller
// manager that is just starting ends where an API server that does not know its roles yet forbids it to read a ServiceAccount.
func (c *Cluster) keepComponents() {
	c.keepRunning(&c.scheduler, c.startScheduler)
	c.keepRunning(&c.controllerManager, c.startControllerManager)
}

// keepRunning starts a component again when it ends, until the cluster is stopped, if there is one.
func (c *Cluster) keepRunning(component **process, start func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *component != nil {
		go c.keep(component, *component, start)
	}
}

// keep is keepRunning for the process that it is now. A start that fails is tried again: what ended the component, such as an API server that is away, may last.
func (c *Cluster) keep(component **process, p *process, start func(context.Context) error) {
	for {
		if p != nil { // else it could not be started
			<-p.exited
		}
		began := time.Now()
		c.mu.Lock()
		if c.stopping || *component != p { // another one is kept already
			c.mu.Unlock()
			return
		}
		if p != nil {
			fmt.Fprintf(c.log, "starting a component again: %v\n", p.failure())
		}
		err := start(context.Background())
		p = *component
		c.mu.Unlock()
		if err != nil {
			fmt.Fprintf(c.log, "failed to start it again: %v\n", err)
			time.Sleep(Pause(time.Since(began))) // without the lock: others need it
		}
	}
}

// childWith finds the child of this process that has an argument.
func childWith(arg string) (pid int, args []string, err error) {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, nil, fmt.Errorf("list processes: %w", err)
	}
	for _, dir := range processes {
		status, _ := os.ReadFile(filepath.Join(dir, "status"))
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		args := strings.Split(strings.TrimSuffix(string(command), "\x00"), "\x00")
		if strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) && slices.Contains(args, arg) {
			pid, err := strconv.Atoi(filepath.Base(dir))
			return pid, args, err
		}
	}
	return 0, nil, errors.New("no child of this process has the argument " + arg)
}
