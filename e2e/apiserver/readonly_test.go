package apiserver

import (
	"context"
	"maps"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// observed is a node with a node enforcer that was started on this machine.
type observed struct {
	*suite.Suite
	name, kubeconfig string
	set              *appsv1.DaemonSet

	mu     sync.Mutex
	writes map[string]bool // method and path of what was not only read
}

// newObserved creates the Node, a NodePolicy of a threshold that is met, a pod, and the DaemonSet's object. enforces: it may write.
func newObserved(t *testing.T, mode v1alpha1.NodeMode, enforces bool) *observed {
	t.Helper()
	o := &observed{Suite: shared.Get(t), writes: map[string]bool{}}
	allow := podgrace.AllowEnforcer
	if !enforces {
		allow = podgrace.AllowObserver
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "podgrace-nodeenforcer-enforce"}} // another test's
		if err := client.IgnoreNotFound(o.Client.Delete(t.Context(), binding)); err != nil {
			t.Fatal(err)
		}
	}
	if err := allow(t.Context(), o.Cluster); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "observed-"}}
	o.Create(t, node)
	o.name = node.Name
	node.Labels = map[string]string{corev1.LabelHostname: node.Name}
	if err := o.Client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.NodeInfo.KubeletVersion = "v1.36.3"
	if err := o.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	o.Create(t, &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: "observed-"}, Spec: v1alpha1.NodePolicySpec{
		NodeSelector: &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{corev1.LabelHostname: v1alpha1.LabelValue(node.Name)}}, Weight: 1000, Mode: mode,
		Eviction: &v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{{Signal: v1alpha1.SignalPIDAvailable, Value: "10G"}}},
	}})
	mustCreate(t, o.Suite, newPod(o.Namespace(t), func(p *corev1.Pod) {
		p.Spec.NodeName = o.name
	}))
	labels := map[string]string{"app": "observed"}
	o.set = &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: podgrace.EnforcerNamespace, Name: "podgrace-nodeenforcer"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelHostname: o.name}, Containers: newPod("").Spec.Containers},
		}},
	}
	t.Cleanup(func() { // nothing collects garbage here
		_ = o.Client.Patch(context.Background(), o.set, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	o.Create(t, o.set)

	config := rest.CopyConfig(o.Config)
	config.Impersonate = podgrace.EnforcerOf(o.name)
	proxy := &httputil.ReverseProxy{}
	o.kubeconfig = suite.Proxy(t, config, proxy, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			o.mu.Lock()
			o.writes[r.Method+" "+r.URL.Path] = true
			o.mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	return o
}

// run runs the program, as nobody if this is root and it is to only observe, until what the Node says holds; then it is sent the stop signal. It returns its log.
func (o *observed) run(t *testing.T, args []string, asNobody bool, holds func(*corev1.Node) bool) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "podgrace-observed")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, err := podgrace.BuildEnforcer(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := os.ReadFile(o.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"kubeconfig": string(kubeconfig), "kubelet.yaml": "cgroupDriver: cgroupfs\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // another user reads it; the proxy asks for no credentials
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	var log strings.Builder
	cmd := exec.CommandContext(t.Context(), program, append([]string{
		"--kubeconfig", filepath.Join(dir, "kubeconfig"), "--node-name", o.name, "--kubelet=", "--kubelet-config", filepath.Join(dir, "kubelet.yaml"), "--kubelet-root=" + dir, "--image-root=" + dir,
		"--resync=1s", "--health-port=0", "--metrics-port=0", "--daemonset", o.set.Namespace + "/" + o.set.Name,
	}, args...)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if asNobody && os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	o.forget(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Logf("the enforcer's log:\n%s", &log)
		}
	}()
	suite.Eventually(t, "what the Node says while the enforcer runs", func(context.Context) (bool, error) { return holds(o.node(t)), nil })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v:\n%s", err, &log)
	}
	return log.String()
}

// forget removes an earlier enforcer's conditions, so that only one that runs can have written them.
func (o *observed) forget(t *testing.T) {
	t.Helper()
	node := o.node(t)
	before := node.DeepCopy()
	node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return slices.Contains(enforcement.NodeConditions, c.Type) })
	if err := o.Client.Status().Patch(t.Context(), node, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func (o *observed) node(t *testing.T) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	if err := o.Client.Get(t.Context(), client.ObjectKey{Name: o.name}, node); err != nil {
		t.Fatal(err)
	}
	return node
}

// conditionOf is the status and reason of a Node's condition; empty: it has none.
func conditionOf(n *corev1.Node, kind corev1.NodeConditionType) string {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

func tainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == enforcement.TaintPressure })
}

// clean reports whether nothing of an enforcer is on a Node, and the kubelet's condition still is.
func clean(n *corev1.Node) bool {
	return !tainted(n) && conditionOf(n, corev1.NodeReady) != "" && !slices.ContainsFunc(enforcement.NodeConditions, func(kind corev1.NodeConditionType) bool { return conditionOf(n, kind) != "" })
}

// A read-only enforcer runs without root and with the rights that it is installed with, and writes nothing but its conditions, whatever the policy asks for. They stay when it is
// restarted, and go when its DaemonSet is deleted.
func TestReadOnlyEnforcer(t *testing.T) {
	o := newObserved(t, v1alpha1.NodeModeRepair, false)
	observes := func(n *corev1.Node) bool {
		return conditionOf(n, enforcement.NodeConditionEnforced) == "False "+enforcement.ReasonReadOnly && conditionOf(n, enforcement.NodeConditionPressure) == "True UnderPressure"
	}
	args := []string{"--mode=Observe", "--runtime-dir=/nowhere", "--systemd-bus=/nowhere"}
	log := o.run(t, args, true, observes)
	node := o.node(t)
	if !observes(node) || tainted(node) {
		t.Errorf("after a restart the Node says %v, taints %v", node.Status.Conditions, node.Spec.Taints)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == enforcement.NodeConditionEnforced && !strings.Contains(c.Message, "nodeEnforcer.mode=Enforce") {
			t.Errorf("it does not say what to do: %s", c.Message)
		}
	}
	if err := o.Client.Delete(t.Context(), o.set); err != nil {
		t.Fatal(err)
	}
	log += o.run(t, args, true, observes)
	if node := o.node(t); !clean(node) {
		t.Errorf("after the DaemonSet was deleted the Node says %v", node.Status.Conditions)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if got := slices.Sorted(maps.Keys(o.writes)); !slices.Equal(got, []string{"PATCH /api/v1/nodes/" + o.name + "/status"}) {
		t.Errorf("it wrote %q", got)
	}
	if strings.Contains(strings.ToLower(log), "forbidden") || strings.Contains(log, "permission denied") {
		t.Errorf("it tries what it may not:\n%s", log)
	}
}

// The taint and the conditions of an enforcer that writes stay when it is restarted, and go when its DaemonSet is deleted.
func TestEnforcerLeavesItsNode(t *testing.T) {
	o := newObserved(t, v1alpha1.NodeModeTune, true)
	pressed := func(n *corev1.Node) bool {
		return tainted(n) && conditionOf(n, enforcement.NodeConditionPressure) == "True UnderPressure" && conditionOf(n, enforcement.NodeConditionEnforced) != ""
	}
	args := []string{"--runtime-dir=" + t.TempDir()}
	o.run(t, args, false, pressed)
	if node := o.node(t); !pressed(node) {
		t.Errorf("after a restart the Node says %v, taints %v", node.Status.Conditions, node.Spec.Taints)
	}
	if err := o.Client.Delete(t.Context(), o.set); err != nil {
		t.Fatal(err)
	}
	log := o.run(t, args, false, pressed)
	if node := o.node(t); !clean(node) {
		t.Errorf("after the DaemonSet was deleted the Node says %v, taints %v:\n%s", node.Status.Conditions, node.Spec.Taints, log)
	}
}
