package fencer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/fencing/controller"
)

// renewEvery is how often a kubelet renews its Lease (nodeLeaseDurationSeconds / 4, 1.36.3).
const renewEvery = 10 * time.Second

// atOnce is how many requests are under way.
const atOnce = 16

// kubelets stand in for those of all nodes.
type kubelets struct {
	kube    kubernetes.Interface
	leases  []*coordinationv1.Lease
	silent  atomic.Int64 // the first ones
	renewed atomic.Int64
}

func podgraceScheme() *runtime.Scheme { return controller.NewScheme() }

// makeNodes makes Nodes that are ready, in three zones, and their Leases.
func makeNodes(ctx context.Context, c *cluster.Cluster, n int) (*kubelets, error) {
	config := rest.CopyConfig(c.Config)
	config.QPS, config.ContentType = -1, runtime.ContentTypeProtobuf
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	k := &kubelets{kube: kube, leases: make([]*coordinationv1.Lease, n)}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() (err error) {
			k.leases[i], err = k.join(ctx, i)
			return err
		})
	}
	return k, group.Wait()
}

// join makes a Node and its Lease.
func (k *kubelets) join(ctx context.Context, i int) (*coordinationv1.Lease, error) {
	name, now, seconds := fmt.Sprintf("node-%d", i), metav1.NowMicro(), int32(40)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%c", 'a'+i%3), corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelInstanceTypeStable: fmt.Sprintf("type-%d", i%7),
		}},
		Spec: corev1.NodeSpec{ProviderID: "bench:///" + name},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo:   corev1.NodeSystemInfo{BootID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), SystemUUID: fmt.Sprintf("4c4c4544-0000-4000-8000-%012d", i), KubeletVersion: "v1.36.3"},
		},
	}
	if _, err := k.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("make Node %s: %w", name, err)
	}
	lease, err := k.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make the Lease of Node %s: %w", name, err)
	}
	return lease, nil
}

// heard is how many nodes are not silent.
func (k *kubelets) heard() int { return len(k.leases) - int(k.silent.Load()) }

// silence has the first nodes fall silent.
func (k *kubelets) silence(n int) { k.silent.Store(int64(n)) }

// beat renews all Leases, evenly over the time, until the context ends. A Lease is always renewed by the same of those who do.
func (k *kubelets) beat(ctx context.Context) {
	var due [atOnce]chan int
	for w := range due {
		due[w] = make(chan int, len(k.leases)/atOnce+1)
		defer close(due[w])
		go func() {
			for i := range due[w] {
				k.renew(ctx, i)
			}
		}()
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	for i := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for by := int(time.Since(begin) * time.Duration(len(k.leases)) / renewEvery); i < by; i++ {
			lease := i % len(k.leases)
			if lease < int(k.silent.Load()) {
				continue
			}
			select {
			case due[lease%atOnce] <- lease:
			case <-ctx.Done():
				return
			}
		}
	}
}

// renew renews one. A missed renewal shows in the count; the next one is made of what is stored.
func (k *kubelets) renew(ctx context.Context, i int) {
	lease, leases := k.leases[i].DeepCopy(), k.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NowMicro()
	lease.Spec.RenewTime = &now
	renewed, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		if renewed, err = leases.Get(ctx, lease.Name, metav1.GetOptions{}); err == nil {
			k.leases[i] = renewed
		}
		return
	}
	k.leases[i] = renewed
	k.renewed.Add(1)
}
