package webhook

import (
	"bytes"
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// size of a cluster.
type size struct{ nodes, namespaces, pods int }

func (s size) String() string {
	return fmt.Sprintf("%d nodes, %d namespaces, %d pods", s.nodes, s.namespaces, s.pods)
}

// perTransaction is etcd's limit (--max-txn-ops).
const perTransaction = 128

// fill stores nodes in three zones, namespaces with a Service, the ReplicaSets of a Deployment and its three last revisions each, and
// their pods; and the same few pods that are guarded, whatever the size. They go into etcd directly, as the API server would have stored them: creating them takes it many minutes, and is not what
// is measured.
func fill(ctx context.Context, c *cluster.Cluster, s size) error {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{c.EtcdURL()}, DialTimeout: 10 * time.Second})
	if err != nil {
		return fmt.Errorf("reach etcd: %w", err)
	}
	defer func() { _ = etcd.Close() }() // nothing is buffered in it
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	f := &filler{ctx: ctx, etcd: etcd, group: group, codec: protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)}
	for i := range s.nodes {
		f.put("minions/", node(i))
	}
	for i := range s.namespaces {
		f.namespace(i, s.pods/s.namespaces, s.nodes)
	}
	f.putGuarded()
	f.send()
	if err := group.Wait(); err != nil {
		return fmt.Errorf("fill the cluster: %w", err)
	}
	return f.err
}

type filler struct {
	ctx     context.Context //nolint:containedctx // of one call of fill
	etcd    *clientv3.Client
	group   *errgroup.Group
	codec   runtime.Encoder
	pending []clientv3.Op
	err     error
}

func (f *filler) put(prefix string, o interface {
	runtime.Object
	metav1.Object
},
) {
	var text bytes.Buffer
	o.SetUID(uuid.NewUUID())
	o.SetCreationTimestamp(metav1.Now())
	if err := f.codec.Encode(o, &text); err != nil {
		f.err = fmt.Errorf("encode %s: %w", o.GetName(), err)
		return
	}
	f.pending = append(f.pending, clientv3.OpPut("/registry/"+prefix+o.GetName(), text.String()))
	if len(f.pending) == perTransaction {
		f.send()
	}
}

func (f *filler) send() {
	batch := f.pending
	f.pending = nil
	if len(batch) == 0 {
		return
	}
	f.group.Go(func() error {
		_, err := f.etcd.Txn(f.ctx).Then(batch...).Commit()
		return err
	})
}

func node(i int) *corev1.Node {
	name := fmt.Sprintf("filler-%d", i)
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%c", 'a'+i%3), corev1.LabelTopologyRegion: "region",
			corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelInstanceTypeStable: fmt.Sprintf("type-%d", i%7),
			"example.org/pool": fmt.Sprintf("pool-%d", i%20), "example.org/rack": fmt.Sprintf("rack-%d", i/40),
		}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// namespace has an application.
func (f *filler) namespace(i, pods, nodes int) {
	name := fmt.Sprintf("filler-%d", i)
	f.put("namespaces/", &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelMetadataName: name, "podgrace.dev/profile": "web", "example.org/team": fmt.Sprintf("team-%d", i%100),
		}},
		Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	})
	app := map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": name}
	f.put("services/specs/"+name+"/", &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "web"},
		Spec: corev1.ServiceSpec{Selector: app, ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}, Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	var latest *appsv1.ReplicaSet
	for revision := range 4 {
		hash := fmt.Sprintf("%08x", i*4+revision)
		labels := map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": name, appsv1.DefaultDeploymentUniqueLabelKey: hash}
		latest = &appsv1.ReplicaSet{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "web-" + hash, Labels: labels},
			Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec("")}},
		}
		f.put("replicasets/"+name+"/", latest)
	}
	for p := range pods {
		f.put("pods/"+name+"/", &corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: name, Name: fmt.Sprintf("%s-%05d", latest.Name, p), Labels: latest.Labels,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: latest.Name, UID: types.UID("1"), Controller: new(true)}},
			},
			Spec:   podSpec(fmt.Sprintf("filler-%d", (i*pods+p)%nodes)),
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
}

func podSpec(node string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName: node, RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, TerminationGracePeriodSeconds: new(int64(30)),
		Containers: []corev1.Container{{
			Name: "web", Image: "registry.example.org/web:1", ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log",
			TerminationMessagePolicy: corev1.TerminationMessageReadFile, Env: []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", Value: "b"}},
		}},
	}
}
