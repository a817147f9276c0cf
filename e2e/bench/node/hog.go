package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/bench/node/watch"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/vm"
)

const (
	// hogMiB is what the hog takes if nobody stops it.
	hogMiB = 1400
	// pressureTransition is how long both sides say that the node is short of memory after it was.
	pressureTransition = 3 * time.Second
	// kubeletLoop is how often the kubelet looks (pkg/kubelet/kubelet.go evictionMonitoringPeriod, 1.36.3).
	kubeletLoop = 10 * time.Second
	// turnTimeout is for one turn, watchTimeout for what the watcher sees of it. Half a minute is enough where nobody else needs the
	// machine.
	turnTimeout  = 5 * time.Minute
	watchTimeout = 3 * time.Minute
)

// side is who evicts.
type side struct {
	name string
	// kubeletThreshold of memory.available; enforces: the enforcer has the threshold, by a NodePolicy.
	kubeletThreshold string
	enforces         bool
	turns            []turn
	died             int // neighbours
}

// benchHog lets the sides take turns and returns the report.
func benchHog(ctx context.Context, o options, progress io.Writer) (_ string, err error) {
	b, stop, err := startBed(ctx, progress)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, stop()) }()
	enforcer := &side{name: "enforcer", kubeletThreshold: "50Mi", enforces: true}
	kubelet := &side{name: "kubelet", kubeletThreshold: fmt.Sprintf("%dMi", o.threshold)}
	neighbours, err := b.neighbours(ctx)
	if err != nil {
		return "", err
	}
	for i := range o.rounds {
		pair := []*side{enforcer, kubelet}
		if i%2 == 1 {
			pair[0], pair[1] = kubelet, enforcer
		}
		delay := rand.N(kubeletLoop)
		for _, s := range pair {
			t, err := b.turn(ctx, o, s, delay)
			if err != nil {
				return "", fmt.Errorf("this run is void: round %d, %s: %w", i+1, s.name, err)
			}
			s.turns = append(s.turns, t)
			fmt.Fprintf(progress, "round %d of %d, %s: %s\n", i+1, o.rounds, s.name, t)
			died, err := b.died(ctx, neighbours)
			if err != nil {
				return "", err
			}
			s.died += died
			if died > 0 { // the next turn has all its neighbours again
				if neighbours, err = b.neighbours(ctx); err != nil {
					return "", err
				}
			}
		}
	}
	return hogReport(o, enforcer, kubelet), nil
}

func (t turn) String() string {
	said := func(ms *float64) string {
		if ms == nil {
			return "none"
		}
		return fmt.Sprintf("%.0f ms", *ms)
	}
	return fmt.Sprintf("decision %s, containment %s, gone %.0f ms after the crossing, %.0f MiB beyond it", said(t.decision), said(t.containment), t.gone, t.beyond)
}

// turn lets one hog come and go.
func (b *bed) turn(ctx context.Context, o options, s *side, delay time.Duration) (t turn, err error) {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	if err := b.configureKubelet(ctx, s.kubeletThreshold); err != nil {
		return t, err
	}
	policy := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: s.name + "-"}, Spec: v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune}}
	if s.enforces {
		policy.Spec.Eviction = &v1alpha1.NodeEviction{
			Hard:                     []v1alpha1.EvictionThreshold{{Signal: v1alpha1.SignalMemoryAvailable, Value: v1alpha1.ThresholdValue(fmt.Sprintf("%dMi", o.threshold))}},
			PressureTransitionPeriod: &metav1.Duration{Duration: pressureTransition},
		}
	}
	if err := b.kube.Create(ctx, policy); err != nil {
		return t, fmt.Errorf("make the NodePolicy: %w", err)
	}
	defer func() {
		err = errors.Join(err, client.IgnoreNotFound(b.kube.Delete(context.WithoutCancel(ctx), policy)))
	}()
	if err := b.calm(ctx); err != nil {
		return t, err
	}
	select {
	case <-ctx.Done():
		return t, ctx.Err()
	case <-time.After(delay):
	}
	hog := pod("hog-"+s.name, "", "low", []string{"eat", fmt.Sprint(hogMiB), fmt.Sprint(o.rate)})
	if err := b.kube.Create(ctx, hog); err != nil {
		return t, fmt.Errorf("make the hog: %w", err)
	}
	seen, err := b.watch(ctx, hog, int64(o.threshold)*mib)
	if err == nil {
		t, err = b.timeline(ctx, o, s, hog, seen)
	}
	return t, errors.Join(err, b.remove(ctx, hog))
}

// watch returns when the hog is gone.
func (b *bed) watch(ctx context.Context, hog *corev1.Pod, threshold int64) (seen watch.Sight, err error) {
	hog.Status.QOSClass = corev1.PodQOSBestEffort
	out, err := b.node.Run(ctx, fmt.Sprintf("exec %s -pod %s -threshold %d -timeout %s", watcherPath, vm.PodCgroup(hog), threshold, watchTimeout))
	if err != nil {
		return seen, err
	}
	if err := json.Unmarshal([]byte(out), &seen); err != nil {
		return seen, fmt.Errorf("read what the watcher saw: %w: %s", err, out)
	}
	return seen, nil
}

// timeline reads the log of who was to decide. The other must not have: it would have been somebody else's turn.
func (b *bed) timeline(ctx context.Context, o options, s *side, hog *corev1.Pod, seen watch.Sight) (turn, error) {
	kubelet, err := b.node.Run(ctx, fmt.Sprintf("journalctl --unit=kubelet --output=cat --since=@%d", seen.Began.Unix()-1))
	if err != nil {
		return turn{}, err
	}
	enforcer, _, err := b.Kubectl(ctx, "logs", "--namespace="+enforcerNamespace, "--tail=1000", "--selector=app.kubernetes.io/name=podgrace-nodeenforcer")
	if err != nil {
		return turn{}, err
	}
	for name, text := range map[string]string{"enforcer": enforcer, "kubelet": kubelet} { // for people: the variable KEEP=1 keeps them
		if err := os.WriteFile(b.LogPath(fmt.Sprintf("turn-%s-%d-%s", s.name, len(s.turns)+1, name)), []byte(text), 0o600); err != nil {
			return turn{}, fmt.Errorf("keep a turn's log: %w", err)
		}
	}
	mine, other := kubelet, enforcer
	needles, otherNeedles := kubeletNeedles(), enforcerNeedles(hog.Namespace, hog.Name)
	if s.enforces {
		mine, other, needles, otherNeedles = other, mine, otherNeedles, needles
	}
	if at, found, err := firstLine(other, otherNeedles, seen.Began); err != nil || found {
		return turn{}, errors.Join(err, fmt.Errorf("the other side evicted too, at %s", at))
	}
	return timeline(seen, int64(o.threshold)*mib, mine, needles)
}

// calm returns when the node is ready and short of nothing.
func (b *bed) calm(ctx context.Context) error {
	return cluster.Until(ctx, "the end of the pressure", func(ctx context.Context) (bool, error) {
		var n corev1.Node
		if err := b.kube.Get(ctx, client.ObjectKey{Name: guestName}, &n); err != nil {
			return false, err
		}
		ready, short := false, false
		for _, c := range n.Status.Conditions {
			ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			short = short || c.Type == corev1.NodeMemoryPressure && c.Status != corev1.ConditionFalse
		}
		return ready && !short && len(n.Spec.Taints) == 0, nil
	})
}

// pod runs on the guest: with requests and limits alike where there are resources ("cpu/memory"), else BestEffort.
func pod(name, resources, priority string, args []string) *corev1.Pod {
	c := corev1.Container{Name: "main", Image: cluster.PauseImage, ImagePullPolicy: corev1.PullNever, Args: args}
	if len(args) > 0 {
		c.Image = vm.HogImage
	}
	if resources != "" {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse(resources)}
		c.Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{c}, PriorityClassName: priority, RestartPolicy: corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64(5)), AutomountServiceAccountToken: new(false),
		},
	}
}

// neighbours are pods that must live: one Guaranteed of the hog's own priority, one BestEffort of a high one that uses some memory.
// Those that are there already stay.
func (b *bed) neighbours(ctx context.Context) ([]*corev1.Pod, error) {
	pods := []*corev1.Pod{pod("guaranteed", "32Mi", "low", nil), pod("important", "", "high", []string{"eat", "20", "100"})}
	for _, p := range pods {
		key := client.ObjectKeyFromObject(p)
		var before corev1.Pod
		if err := b.kube.Get(ctx, key, &before); err == nil && !alive(&before, before.UID) {
			if err := b.remove(ctx, &before); err != nil {
				return nil, err
			}
		}
		if err := b.kube.Create(ctx, p); client.IgnoreAlreadyExists(err) != nil {
			return nil, fmt.Errorf("make neighbour %s: %w", p.Name, err)
		}
		err := cluster.Until(ctx, "pod "+p.Name+" running", func(ctx context.Context) (bool, error) {
			err := b.kube.Get(ctx, key, p)
			return alive(p, p.UID), err
		})
		if err != nil {
			return nil, err
		}
	}
	return pods, nil
}

// died counts those of the pods that did not live on.
func (b *bed) died(ctx context.Context, pods []*corev1.Pod) (int, error) {
	n := 0
	for _, p := range pods {
		var now corev1.Pod
		if err := client.IgnoreNotFound(b.kube.Get(ctx, client.ObjectKeyFromObject(p), &now)); err != nil {
			return n, fmt.Errorf("read neighbour %s: %w", p.Name, err)
		}
		if !alive(&now, p.UID) {
			n++
		}
	}
	return n, nil
}

// remove returns when the API server has the pod no more.
func (b *bed) remove(ctx context.Context, p *corev1.Pod) error {
	ctx = context.WithoutCancel(ctx)
	if err := b.kube.Delete(ctx, p); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove pod %s: %w", p.Name, err)
	}
	return cluster.Until(ctx, "the end of pod "+p.Name, func(ctx context.Context) (bool, error) {
		err := b.kube.Get(ctx, client.ObjectKeyFromObject(p), &corev1.Pod{})
		return err != nil, client.IgnoreNotFound(err)
	})
}

// alive is true of the very pod, running and never restarted.
func alive(p *corev1.Pod, uid types.UID) bool {
	return p.UID == uid && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning &&
		len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 0
}
