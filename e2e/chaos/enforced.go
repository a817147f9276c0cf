package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/wire"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// The node with a real kubelet, and the namespace of what runs on it. A policy asks something of the node for those pods that have a label.
const (
	realNode      = "real"
	hostReal      = "real" // of hostLabel
	keptNamespace = "kept"
	keptLabel     = "chaos.example/kept"
)

// cgroupRoot is where this machine's cgroups are.
const cgroupRoot = "/sys/fs/cgroup"

// enforcedNode is a kubelet with containerd and runc on this machine, and the node enforcer beside it.
type enforcedNode struct {
	node     *cluster.Node
	link     *wire.Balancer // the kubelet's way to the API server
	enforcer *watcher
	programs programs
	tree     cgroup.Tree
	capacity int64 // memory of the node
	hand     *hand
	lives    *lives

	kubelet sync.Mutex // held while the kubelet or containerd is ended or started
	ended   bool       // one of them on purpose: neither is started again before its fault is mended

	mu      sync.Mutex
	program string // of the enforcer
	resync  time.Duration
	samples []sample                // of the process that it is
	of      *podgrace.Replica       // whose they are
	resized map[types.UID]time.Time // when somebody last asked for it
	pods    map[types.UID]bool      // that the node had when it was looked at last
	moved   time.Time               // when one came or went
	told    map[difference]bool     // of which somebody was told
}

// nodeUnmet says why this machine can't have the real node; nil: it can.
func nodeUnmet() error {
	if err := cluster.NodeSupported(); err != nil {
		return err
	}
	version, err := cgroup.Detect(cgroupRoot)
	if err == nil && version != cgroupfile.V1 {
		err = errors.New("what must be in the files is known here of cgroup v1, and this machine has v2")
	}
	return err
}

// addEnforced adds the real node with its enforcer, where there is to be one, and what runs on it.
func (l *lab) addEnforced(ctx, working context.Context) (err error) {
	if !l.withNode {
		return nil
	}
	n := &enforcedNode{
		programs: l.builds["nodeenforcer"], hand: newHand(), lives: newLives(), resync: time.Second, resized: map[types.UID]time.Time{}, told: map[difference]bool{}, moved: time.Now(),
	}
	n.program = n.programs.current
	if n.tree, err = cgroup.NewV1(cgroupRoot, "/proc"); err != nil {
		return err
	}
	if n.link, err = wire.NewBalancer(); err != nil {
		return err
	}
	l.ends = append(l.ends, n.link.Close)
	if err := errors.Join(n.link.To(l.Config.Host), podgrace.AllowEnforcer(ctx, l.Cluster)); err != nil {
		return err
	}
	if _, err := podgrace.BuildEnforcer(ctx, filepath.Dir(n.programs.current)); err != nil {
		return err
	}
	if n.node, err = l.StartKubelet(ctx, cluster.KubeletOptions{Name: realNode, Labels: map[string]string{hostLabel: hostReal}, APIServer: n.link.Address()}); err != nil {
		return err
	}
	l.ends = append(l.ends, n.node.Stop) // before its way to the API server
	var object corev1.Node
	if err := l.kube.Get(ctx, client.ObjectKey{Name: realNode}, &object); err != nil {
		return fmt.Errorf("read the real node: %w", err)
	}
	n.capacity = object.Status.Capacity.Memory().Value()
	if n.enforcer, err = l.newEnforcer(n); err != nil {
		return err
	}
	l.enforced = n
	if err := l.keepWatching(working, l.enforcerEnded, n.enforcer); err != nil {
		return err
	}
	l.working.Go(func() { l.witnessEnforced(working) })
	l.working.Go(func() { l.keepEnforced(working) })
	return l.fillEnforced(ctx)
}

// newEnforcer makes the enforcer, which is not started yet.
func (l *lab) newEnforcer(n *enforcedNode) (*watcher, error) {
	file, err := podgrace.EnforcerKubeconfigOf(l.Cluster, realNode)
	if err != nil {
		return nil, err
	}
	w, own, err := onWire(l.Cluster, "nodeenforcer", file, 0)
	if err != nil {
		return nil, err
	}
	w.start = func() (*podgrace.Replica, error) {
		n.mu.Lock()
		program, resync := n.program, n.resync
		n.mu.Unlock()
		return podgrace.LaunchEnforcer(l.Cluster, program, own, realNode, fmt.Sprintf("--kubelet=%s:%d", n.node.Address, n.node.Port), "--resync="+resync.String(),
			"--runtime-dir="+filepath.Join(l.Dir, "enforcer"), "--checkpoint="+filepath.Join(l.Dir, "enforcer.checkpoint"))
	}
	return w, nil
}

// enforcerEnded is told of the enforcer that nobody ended. One that was ready goes on by what it knows, whatever becomes of the API server.
func (l *lab) enforcerEnded(_ *watcher, why string, served bool) {
	if served {
		l.violated("the node enforcer ended by itself: %s", why)
		return
	}
	l.counts.add("the node enforcer ended before it was ready", 1)
	l.say("the node enforcer ended before it was ready: %s", cluster.Tail([]byte(why), 2))
}

// keptApps are what runs on the node: pods of each QoS class, some of which a policy asks something for.
var keptApps = []struct {
	name             string
	replicas         int32
	requests, limits corev1.ResourceList
	kept             bool
}{
	{"weighed", 2, resources("100m", "512Mi"), resources("500m", "768Mi"), true},
	{"burstable", 1, resources("100m", "512Mi"), resources("500m", "768Mi"), false},
	{"guaranteed", 1, resources("100m", "64Mi"), resources("100m", "64Mi"), false},
	{"besteffort", 1, nil, nil, false},
}

// fillEnforced makes what runs on the node.
func (l *lab) fillEnforced(ctx context.Context) error {
	policies := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: keptNamespace}},
		&v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: realNode}, Spec: v1alpha1.NodePolicySpec{
			NodeSelector: v1alpha1.SetAsLabelSelector(map[string]string{hostLabel: hostReal}), Mode: v1alpha1.NodeModeRepair, QOSReserved: &v1alpha1.QOSReserved{MemoryPercent: 50},
		}},
		&v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: keptNamespace}, Spec: v1alpha1.PodPolicySpec{
			Match: &v1alpha1.PodMatch{PodSelector: v1alpha1.SetAsLabelSelector(map[string]string{keptLabel: "true"})},
			Node:  &v1alpha1.Enforcement{CPU: &v1alpha1.WeightEnforcement{Weight: keptWeight}, OOM: &v1alpha1.OOMEnforcement{Rank: keptRank}},
		}},
	}
	for _, o := range policies {
		if err := l.kube.Create(ctx, o); err != nil {
			return fmt.Errorf("make %T %s: %w", o, o.GetName(), err)
		}
	}
	if _, _, err := l.Kubectl(ctx, "wait", "podpolicy", keptNamespace, "--for=condition=Ready", "--timeout=120s"); err != nil {
		return err
	}
	for _, of := range keptApps {
		pod := template(of.name)
		pod.Labels[keptLabel] = fmt.Sprint(of.kept)
		pod.Spec = corev1.PodSpec{
			NodeSelector: map[string]string{hostLabel: hostReal}, TerminationGracePeriodSeconds: new(int64(5)),
			Containers: []corev1.Container{{
				Name: "main", Image: cluster.PauseImage, ImagePullPolicy: corev1.PullNever, Resources: corev1.ResourceRequirements{Requests: of.requests, Limits: of.limits},
			}},
		}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: keptNamespace, Name: of.name}, Spec: appsv1.DeploymentSpec{
			Replicas: &of.replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": of.name}}, Template: pod,
		}}
		if err := l.kube.Create(ctx, d); err != nil {
			return fmt.Errorf("make Deployment %s: %w", of.name, err)
		}
	}
	return nil
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// hitEnforced makes a fault of the real node.
func (l *lab) hitEnforced(ctx context.Context, n *enforcedNode, s plan.Step) (mend func(context.Context) error, err error) {
	switch s.Fault {
	case plan.ChangeCgroup:
		return nil, l.writeByHand(ctx, n, int(s.At.Milliseconds()))
	case plan.CutEnforcer, plan.SlowEnforcer:
		return hitWatcher(n.enforcer, s.Fault)
	case plan.KillEnforcer, plan.PauseEnforcer:
		back, err := hitWatcher(n.enforcer, s.Fault)
		return l.whileAway(n, back), err
	case plan.RollEnforcer: // and what it wrote stays when it ends, too
		n.reflag()
		return l.whileAway(n, n.again), n.enforcer.end((*podgrace.Replica).Stop)
	case plan.SwapEnforcer:
		l.counts.add("the node enforcer was replaced by the "+n.swap(), 1)
		return l.whileAway(n, n.again), n.enforcer.end((*podgrace.Replica).Stop)
	default:
		return n.hitKubelet(s.Fault)
	}
}

// whileAway has what brings the enforcer back look before that whether anything of what it and the kubelet wrote was undone.
func (l *lab) whileAway(n *enforcedNode, back func(context.Context) error) func(context.Context) error {
	pods := l.runningEnforced()
	began, want := time.Now(), n.wanted(pods)
	before := n.read(want)
	return func(ctx context.Context) error {
		others := func(f keptFile) bool {
			return n.hand.since(f, began) || n.kubeletWrites(podOf(n.node.CgroupRoot, pods, f), l.roundStart())
		}
		for _, d := range undone(want, before, n.read(want), others) {
			l.violated("while the node enforcer was away: %s", d)
		}
		return back(ctx)
	}
}

// again starts the enforcer after it was ended on purpose.
func (n *enforcedNode) again(context.Context) error { return n.enforcer.again() }

// reflag changes the flags that the enforcer is started with next.
func (n *enforcedNode) reflag() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resync = 3*time.Second - n.resync // one second, or two
}

// swap has the next process of the enforcer be of the other version, and returns which one that is.
func (n *enforcedNode) swap() (to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.program, to = n.programs.instead(n.program)
	return to
}

// hitKubelet makes a fault of the kubelet, or of its runtime. Containers go on.
func (n *enforcedNode) hitKubelet(f plan.Fault) (mend func(context.Context) error, err error) {
	n.kubelet.Lock()
	defer n.kubelet.Unlock()
	again := func(ctx context.Context) error {
		n.kubelet.Lock()
		defer n.kubelet.Unlock()
		n.ended = false
		_, err := startEnded(ctx, n.node)
		return err
	}
	switch f {
	case plan.KillKubelet:
		n.ended = true
		return again, n.node.KillKubelet()
	case plan.KillContainerd:
		n.ended = true
		return again, n.node.KillContainerd()
	case plan.PauseKubelet:
		return pause(func() (int, error) { return n.node.KubeletPID(), nil })
	case plan.PauseContainerd:
		return pause(func() (int, error) { return n.node.ContainerdPID(), nil })
	case plan.CutKubelet:
		n.link.Hold()
		return mended(n.link.Release), nil
	case plan.SlowKubelet:
		n.link.Delay(slowness)
		return mended(func() { n.link.Delay(0) }), nil
	default:
		return nil, fmt.Errorf("nobody knows how to make the fault %s", f)
	}
}

// nodeRuntime is what a node runs its containers by.
type nodeRuntime interface {
	ContainerdExited() error
	RestartContainerd(ctx context.Context) error
	KubeletExited() error
	RestartKubelet(ctx context.Context) error
}

// startEnded starts the kubelet and its containerd where they have ended, until both run: what ended the kubelet may last, such as an API server that is away, and it is not healthy without containerd. It
// says which of them had. Whoever has the real node's started has its lock.
func startEnded(ctx context.Context, n nodeRuntime) (ended []string, err error) {
	var last error
	err = cluster.Until(ctx, "the kubelet and containerd to be started again", func(ctx context.Context) (bool, error) {
		for _, of := range []struct {
			name   string
			exited func() error
			start  func(context.Context) error
		}{{"containerd", n.ContainerdExited, n.RestartContainerd}, {"the kubelet", n.KubeletExited, n.RestartKubelet}} {
			if of.exited() == nil {
				continue
			}
			if !slices.Contains(ended, of.name) {
				ended = append(ended, of.name)
			}
			if last = of.start(ctx); last != nil {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return ended, errors.Join(err, last)
	}
	return ended, nil
}

// keepRuntime starts the kubelet and containerd again where they have ended by themselves, as their machine's init does. It says which of them had.
func (n *enforcedNode) keepRuntime(ctx context.Context) (ended []string, err error) {
	n.kubelet.Lock()
	defer n.kubelet.Unlock()
	if n.ended {
		return nil, nil
	}
	return startEnded(ctx, n.node)
}

// podsOfEnforced are the real node's, as a watch tells of them.
func (l *lab) podsOfEnforced() ([]*corev1.Pod, error) {
	all, err := l.pods.Pods(keptNamespace).List(labels.Everything())
	return slices.DeleteFunc(all, func(p *corev1.Pod) bool { return p.Spec.NodeName != realNode }), err
}

// runningEnforced are those whose container runs, of which nobody asked that they end, by name.
func (l *lab) runningEnforced() []*corev1.Pod {
	all, _ := l.podsOfEnforced() // an informer's list does not fail
	all = slices.DeleteFunc(all, func(p *corev1.Pod) bool { return !runsIn(p) || p.DeletionTimestamp != nil })
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// operateEnforced does what a user does with pods of the real node.
func (l *lab) operateEnforced(ctx context.Context, o plan.Operation) {
	var request func(context.Context) error
	switch n := l.enforced; {
	case n == nil:
		l.counts.operation(o.Do, untried)
		return
	case o.Do == plan.ResizeEnforced:
		request = l.resizeEnforced(n, o)
	default:
		p, err := choose(l.runningEnforced(), o.Which)
		request = func(ctx context.Context) error {
			if err != nil {
				return err
			}
			n.lives.ask(p.UID)
			return l.kube.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}, client.Preconditions{UID: &p.UID})
		}
	}
	l.insist(ctx, o.Do, request)
}

// resizeEnforced has a Burstable pod request and use more CPU, or as much as before. Limits of memory stay: none may fall below what is used.
func (l *lab) resizeEnforced(n *enforcedNode, o plan.Operation) func(context.Context) error {
	burstable := slices.DeleteFunc(l.runningEnforced(), func(p *corev1.Pod) bool { return p.Status.QOSClass != corev1.PodQOSBurstable })
	p, err := choose(burstable, o.Which)
	return func(ctx context.Context) error {
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.resized[p.UID] = time.Now()
		n.mu.Unlock()
		cpu := [][2]string{{"100m", "500m"}, {"150m", "600m"}}[o.How%2]
		text := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":%q},"limits":{"cpu":%q}}}]}}`, p.UID, cpu[0], cpu[1])
		return l.kube.SubResource("resize").Patch(ctx, p.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, text))
	}
}

// kubeletWrites reports whether the kubelet may write into a pod's cgroups: somebody has asked since a time for a resize, or for the pod's end, before which it takes its CPU shares (ReduceCPULimits of
// pkg/kubelet/cm/cgroup_manager_linux.go, 1.36.3).
func (n *enforcedNode) kubeletWrites(p *corev1.Pod, since time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.resized[p.UID].After(since) || n.lives.isAsked(p.UID)
}

// wanted is what files must hold of pods that run.
func (n *enforcedNode) wanted(pods []*corev1.Pod) map[keptFile]string {
	want := map[keptFile]string{}
	for _, p := range pods {
		maps.Copy(want, wanted(n.node.CgroupRoot, p, n.capacity))
	}
	return want
}

// read is what files hold, past the enforcer. What is not there is not in it; of processes that differ it is the first one's that does.
func (n *enforcedNode) read(of map[keptFile]string) map[keptFile]string {
	have := map[keptFile]string{}
	for f, want := range of {
		if f.name == oomScore {
			for _, pid := range n.processes(f.cgroup) {
				if adj, err := cgroup.OOMScoreAdj("/proc", pid); err == nil {
					if have[f] = fmt.Sprint(adj); have[f] != want {
						break
					}
				}
			}
		} else if files, err := n.tree.Read(f.cgroup, f.name); err == nil {
			if value, there := files[f.name]; there {
				have[f] = value
			}
		}
	}
	return have
}

// processes are those in a cgroup; none, if it is gone.
func (n *enforcedNode) processes(at string) []int {
	pids, err := n.tree.Processes(at)
	if err != nil {
		return nil
	}
	return pids
}

// writeByHand has somebody write another value into a file of the node's pods.
func (l *lab) writeByHand(ctx context.Context, n *enforcedNode, which int) error {
	f, value, wrote, err := n.hand.choose(n.wanted(l.runningEnforced()), which)
	if err != nil {
		return fmt.Errorf("%w: there is no file that somebody may change", errNotMade)
	}
	defer wrote()
	if err := l.change(ctx, n, f, value); err != nil { // the pod ends
		return fmt.Errorf("%w: %w", errNotMade, err)
	}
	return nil
}

// change writes into a file, past the enforcer.
func (l *lab) change(ctx context.Context, n *enforcedNode, f keptFile, value string) (err error) {
	l.say("somebody writes %s into %s of %s", value, f.name, f.cgroup)
	if f.name != oomScore {
		_, err = n.tree.Write(ctx, f.cgroup, []cgroup.File{{Name: f.name, Value: value}})
		return err
	}
	pids := n.processes(f.cgroup)
	if len(pids) == 0 {
		return fmt.Errorf("no process is in %s", f.cgroup)
	}
	for _, pid := range pids {
		err = errors.Join(err, os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(value), 0))
	}
	return err
}
