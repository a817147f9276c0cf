package scheduler

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/preview/scheduler"
	"github.com/podgrace/podgrace/preview/scheduler/schedulertest"
)

// world is one control plane, in which one small cluster takes the place of another.
type world struct {
	cluster *cluster.Cluster
	kube    client.Client
	set     kubernetes.Interface
	// endedBefore are the pods of the cluster that were terminating before the scheduler saw the pod in question.
	endedBefore map[string]bool
}

func newWorld(t *testing.T, c *cluster.Cluster) *world {
	t.Helper()
	kube, err := client.New(c.Config, client.Options{Scheme: clientscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	set, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{cluster: c, kube: kube, set: set}
	for _, o := range schedulertest.PriorityClasses() {
		w.create(t, o)
	}
	for _, o := range schedulertest.StorageClasses() {
		w.create(t, o)
	}
	for _, o := range schedulertest.Namespaces() {
		w.create(t, o)
	}
	return w
}

// create creates an object and then writes the status that it is to have.
func (w *world) create(t *testing.T, o client.Object) {
	t.Helper()
	o.SetUID("")
	o.SetResourceVersion("")
	wanted, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		t.Fatalf("%T is no object", o)
	}
	if err := w.kube.Create(t.Context(), o); err != nil {
		t.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
	switch o.(type) {
	case *corev1.Pod, *corev1.PersistentVolume, *corev1.PersistentVolumeClaim, *policyv1.PodDisruptionBudget:
		wanted.SetUID(o.GetUID())
		wanted.SetResourceVersion(o.GetResourceVersion())
		if err := w.kube.Status().Update(t.Context(), wanted); err != nil {
			t.Fatalf("write the status of %T %s: %v", o, o.GetName(), err)
		}
	}
}

// passing are the kinds of a cluster that end with it; the others are the same in all.
func passing() []client.ObjectList {
	return []client.ObjectList{
		&corev1.PodList{}, &corev1.NodeList{}, &corev1.ServiceList{}, &appsv1.ReplicaSetList{}, &policyv1.PodDisruptionBudgetList{},
		&corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}, &storagev1.CSINodeList{}, &storagev1.VolumeAttachmentList{},
	}
}

// clear removes the cluster before.
func (w *world) clear(t *testing.T) {
	t.Helper()
	suite.Eventually(t, "nothing is left of the cluster before", func(ctx context.Context) (bool, error) {
		left := 0
		for _, list := range passing() {
			n, err := w.remove(ctx, list)
			if err != nil {
				return false, err
			}
			left += n
		}
		return left == 0, nil
	})
}

// remove deletes the objects of a kind, without what would wait for a controller or a kubelet, and says how many there were.
func (w *world) remove(ctx context.Context, list client.ObjectList) (int, error) {
	if err := w.kube.List(ctx, list); err != nil {
		return 0, err
	}
	n := 0
	return n, meta.EachListItem(list, func(item runtime.Object) error {
		o, ok := item.(client.Object)
		if !ok || o.GetNamespace() == "default" { // the API server's own Service
			return nil
		}
		n++
		if len(o.GetFinalizers()) > 0 {
			if err := w.kube.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		return client.IgnoreNotFound(w.kube.Delete(ctx, o, client.GracePeriodSeconds(0)))
	})
}

// build makes a cluster, and returns when the scheduler has seen all of its nodes and pods.
func (w *world) build(t *testing.T, c *schedulertest.Case) {
	t.Helper()
	claims := map[string]types.UID{}
	for _, o := range c.Objects {
		switch o := o.(type) {
		case *corev1.Namespace, *storagev1.StorageClass:
			continue
		case *corev1.PersistentVolume:
			if ref := o.Spec.ClaimRef; ref != nil {
				ref.UID = claims[ref.Namespace+"/"+ref.Name]
			}
		}
		w.create(t, o)
		claims[o.GetNamespace()+"/"+o.GetName()] = o.GetUID()
	}
	for _, n := range c.Nodes {
		w.addNode(t, n)
	}
	w.endedBefore = map[string]bool{}
	for _, p := range c.Pods {
		if p.Spec.NodeName == "" {
			continue // the scheduler would not let it wait
		}
		ends := p.DeletionTimestamp != nil
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = nil, nil
		w.create(t, p)
		if ends {
			w.endedBefore[p.Namespace+"/"+p.Name] = true
			if err := w.kube.Delete(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.mark(t)
}

// addNode takes off what admission taints a new node with (plugin/pkg/admission/nodetaint, 1.36.3).
func (w *world) addNode(t *testing.T, n *corev1.Node) {
	t.Helper()
	taints := slices.Clone(n.Spec.Taints)
	w.create(t, n)
	n.Spec.Taints = taints
	if err := w.kube.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// mark waits until the scheduler has put a pod on a node of which both were made last: each of its informers hears of objects in the order in which they were
// written, so it knows all other nodes and pods. They stay, as a part of the cluster.
func (w *world) mark(t *testing.T) {
	t.Helper()
	node := schedulertest.Node("marker", "marker")
	node.Labels = map[string]string{"example.com/marker": "yes"}
	node.Spec.Taints = []corev1.Taint{{Key: "example.com/marker", Effect: corev1.TaintEffectNoSchedule}}
	w.addNode(t, node)
	pod := schedulertest.Pod("marker", "", 100)
	pod.Labels, pod.Spec.NodeSelector = nil, node.Labels
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "example.com/marker", Operator: corev1.TolerationOpExists}}
	if err := w.kube.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the scheduler knows the nodes and the pods", func(ctx context.Context) (bool, error) {
		err := w.kube.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return pod.Spec.NodeName != "", err
	})
}

// listed is what a preview reads.
func (w *world) listed(t *testing.T) scheduler.Cluster {
	t.Helper()
	var c scheduler.Cluster
	var nodes corev1.NodeList
	var pods corev1.PodList
	for _, list := range []client.ObjectList{&nodes, &pods} {
		if err := w.kube.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	for i := range nodes.Items {
		c.Nodes = append(c.Nodes, &nodes.Items[i])
	}
	for i := range pods.Items {
		c.Pods = append(c.Pods, &pods.Items[i])
	}
	for _, kind := range scheduler.Kinds() {
		list := w.listOf(t, kind)
		if err := w.kube.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			o, ok := item.(client.Object)
			if !ok {
				return fmt.Errorf("%T is no object", item)
			}
			c.Objects = append(c.Objects, o)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (w *world) listOf(t *testing.T, kind client.Object) client.ObjectList {
	t.Helper()
	gvk, err := w.kube.GroupVersionKindFor(kind)
	if err != nil {
		t.Fatal(err)
	}
	gvk.Kind += "List"
	made, err := w.kube.Scheme().New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	list, ok := made.(client.ObjectList)
	if !ok {
		t.Fatalf("%T is no list", made)
	}
	return list
}

// ending are the pods that are being deleted, or gone.
func (w *world) ending(ctx context.Context) (map[string]bool, error) {
	var pods corev1.PodList
	if err := w.kube.List(ctx, &pods); err != nil {
		return nil, err
	}
	ending := map[string]bool{}
	for _, p := range pods.Items {
		if p.DeletionTimestamp != nil {
			ending[p.Namespace+"/"+p.Name] = true
		}
	}
	return ending, nil
}
