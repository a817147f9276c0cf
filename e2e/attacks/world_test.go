package attacks

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/guard"
)

// Groups of nodes. Somebody renews the leases of busy nodes. Cold nodes are silent, but now and then one is back for a while. Leaving nodes are being deleted,
// a finalizer holds them, and each gets a protected pod: no kubelet ever ran on them, so that nobody can confirm that they are off.
const (
	busy, cold, leaving = "busy", "cold", "leaving"
	group               = "attacks.example/group"
	perGroup            = 3
)

// hold is the finalizer that holds nodes and pods.
const hold = "attacks.example/hold"

// repair is in allowedActors of every policy, and may confirm nodes.
const repair = "system:serviceaccount:ops:repair"

// world is the cluster and who is in it.
type world struct {
	*suite.Suite
	// stateful has a policy that protects what is stateful, all one that protects all, open none. They differ from run to run.
	stateful, all, open string
	users               map[string]*http.Client
	actor               client.Client // repair
	// back are the cold nodes that are back, since when.
	back map[string]time.Time
	// hasty puts back at once what was removed: nobody judges what a pod of a Node before it may still do.
	hasty bool
}

func (w *world) namespaces() []string { return []string{w.stateful, w.all, w.open} }

// newWorld makes nodes, namespaces, policies, users and workloads.
func newWorld(t *testing.T, s *suite.Suite, policies func(*testing.T, *world)) *world {
	t.Helper()
	w := &world{Suite: s, users: map[string]*http.Client{}, back: map[string]time.Time{}}
	w.stateful, w.all, w.open = s.Namespace(t), s.Namespace(t), s.Namespace(t)
	policies(t, w)
	w.addUsers(t)
	w.actor, _ = s.Warned(t, repair)
	w.addMarks(t)
	for i := range perGroup {
		w.addNode(t, fmt.Sprintf("%s-%d", busy, i))
		w.addNode(t, fmt.Sprintf("%s-%d", cold, i))
	}
	for _, ns := range w.namespaces() {
		s.Create(t, w.deployment(ns))
	}
	return w
}

// denying makes the policies that guard two of the namespaces.
func denying(t *testing.T, w *world) {
	t.Helper()
	w.Policy(t, w.stateful, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{
		ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectStateful, AllowedActors: []string{repair}}})
	w.Policy(t, w.all, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{
		ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll, EvictionWithoutGrace: v1alpha1.GraceRaise, AllowedActors: []string{repair}}})
}

// addMarks makes what changes are read up to (watch_test.go).
func (w *world) addMarks(t *testing.T) {
	t.Helper()
	w.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: marker}})
	w.WaitServiceAccount(t, marker)
	w.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: marker, Name: marker}, Spec: corev1.PodSpec{
		SchedulerName: "none", Containers: []corev1.Container{{Name: "main", Image: "localhost/none:1"}}}})
	w.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: marker}})
	w.Create(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: marker}})
	w.Create(t, attachment(marker, marker))
}

func attachment(name, node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: "example.com", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}}
}

// addNode makes a node of the group that its name says.
func (w *world) addNode(t *testing.T, name string) {
	t.Helper()
	of := name[:len(name)-len("-0")]
	if err := w.AddNode(t.Context(), name, map[string]string{corev1.LabelHostname: name, group: of}); err != nil {
		t.Fatal(err)
	}
	if name == cold+"-0" { // from the beginning, so that there is one whose finalizer is old
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"finalizers":[%q]}}`, hold))
		if err := w.Client.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch); err != nil {
			t.Fatal(err)
		}
	}
	if of == cold {
		w.StopHeartbeat(name)
		w.Silence(t, name)
	}
}

// Users by what they may do. Impersonators are administrators who act as somebody else.
var (
	tenants   = []string{"edit", "admin"}
	powerful  = []string{"operator", "remover", "root", "ghost", "gc"}
	noders    = []string{"noder", "operator", "remover", "root"}
	mayPod    = []string{"admin", "operator", "root"}      // confirm that a pod may run twice
	mayNotPod = []string{"edit", "remover", "gc", "other"} // though they may patch pods
	mayNode   = []string{"operator", "root"}               // confirm that a node is off
	mayNotOff = []string{"noder", "remover", "edit", "gc"} // though some may patch nodes
	evictors  = []string{"edit", "admin", "operator", "remover", "root", "ghost"}
	removers  = slices.Concat(tenants, powerful, []string{"other"})
)

func (w *world) addUsers(t *testing.T) {
	t.Helper()
	scheme := w.Client.Scheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(w.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	create := func(o client.Object) {
		t.Helper()
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(context.Background(), o) })
	}
	remover := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "attacks-remover"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "policy", "storage.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}
	noder := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "attacks-noder"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"*"}}}}
	confirmer := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "attacks-confirmer"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"pods", "nodes"}, Verbs: []string{"force-delete"}}}}
	create(remover)
	create(noder)
	create(confirmer)
	subject := func(user string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	}
	role := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	for user, roles := range map[string][]string{
		"operator": {remover.Name, confirmer.Name}, "remover": {remover.Name}, "noder": {noder.Name}, repair: {remover.Name, "podgrace-confirm-node"},
	} {
		for _, r := range roles {
			create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "attacks-"}, RoleRef: role(r), Subjects: subject(user)})
		}
	}
	for _, ns := range w.namespaces() {
		for _, tenant := range tenants {
			create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "attacks-"}, RoleRef: role(tenant), Subjects: subject(tenant)})
		}
	}
	for _, name := range []string{"edit", "admin", "operator", "remover", "noder", repair} {
		config, err := w.User(name)
		w.addUser(t, name, config, err)
	}
	w.addUser(t, "root", w.Config, nil)
	for i := range perGroup {
		for _, of := range []string{busy, cold} {
			node := fmt.Sprintf("%s-%d", of, i)
			config, err := w.User("system:node:"+node, "system:nodes")
			w.addUser(t, kubelet(node), config, err)
		}
	}
	config, err := w.User("system:node:elsewhere", "system:nodes")
	w.addUser(t, "other", config, err)
	w.addUser(t, "ghost", w.impersonating("ghost", "system:nodes", "system:masters"), nil)
	w.addUser(t, "gc", w.impersonating("system:serviceaccount:kube-system:pod-garbage-collector", "system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"), nil)
}

func kubelet(node string) string { return "kubelet of " + node }

func (w *world) impersonating(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(w.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

func (w *world) addUser(t *testing.T, name string, config *rest.Config, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if w.users[name], err = rest.HTTPClientFor(config); err != nil {
		t.Fatal(err)
	}
}

func container() []corev1.Container {
	return []corev1.Container{{Name: "main", Image: "localhost/none:1"}}
}

func template(app, of string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{
		Containers: container(), NodeSelector: map[string]string{group: of}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}}
}

func (w *world) deployment(ns string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(perGroup)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template("web", busy)}}
}

func (w *world) statefulSet(ns, of string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: of}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(perGroup)), PodManagementPolicy: appsv1.ParallelPodManagement,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": of}}, Template: template(of, of)}}
}

// bare are the pods without a controller, with the identity that a StatefulSet gave or with a ReadWriteOnce claim, on nodes of both groups.
func (w *world) bare() []*corev1.Pod {
	var pods []*corev1.Pod
	for i, of := range []string{busy, cold} {
		host := template("host", of)
		host.Namespace, host.Name = w.stateful, fmt.Sprintf("host-%d", i)
		host.Spec.Hostname, host.Spec.NodeName = host.Name, fmt.Sprintf("%s-%d", of, i)
		disk := template("disk", of)
		disk.Namespace, disk.Name = w.stateful, fmt.Sprintf("disk-%d", i)
		disk.Spec.NodeName = fmt.Sprintf("%s-%d", of, i)
		disk.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: disk.Name}}}}
		for _, p := range []corev1.PodTemplateSpec{host, disk} {
			pods = append(pods, &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: p.Spec})
		}
	}
	return pods
}

func claim(ns, name string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{mode}, StorageClassName: new(""),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
}

// isShell reports whether a Node is none of those that the walk made: a server-side apply recreated it, with nothing but its name.
func isShell(n *corev1.Node) bool { return n.Labels[group] == "" }

// tend puts back what the walk removed, so that there is something to attack, between rounds: nobody else writes then but controllers.
func (w *world) tend(t *testing.T, m *model, pick func(n int) int) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	names, on, clear := map[string]bool{}, map[string]bool{}, w.hasty || pick(4) == 0
	for _, p := range m.pods {
		names[podName(p.pod)] = true
		on[p.pod.Spec.NodeName] = true
		// What has ended would be more than the rest soon, and what a Node left behind holds up the next one of its name.
		if left := p.pod.Spec.NodeName != "" && m.nodeOf(p.pod.Spec.NodeName).node == nil; clear && (finished(p.pod) || left) {
			must(w.clear(ctx, p.pod))
		}
	}
	for i := range perGroup {
		for _, of := range []string{busy, cold} {
			name := fmt.Sprintf("%s-%d", of, i)
			n := m.nodeOf(name)
			switch {
			case n.node == nil && (w.hasty || !on[name]): // a name is used again once nothing is left of the node before
				delete(w.back, name)
				w.StopHeartbeat(name)
				w.addNode(t, name)
			case n.node != nil && isShell(n.node): // or nobody would make the real one any more; pods and the lease of the node before may hold it
				m.said.actors[n.node.UID] = true
				must(client.IgnoreNotFound(w.actor.Delete(ctx, n.node.DeepCopy())))
			case n.node != nil && outOfService(n.node) && pick(10) == 0:
				must(client.IgnoreNotFound(w.Client.Patch(ctx, n.node.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"taints":null}}`)))))
			}
		}
	}
	w.tendCold(t, m, pick)
	for _, ns := range w.namespaces() {
		for _, of := range []string{busy, cold} {
			if !names[ns+"/"+of+"-0"] || pick(10) == 0 {
				must(client.IgnoreAlreadyExists(w.Client.Create(ctx, w.statefulSet(ns, of))))
			}
		}
	}
	for _, p := range w.bare() {
		if !names[podName(p)] && m.nodeOf(p.Spec.NodeName).node != nil {
			w.addBare(t, m, p)
		}
	}
	if pick(2) == 0 && len(m.attachments) < 4*perGroup {
		name := fmt.Sprintf("va-%d", time.Now().UnixNano())
		a := attachment(name, fmt.Sprintf("%s-%d", []string{busy, cold}[pick(2)], pick(perGroup)))
		must(w.Client.Create(ctx, a))
		if pick(4) > 0 {
			a.Status.Attached = true // as its driver says
			must(w.Client.Status().Update(ctx, a))
		}
	}
}

// clear removes a pod, unless a controller has done so meanwhile.
func (w *world) clear(ctx context.Context, p *corev1.Pod) error {
	p = p.DeepCopy()
	if len(p.Finalizers) > 0 {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"uid":%q,"finalizers":null}}`, p.UID))
		if err := w.Client.Patch(ctx, p, patch); err != nil {
			return ignoreReplaced(err)
		}
	}
	return ignoreReplaced(w.Client.Delete(ctx, p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID}))
}

func ignoreReplaced(err error) error {
	// The UID of a patch is invalid where another pod has the name by then. On a busy machine the guard may not be able to read what it needs of a node:
	// the pod is cleared in a later round.
	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.ReasonForError(err) == metav1.StatusReason(guard.Unsafe.Code) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// tendCold lets a cold node come back now and then, and fall silent again.
func (w *world) tendCold(t *testing.T, m *model, pick func(n int) int) {
	t.Helper()
	name := fmt.Sprintf("%s-%d", cold, pick(perGroup))
	if m.nodeOf(name).node == nil {
		return
	}
	since, ok := w.back[name]
	switch {
	case !ok && pick(8) == 0:
		w.unlessGone(t, name, w.TryRevive)
		w.back[name] = time.Now()
	case ok && time.Since(since) > 2*time.Second: // so that no heartbeat is like another, which are written to the second
		w.unlessGone(t, name, w.TrySilence)
		delete(w.back, name)
	}
}

// unlessGone has a node speak that a controller may be removing: what was asked for in the last round goes on.
func (w *world) unlessGone(t *testing.T, name string, try func(context.Context, string) (*corev1.Node, error)) {
	t.Helper()
	suite.Eventually(t, "node "+name+" to be written", func(ctx context.Context) (bool, error) {
		_, err := try(ctx, name)
		return err == nil || apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// addBare makes a pod without a controller, and its claim again, and reports it running as its kubelet would.
func (w *world) addBare(t *testing.T, m *model, p *corev1.Pod) {
	t.Helper()
	ctx := t.Context()
	exclusive := len(p.Spec.Volumes) > 0
	if exclusive {
		c := claim(p.Namespace, p.Name, corev1.ReadWriteOnce)
		err := w.Client.Delete(ctx, c.DeepCopy())
		if err == nil {
			err = w.Client.Patch(ctx, c.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		}
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		if err := w.Client.Create(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Client.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	if exclusive {
		m.said.exclusive[p.UID] = true
		p.Status.Phase, p.Status.StartTime = corev1.PodRunning, new(metav1.Now())
		if err := w.Client.Status().Update(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
}
