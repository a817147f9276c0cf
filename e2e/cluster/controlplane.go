package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// What every control plane is started with besides, to see what a later version will have on by default:
const (
	// GatesVariable has feature gates of the API server, the controller manager and the scheduler: "A=true,B=false".
	GatesVariable = "PODGRACE_FEATURE_GATES"
	// RuntimeConfigVariable has API versions that the API server serves besides: "scheduling.k8s.io/v1alpha2=true".
	RuntimeConfigVariable = "PODGRACE_RUNTIME_CONFIG"
)

// loopback is where the control plane listens.
const loopback = "127.0.0.1"

// serviceCIDR is what ClusterIPs are taken from. Nothing serves them: there is no kube-proxy.
const serviceCIDR = "10.96.0.0/16"

// auditPolicy records who wrote pods and what makes pods, once per request.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
omitManagedFields: true
rules:
- level: None
  verbs: [get, list, watch]
# The response has the name of a pod whose name was generated.
- level: RequestResponse
  verbs: [create]
  resources: [{group: "", resources: [pods]}]
- level: Metadata
  resources:
  - {group: "", resources: [pods, pods/*, replicationcontrollers, replicationcontrollers/*]}
  - {group: apps, resources: ["*"]}
  - {group: batch, resources: ["*"]}
- level: None
`

// startAPIServer starts etcd and kube-apiserver by envtest, with what envtest leaves out or turns off.
func (c *Cluster) startAPIServer(context.Context) (err error) {
	if c.authority, err = newAuthority("podgrace-test"); err != nil {
		return err
	}
	pki := filepath.Join(c.Dir, "pki")
	if err := c.authority.write(pki); err != nil {
		return err
	}
	if c.env, err = c.environment(pki); err != nil {
		return err
	}
	if err := c.configureAPIServer(pki, c.env.ControlPlane.APIServer.Configure()); err != nil {
		return err
	}
	logs, err := c.attachLogs()
	if err != nil {
		return err
	}
	defer closeAll(logs)
	stop, err := onThread(func() error { _, err := c.env.Start(); return err }, c.env.Stop)
	c.stopEnv = stop
	if err != nil {
		return fmt.Errorf("%w; the end of the API server's log:\n%s", err, c.logTail("kube-apiserver"))
	}
	return c.connect(pki)
}

// environment describes etcd and the API server to envtest.
func (c *Cluster) environment(pki string) (*envtest.Environment, error) {
	bin := filepath.Join(c.Dir, "bin")
	etcd, err := dyingWithUs(bin, filepath.Join(c.BinDir, "etcd"))
	if err != nil {
		return nil, err
	}
	apiServer, err := dyingWithUs(bin, filepath.Join(c.BinDir, "kube-apiserver"), c.options.APIServerEnvironment...)
	if err != nil {
		return nil, err
	}
	existing := false // whatever USE_EXISTING_CLUSTER says: we break what we are given
	return &envtest.Environment{
		UseExistingCluster:       &existing,
		ControlPlaneStartTimeout: waitTimeout,
		ControlPlaneStopTimeout:  waitTimeout,
		ControlPlane: envtest.ControlPlane{
			Etcd: &envtest.Etcd{Path: etcd, DataDir: filepath.Join(c.Dir, "etcd")},
			APIServer: &envtest.APIServer{
				Path:    apiServer,
				CertDir: pki,
				SecureServing: envtest.SecureServing{
					ListenAddr: envtest.ListenAddr{Address: loopback},
					Authn:      &authn{authority: c.authority, caFile: filepath.Join(pki, "ca.crt")},
				},
			},
			KubectlPath: filepath.Join(c.BinDir, "kubectl"),
		},
	}, nil
}

// configureAPIServer sets the flags in which a real cluster differs from envtest's defaults.
func (c *Cluster) configureAPIServer(pki string, args *envtest.Arguments) error {
	certPEM, keyPEM, err := c.authority.client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	if err := writePair(pki, "kubelet-client", certPEM, keyPEM); err != nil {
		return err
	}
	args.Set("authorization-mode", "Node", "RBAC").
		Set("enable-admission-plugins", "NodeRestriction").
		Set("service-cluster-ip-range", serviceCIDR).
		Set("service-account-issuer", "https://kubernetes.default.svc.cluster.local").
		Set("advertise-address", loopback).
		// An endpoint on loopback is invalid; without a reconciler there is none.
		Set("endpoint-reconciler-type", "none").
		Set("kubelet-preferred-address-types", "InternalIP").
		Set("kubelet-certificate-authority", filepath.Join(pki, "ca.crt")).
		Set("kubelet-client-certificate", filepath.Join(pki, "kubelet-client.crt")).
		Set("kubelet-client-key", filepath.Join(pki, "kubelet-client.key"))
	if c.options.ControllerManager {
		// Somebody makes the service accounts that this plugin wants, so it can be on as everywhere.
		args.Disable("disable-admission-plugins")
	}
	if c.options.AuditLog {
		if err := c.configureAudit(args); err != nil {
			return err
		}
	}
	for name, variable := range map[string]string{"feature-gates": GatesVariable, "runtime-config": RuntimeConfigVariable} {
		if value := os.Getenv(variable); value != "" {
			args.Append(name, value)
		}
	}
	for _, arg := range c.options.APIServerArgs {
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !hasValue {
			value = "true"
		}
		args.Append(name, value)
	}
	return nil
}

func (c *Cluster) configureAudit(args *envtest.Arguments) error {
	policy := filepath.Join(c.Dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o644); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	c.AuditLog = filepath.Join(c.Dir, "audit.log")
	args.Set("audit-policy-file", policy).Set("audit-log-path", c.AuditLog)
	return nil
}

// attachLogs sends the output of etcd and of the API server to files, never to the test's own output.
func (c *Cluster) attachLogs() ([]*os.File, error) {
	var files []*os.File
	for _, name := range []string{"etcd", "kube-apiserver"} {
		file, err := os.Create(c.logPath(name))
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("making a log file: %w", err)
		}
		files = append(files, file)
	}
	c.env.ControlPlane.Etcd.Out, c.env.ControlPlane.Etcd.Err = files[0], files[0]
	c.env.ControlPlane.APIServer.Out, c.env.ControlPlane.APIServer.Err = files[1], files[1]
	return files, nil
}

// connect prepares the administrator's clients, and the file by which pods trust the API server.
func (c *Cluster) connect(pki string) (err error) {
	serving := c.env.ControlPlane.APIServer.CA
	if err := os.WriteFile(filepath.Join(pki, "serving-ca.crt"), serving, 0o644); err != nil {
		return fmt.Errorf("writing the serving authority: %w", err)
	}
	if c.Config, err = c.User("podgrace-admin", "system:masters"); err != nil {
		return err
	}
	if c.Kubeconfig, err = c.KubeconfigFor("podgrace-admin", "system:masters"); err != nil {
		return err
	}
	c.client, err = kubernetes.NewForConfig(c.Config)
	return err
}

func (c *Cluster) startControllerManager(ctx context.Context) (err error) {
	if !c.options.ControllerManager {
		return nil
	}
	if c.options.SharedControllerCredentials {
		if err := c.allowSharedCredentials(ctx); err != nil {
			return err
		}
	}
	pki := filepath.Join(c.Dir, "pki")
	args := []string{
		"--use-service-account-credentials=" + strconv.FormatBool(!c.options.SharedControllerCredentials),
		"--service-account-private-key-file=" + filepath.Join(pki, "sa-signer.key"),
		"--root-ca-file=" + filepath.Join(pki, "serving-ca.crt"),
		"--cluster-signing-cert-file=" + filepath.Join(pki, "ca.crt"),
		"--cluster-signing-key-file=" + filepath.Join(pki, "ca.key"),
	}
	if grace := c.options.NodeGrace; grace > 0 {
		args = append(args, "--node-monitor-grace-period="+grace.String(), "--node-monitor-period="+(grace/10).String())
	}
	c.controllerManager, err = c.startComponent(ctx, "kube-controller-manager", append(args, c.options.ControllerManagerArgs...)...)
	return err
}

// allowSharedCredentials gives the controller manager's own user what its controllers need. By default each
// controller's role is bound to its service account only.
func (c *Cluster) allowSharedCredentials(ctx context.Context) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "podgrace-shared-controllers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:kube-controller-manager"}},
	}
	_, err := c.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) { // it is there when the controller manager is started again
		return fmt.Errorf("allowing shared credentials: %w", err)
	}
	return nil
}

func (c *Cluster) startScheduler(ctx context.Context) (err error) {
	if !c.options.Scheduler {
		return nil
	}
	var args []string
	if c.options.EveryNode {
		config, err := c.configureScheduler()
		if err != nil {
			return err
		}
		args = append(args, "--config="+config)
	}
	if c.scheduler, err = c.startComponent(ctx, "kube-scheduler", args...); err != nil {
		return err
	}
	return nil
}

// configureScheduler writes the scheduler's configuration, which has the place of the flags of its client and of leader election.
func (c *Cluster) configureScheduler() (path string, err error) {
	kubeconfig, err := c.KubeconfigFor("system:kube-scheduler")
	if err != nil {
		return "", err
	}
	path = filepath.Join(c.Dir, "kube-scheduler.yaml")
	text := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
clientConnection: {kubeconfig: %q, qps: 200, burst: 400}
leaderElection: {leaderElect: false}
`, kubeconfig)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write the scheduler's configuration: %w", err)
	}
	return path, nil
}

// startComponent starts one of the API server's clients under its own user, and waits until it is healthy.
func (c *Cluster) startComponent(ctx context.Context, name string, args ...string) (*process, error) {
	kubeconfig, err := c.KubeconfigFor("system:" + name)
	if err != nil {
		return nil, err
	}
	port, err := FreePort(loopback)
	if err != nil {
		return nil, err
	}
	args = append([]string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false", "--bind-address=" + loopback, "--secure-port=" + strconv.Itoa(port),
		"--kube-api-qps=200", "--kube-api-burst=400",
	}, args...)
	if gates := os.Getenv(GatesVariable); gates != "" {
		args = append(args, "--feature-gates="+gates)
	}
	child, err := startProcess(name, c.logPath(name), filepath.Join(c.BinDir, name), args...)
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("https://%s:%d/healthz", loopback, port)
	if err := Until(ctx, name, healthy(url), child); err != nil {
		_ = child.stop()
		return nil, err
	}
	return child, nil
}

// healthy asks a component on loopback, which serves with a certificate that it made for itself.
func healthy(url string) func(context.Context) (bool, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport}
	return func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return false, nil // not listening yet
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	}
}

// EtcdPID returns the id of this cluster's etcd: the child of this process that serves the cluster's data folder.
func (c *Cluster) EtcdPID() (int, error) {
	pid, _, err := childWith("--data-dir=" + c.env.ControlPlane.Etcd.DataDir)
	if err != nil {
		return 0, fmt.Errorf("find etcd: %w", err)
	}
	return pid, nil
}

// APIServerPID returns the id of this cluster's API server.
func (c *Cluster) APIServerPID() (int, error) {
	pid, _, err := childWith("--cert-dir=" + c.env.ControlPlane.APIServer.CertDir)
	if err != nil {
		return 0, fmt.Errorf("find the API server: %w", err)
	}
	return pid, nil
}

func (c *Cluster) logPath(name string) string { return filepath.Join(c.Dir, "log", name+".log") }

func (c *Cluster) logTail(name string) []byte {
	text, _ := os.ReadFile(c.logPath(name))
	return Tail(text, 15)
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

// EtcdURL is where etcd serves, without TLS: for benchmarks that store more objects than an API server takes in reasonable time.
func (c *Cluster) EtcdURL() string { return c.env.ControlPlane.Etcd.URL.String() }
