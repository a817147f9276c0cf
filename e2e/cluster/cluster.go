package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// keepVariable, if set, keeps the cluster's folder after Stop: logs, audit log, kubeconfigs.
const keepVariable = "KEEP"

// Options say what runs in the cluster.
type Options struct {
	// ControllerManager runs the controllers. Service accounts then work as in a real cluster.
	ControllerManager bool
	// Scheduler runs the scheduler.
	Scheduler bool
	// EveryNode has the scheduler look at all nodes for each pod, not only at some where there are many (percentageOfNodesToScore).
	EveryNode bool
	// SharedControllerCredentials makes all controllers act as system:kube-controller-manager, as some
	// installers do, rather than each under its own service account.
	SharedControllerCredentials bool
	// AuditLog records writes of pods and workloads to the file Cluster.AuditLog.
	AuditLog bool
	// APIServerArgs are more flags, "--name=value"; a list-valued flag adds to what is set here.
	APIServerArgs []string
	// APIServerEnvironment are more variables, "NAME=value". One that RestartAPIServer started does not have them.
	APIServerEnvironment []string
	// ControllerManagerArgs are more flags, "--name=value"; the last one of a name counts.
	ControllerManagerArgs []string
	// NodeGrace is how long the node lifecycle controller waits for a node's heartbeat. Nodes of AddNode send one five times as often. 0: as by default, 50 s and each 10 s. A kubelet sends one each 10 s, whatever it is.
	NodeGrace time.Duration
	// Log gets progress lines; nil is silent.
	Log io.Writer
	// Dir holds what the cluster writes. The default is a temporary folder, removed by Stop unless the
	// environment variable KEEP is set.
	Dir string
}

// Programs are those that a cluster with these options runs, and kubectl.
func (o Options) Programs() []string {
	names := []string{"etcd", "kube-apiserver", "kubectl"}
	if o.ControllerManager {
		names = append(names, "kube-controller-manager")
	}
	if o.Scheduler {
		names = append(names, "kube-scheduler")
	}
	return names
}

// Cluster is a running control plane.
type Cluster struct {
	// Config is the administrator's client configuration.
	Config *rest.Config
	// Kubeconfig is the path of the administrator's kubeconfig; nothing in it refers to other files.
	Kubeconfig string
	// BinDir has the programs, Dir the cluster's files.
	BinDir, Dir string
	// AuditLog is the path of the audit log, one event a line; empty without Options.AuditLog. A line may
	// come a moment after the response that it is about.
	AuditLog string

	options   Options
	log       io.Writer
	removeDir bool
	authority *authority
	env       *envtest.Environment
	stopEnv   func() error
	client    kubernetes.Interface

	controllerManager, scheduler *process
	apiServer, etcd              *process // that were restarted

	// foreign means that it ran before and will run after: Connect.
	foreign bool

	mu         sync.Mutex
	stopping   bool
	heartbeats map[string]heartbeat
	nodes      []interface{ Stop() error }
	added      []string // names of nodes without a kubelet
}

// Start starts a control plane and returns when it is ready. The context bounds the start only: the cluster
// runs until Stop, or until this process ends.
func Start(ctx context.Context, options Options) (_ *Cluster, err error) {
	c := &Cluster{options: options, log: options.Log, heartbeats: map[string]heartbeat{}}
	if c.log == nil {
		c.log = io.Discard
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	quiet()
	begin := time.Now()
	for _, step := range []func(context.Context) error{
		c.findPrograms, c.makeDir, c.startAPIServer, c.startControllerManager, c.startScheduler, c.waitReady,
	} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("starting a cluster: %w", err)
		}
	}
	fmt.Fprintf(c.log, "control plane ready after %.1fs: %s\n", time.Since(begin).Seconds(), c.Kubeconfig)
	return c, nil
}

// quiet keeps envtest, which logs through controller-runtime, from printing after 30 s that nobody set a logger.
var quiet = sync.OnceFunc(func() { ctrllog.SetLogger(logr.Discard()) })

// Stop ends everything that this cluster started, in the reverse order, and removes its files.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	for _, h := range c.heartbeats {
		h.stop()
	}
	c.stopping = true
	nodes, added, scheduler := c.nodes, c.added, c.scheduler
	c.nodes, c.added, c.heartbeats = nil, nil, map[string]heartbeat{}
	c.mu.Unlock()
	var errs []error
	if c.foreign {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		errs = append(errs, c.removeNodes(ctx, added))
	}
	for _, node := range nodes {
		errs = append(errs, node.Stop())
	}
	errs = append(errs, scheduler.stop(), c.controllerManager.stop(), c.apiServer.stop())
	if c.stopEnv != nil {
		errs = append(errs, c.stopEnv())
		c.stopEnv = nil
	}
	errs = append(errs, c.etcd.stop()) // an API server without etcd does not end
	if c.removeDir && os.Getenv(keepVariable) == "" {
		errs = append(errs, os.RemoveAll(c.Dir))
	}
	return errors.Join(errs...)
}

// User returns a client configuration for a user with these groups; system:authenticated comes by itself.
func (c *Cluster) User(name string, groups ...string) (*rest.Config, error) {
	if c.foreign {
		return c.impersonated(name, groups), nil
	}
	user, err := c.addUser(name, groups...)
	if err != nil {
		return nil, err
	}
	return user.Config(), nil
}

// KubeconfigFor writes a kubeconfig for a user and returns its path.
func (c *Cluster) KubeconfigFor(user string, groups ...string) (string, error) {
	text, err := c.kubeconfigOf(user, groups)
	if err != nil {
		return "", fmt.Errorf("making the kubeconfig of %s: %w", user, err)
	}
	path := filepath.Join(c.Dir, fileName(user)+".kubeconfig")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return path, nil
}

// TokenKubeconfig writes a kubeconfig with a token of a service account, as its pods have one, and returns its path. The API server remembers a token for some seconds; a client certificate it verifies with each
// request, which costs more than many a read.
func (c *Cluster) TokenKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	day := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 60 * 60))}}
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, day, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of service account %s/%s: %w", namespace, name, err)
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	path := filepath.Join(c.Dir, namespace+"-"+name+"-token.kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of service account %s/%s: %w", namespace, name, err)
	}
	return path, nil
}

func (c *Cluster) kubeconfigOf(user string, groups []string) ([]byte, error) {
	if c.foreign {
		return c.impersonatedKubeconfig(user, groups)
	}
	added, err := c.addUser(user, groups...)
	if err != nil {
		return nil, err
	}
	return added.KubeConfig()
}

// Redirect writes a kubeconfig to path that is another one's but for the API server's URL.
func Redirect(kubeconfig, url, path string) error {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return fmt.Errorf("redirecting %s: %w", kubeconfig, err)
	}
	for _, to := range config.Clusters {
		to.Server = url
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("redirecting %s: %w", kubeconfig, err)
	}
	return nil
}

// What no client of a test should wait for is its own rate limit.
const userQPS, userBurst = 1000, 2000

// addUser issues the user's certificate.
func (c *Cluster) addUser(name string, groups ...string) (*envtest.AuthenticatedUser, error) {
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{QPS: userQPS, Burst: userBurst})
	if err != nil {
		return nil, fmt.Errorf("adding user %s: %w", name, err)
	}
	return user, nil
}

// Kubectl runs kubectl as the administrator. The error, if any, has what kubectl wrote to standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := Answered(ctx)
	defer cancel()
	var out, errOut bytes.Buffer
	flags := []string{"--kubeconfig=" + c.Kubeconfig, "--cache-dir=" + filepath.Join(c.Dir, "kubectl-cache")}
	cmd := exec.CommandContext(ctx, filepath.Join(c.BinDir, "kubectl"), append(flags, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("kubectl %q: %w: %s", args, cmp.Or(context.Cause(ctx), err), Tail(errOut.Bytes(), 5))
	}
	return out.String(), errOut.String(), err
}

func (c *Cluster) findPrograms(ctx context.Context) (err error) {
	c.BinDir, err = Binaries(ctx, c.log, c.options.Programs()...)
	return err
}

func (c *Cluster) makeDir(context.Context) (err error) {
	c.Dir = c.options.Dir
	if c.Dir == "" {
		if c.Dir, err = os.MkdirTemp("", "podgrace-"); err != nil {
			return fmt.Errorf("making the cluster's folder: %w", err)
		}
		c.removeDir = true
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return fmt.Errorf("making the cluster's folder: %w", err)
	}
	for _, sub := range []string{"pki", "etcd", "bin", "log"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, sub), 0o755); err != nil {
			return fmt.Errorf("making the cluster's folder: %w", err)
		}
	}
	return nil
}

// waitReady returns when the API server is ready and has created Kubernetes' own namespaces and, with controllers, pods can be created in namespace default.
func (c *Cluster) waitReady(ctx context.Context) error {
	err := Until(ctx, "the API server", func(ctx context.Context) (bool, error) {
		return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	})
	if err == nil { // the API server is ready before it has created them, and manifests have a Role there
		err = Until(ctx, "the namespace of the nodes' Leases", func(ctx context.Context) (bool, error) {
			_, err := c.client.CoreV1().Namespaces().Get(ctx, corev1.NamespaceNodeLease, metav1.GetOptions{})
			return err == nil, nil
		})
	}
	if err != nil || !c.options.ControllerManager {
		return err
	}
	return Until(ctx, "the default service account", func(ctx context.Context) (bool, error) {
		_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}, c.children()...)
}

// children are the processes that must be alive while the cluster is.
func (c *Cluster) children() []*process {
	var all []*process
	for _, p := range []*process{c.controllerManager, c.scheduler} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// onThread runs start on a thread which lives until stop has run: see process.run for why. The thread's
// goroutine runs both, one after the other.
func onThread(start, stop func() error) (stopOnce func() error, err error) {
	started, stopping, stopped := make(chan error), make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- start()
		<-stopping
		stopped <- stop()
	}()
	err = <-started
	return func() error { close(stopping); return <-stopped }, err
}

var notInFileName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// fileName turns a user such as system:node:a into a file's name.
func fileName(user string) string { return notInFileName.ReplaceAllString(user, "-") }
