package apiserver

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/volumelock"
)

// gated is the driver that these tests gate, other one that they leave alone.
const (
	gated = "nfs.csi.k8s.io"
	other = "ebs.csi.example.com"
)

// withVolumeLock installs what the component has but for the Deployment, until the test ends, and returns when the policies hold. In a cluster that runs already an attach/detach controller
// takes VolumeAttachments away that no pod needs.
func withVolumeLock(t *testing.T) *suite.Suite {
	t.Helper()
	s := shared.Get(t)
	if s.Webhook == nil {
		t.Skip("its controllers would detach what no pod uses")
	}
	probe := attachment("probe", gated, "n1", "probe")
	s.Create(t, probe)
	requests := map[string]func(context.Context) error{
		"volume-attachments.podgrace.dev": func(ctx context.Context) error {
			says := probe.DeepCopy()
			says.Status.Attached = true
			return s.Client.Status().Update(ctx, says, client.DryRunAll)
		},
		"volume-locks.podgrace.dev": func(ctx context.Context) error { return s.Client.Create(ctx, lock("probe"), client.DryRunAll) },
	}
	// The API server goes on for a moment with policies that a test before this one has deleted. They have the same names.
	for name, request := range requests {
		suite.OutOfForce(t, name, request)
	}
	if err := podgrace.AllowVolumeLock(t.Context(), s.Cluster, gated); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The last ones are those by which the next test sees that they are gone.
		for _, name := range []string{"volume-attachment-names.podgrace.dev", "volume-locks.podgrace.dev", "volume-attachments.podgrace.dev"} {
			_ = s.Client.Delete(context.Background(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}})
			_ = s.Client.Delete(context.Background(), &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	})
	for name, request := range requests {
		suite.InForce(t, name, request)
	}
	return s
}

func attachment(name, driver, node, volume string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new(volume)},
	}}
}

func lock(name string) *v1alpha1.VolumeLock {
	return &v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.VolumeLockSpec{
		Driver: gated, Volume: "h", Identity: v1alpha1.VolumeByHandle, PersistentVolume: "pv", VolumeHandle: "h",
		Node: v1alpha1.BootReference{Name: "n1", UID: "u", BootID: "b"}, Attachment: v1alpha1.AttachmentReference{Name: "a", UID: "a"},
	}}
}

// Of a gated driver only the volume lock says attached, whoever else may write what; other drivers' attachers are not held up.
func TestOnlyTheVolumeLockAttaches(t *testing.T) {
	s := withVolumeLock(t)
	itself, _ := s.Warned(t, podgrace.VolumeLockUser)
	impostor, _ := s.Warned(t, strings.Replace(podgrace.VolumeLockUser, "podgrace-system", "shop", 1), "system:masters")
	attacher, _ := s.Warned(t, "system:serviceaccount:csi:attacher", "system:masters")
	say := func(by client.Client, a *storagev1.VolumeAttachment, attached bool, problem string) error {
		status := map[string]any{"attached": attached}
		if problem != "" {
			status["attachError"] = map[string]any{"message": problem}
		}
		text, err := yaml.Marshal(map[string]any{"status": status})
		if err != nil {
			t.Fatal(err)
		}
		json, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		return by.Status().Patch(t.Context(), a, client.RawPatch(types.MergePatchType, json))
	}
	const only = "only the volume lock says that a volume of driver nfs.csi.k8s.io is attached"

	a := attachment("gated", gated, "n1", "pv")
	a.Status.Attached = true
	s.Create(t, a)
	if a.Status.Attached {
		t.Error("the API server takes status.attached from who makes a VolumeAttachment: the policy is not about that")
	}
	whole := a.DeepCopy()
	whole.Status.Attached, whole.Labels = true, map[string]string{"a": "b"}
	if err := s.Client.Update(t.Context(), whole); err != nil || whole.Status.Attached {
		t.Errorf("an update of the object: attached %t, %v", whole.Status.Attached, err)
	}
	for name, by := range map[string]client.Client{"an administrator": s.Client, "an attacher": attacher, "an account of that name elsewhere": impostor} {
		if err := say(by, a.DeepCopy(), true, ""); err == nil || !strings.Contains(err.Error(), only) {
			t.Errorf("%s: got %v", name, err)
		}
		if err := say(by, a.DeepCopy(), false, "cannot"); err != nil {
			t.Errorf("%s: an error: %v", name, err)
		}
	}
	if err := say(itself, a.DeepCopy(), true, ""); err != nil {
		t.Errorf("the volume lock: %v", err)
	}
	if err := say(attacher, a.DeepCopy(), true, "an error beside"); err != nil {
		t.Errorf("what is attached already: %v", err)
	}
	if err := say(attacher, a.DeepCopy(), false, ""); err != nil {
		t.Errorf("detached: %v", err)
	}
	if err := say(attacher, a.DeepCopy(), true, ""); err == nil || !strings.Contains(err.Error(), only) {
		t.Errorf("attached again: got %v", err)
	}
	free := attachment("other", other, "n1", "pv")
	s.Create(t, free)
	if err := say(attacher, free.DeepCopy(), true, ""); err != nil {
		t.Errorf("another driver: %v", err)
	}
}

// A VolumeAttachment by a name that a kubelet looks for is made by whoever may write the status of Nodes, as the attach/detach controller does, and by nobody else, whatever its attacher is.
func TestNamesThatKubeletsLookFor(t *testing.T) {
	s := withVolumeLock(t)
	s.Grant(t, rbacv1.UserKind, "maker", "", rbacv1.PolicyRule{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments"}, Verbs: []string{"create"}})
	maker, _ := s.Warned(t, "maker")
	controller, _ := s.Warned(t, "system:serviceaccount:kube-system:attachdetach-controller")
	makes := func(by client.Client, name, driver string) func() error {
		return func() error { return by.Create(t.Context(), attachment(name, driver, "n1", "pv"), client.DryRunAll) }
	}
	suite.InForce(t, "volume-attachment-names.podgrace.dev", func(context.Context) error {
		return makes(maker, volumelock.AttachmentName(gated, "probe", "n1"), other)()
	})
	looked := volumelock.AttachmentName(gated, "h", "n1")
	const refusal = "only who may patch nodes/status makes such VolumeAttachments"
	for name, test := range map[string]struct {
		try  func() error
		want string // in the refusal; empty: none
	}{
		"for another attacher":           {makes(maker, looked, other), refusal},
		"for the gated driver":           {makes(maker, looked, gated), refusal},
		"the attach/detach controller's": {makes(controller, looked, gated), ""},
		"its, for another driver":        {makes(controller, looked, other), ""},
		"an administrator's":             {makes(s.Client, looked, other), ""},
		"by another name":                {makes(maker, "csi-1", gated), ""},
		"by one that is longer":          {makes(maker, looked+"0", other), ""},
		"by one with other characters":   {makes(maker, looked[:len(looked)-1]+"g", other), ""},
	} {
		switch err := test.try(); {
		case test.want == "" && err != nil:
			t.Errorf("%s: got %v", name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// Nobody else makes, changes or deletes a VolumeLock or writes its status, but who has the verb force-delete on it: to adopt, to confirm a release, and to delete one.
func TestVolumeLocksAreWrittenByTheVolumeLock(t *testing.T) {
	s := withVolumeLock(t)
	s.Grant(t, rbacv1.UserKind, "writer", "", rbacv1.PolicyRule{
		APIGroups: []string{"podgrace.dev"}, Resources: []string{"volumelocks", "volumelocks/status"}, Verbs: []string{"get", "create", "update", "patch", "delete"},
	})
	s.Bind(t, rbacv1.UserKind, "oncall", "", "podgrace-confirm-release")
	itself, _ := s.Warned(t, podgrace.VolumeLockUser)
	writer, _ := s.Warned(t, "writer")
	oncall, _ := s.Warned(t, "oncall")

	held := lock("volume-held")
	suite.Eventually(t, "the volume lock's right", func(ctx context.Context) (bool, error) {
		err := itself.Create(ctx, held)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), held) })
	annotate := func(by client.Client, name string) func() error {
		return func() error {
			return by.Patch(t.Context(), held.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+name+`":"x"}}}`)), client.DryRunAll)
		}
	}
	status := func(by client.Client) func() error {
		return func() error {
			return by.Status().Patch(t.Context(), held.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"release":{"since":"2026-11-24T02:10:00.000000Z"}}}`)))
		}
	}
	another := func(by client.Client, adopted bool) func() error {
		l := lock("volume-other")
		l.Spec.Adopted = adopted
		return func() error { return by.Create(t.Context(), l.DeepCopy(), client.DryRunAll) }
	}
	for name, test := range map[string]struct {
		try  func() error
		want string // in the refusal; empty: none
	}{
		"a writer takes a volume":            {another(writer, false), "only the volume lock takes a volume"},
		"a writer adopts":                    {another(writer, true), "only the volume lock takes a volume"},
		"an administrator takes a volume":    {another(s.Client, false), "only the volume lock takes a volume"},
		"an administrator adopts":            {another(s.Client, true), ""},
		"a writer writes the status":         {status(writer), "only the volume lock writes the status"},
		"an administrator writes the status": {status(s.Client), "only the volume lock writes the status"},
		"a writer confirms":                  {annotate(writer, v1alpha1.AnnotationConfirmRelease), "you need the verb force-delete on volumelocks.podgrace.dev"},
		"who is on call confirms":            {annotate(oncall, v1alpha1.AnnotationConfirmRelease), ""},
		"a writer deletes":                   {func() error { return writer.Delete(t.Context(), held.DeepCopy(), client.DryRunAll) }, "deleting its VolumeLock gives it to another node"},
		"an administrator deletes":           {func() error { return s.Client.Delete(t.Context(), held.DeepCopy(), client.DryRunAll) }, ""},
		"the volume lock deletes":            {func() error { return itself.Delete(t.Context(), held.DeepCopy(), client.DryRunAll) }, ""},
		"an administrator gives it to another": {func() error {
			return s.Client.Patch(t.Context(), held.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"node":{"name":"n2"}}}`)))
		}, "who holds a volume does not change"},
	} {
		switch err := test.try(); {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// The volume lock does all that it is for with the rights that deploy gives it, asks for nothing that it is refused, and uses each of them.
func TestVolumeLockHasWhatItNeeds(t *testing.T) {
	s := withVolumeLock(t)
	program, err := podgrace.BuildVolumeLock(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := podgrace.VolumeLockKubeconfig(s.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	asked := recordRequests(t, kubeconfig)
	l, err := podgrace.StartVolumeLock(t.Context(), s.Cluster, program, asked.kubeconfig, []string{gated})
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		if err := l.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)

	const handle = "server#share"
	inUse := volumelock.InUseName(gated, handle)
	d, err := podgrace.CreateAdopted(t.Context(), s.Client, gated)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), d) })
	s.Create(t, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "locked"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: gated, VolumeHandle: handle}},
	}})
	ready := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	beat := ready
	says := func(n *corev1.Node, uses ...corev1.UniqueVolumeName) { // as a kubelet does
		beat = metav1.NewTime(beat.Add(10 * time.Second))
		n.Status.NodeInfo.BootID, n.Status.VolumesInUse = "boot-"+n.Name, uses
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: ready, LastHeartbeatTime: beat}}
	}
	for _, name := range []string{"lock-1", "lock-2"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Create(t, n)
		says(n, inUse)
		if err := s.Client.Status().Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	to := func(node string) *storagev1.VolumeAttachment {
		return attachment(volumelock.AttachmentName(gated, handle, node), gated, node, "locked")
	}
	attached := func(node string) bool {
		a := to(node)
		return s.Client.Get(t.Context(), client.ObjectKeyFromObject(a), a) == nil && a.Status.Attached
	}
	first := to("lock-1")
	s.Create(t, first)
	suite.Eventually(t, "the volume attached", func(context.Context) (bool, error) { return attached("lock-1"), nil })
	s.Create(t, to("lock-2"))
	// The other one is that by which it was seen that the policies hold.
	suite.Eventually(t, "one held and two waiting, by the metrics", func(ctx context.Context) (bool, error) {
		text, err := metricsOf(ctx, l.MetricsURL)
		return strings.Contains(text, "\npodgrace_volumelock_locks{state=\"Held\"} 1\n") && strings.Contains(text, "\npodgrace_volumelock_waiting_attachments 2\n") &&
			strings.Contains(text, "\nleader_election_master_status{name=\"podgrace-volumelock\"} 1\n"), err
	})

	// The first node unmounts, and only then its VolumeAttachment is deleted, as the attach/detach controller does.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lock-1"}}
	answer := func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		says(node)
		return s.Client.Status().Update(ctx, node)
	}
	suite.Eventually(t, "the volume unmounted", func(ctx context.Context) (bool, error) {
		err := answer(ctx)
		return err == nil, client.IgnoreNotFound(err)
	})
	if attached("lock-2") {
		t.Error("two nodes have it")
	}
	if err := s.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the volume at the other node", func(ctx context.Context) (bool, error) {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return false, err
		}
		if slices.Contains(node.Status.VolumesInUse, inUse) { // its kubelet is asked
			if err := answer(ctx); err != nil && !apierrors.IsConflict(err) {
				return false, err
			}
		}
		return attached("lock-2"), nil
	})
	// The last one: it is released by nobody here, and its finalizer is taken away while the volume lock runs.
	if err := s.Client.Delete(t.Context(), to("lock-2")); err != nil {
		t.Fatal(err)
	}
	second := &v1alpha1.VolumeLock{}
	suite.Eventually(t, "the second attachment gone", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(to("lock-2")), &storagev1.VolumeAttachment{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	var locks v1alpha1.VolumeLockList
	if err := s.Client.List(t.Context(), &locks); err != nil || len(locks.Items) != 1 || locks.Items[0].Spec.Node.Name != "lock-2" {
		t.Errorf("held: %+v, %v", locks.Items, err)
	} else {
		second = &locks.Items[0]
	}
	stop()
	if err := s.Client.Delete(t.Context(), second); err != nil {
		t.Error(err)
	}

	used, refused := asked.take()
	if len(refused) > 0 {
		t.Errorf("refused: %q", refused)
	}
	given := rightsOf(t, "ClusterRole", "Role")
	for right := range given {
		// No Node is deleted here, whose VolumeAttachments it would delete. A second Event of the same is a patch, and an informer lists where the API server does not send what there is with the watch.
		instead, lists := strings.CutSuffix(right, " list")
		if !used[right] && right != "storage.k8s.io/volumeattachments delete" && !strings.HasSuffix(right, "events patch") && (!lists || !used[instead+" watch"]) {
			t.Errorf("not used: %s", right)
		}
	}
	for right := range used {
		if !given[right] {
			t.Errorf("used, and of no role: %s", right)
		}
	}
}

// metricsOf is what a program tells.
func metricsOf(ctx context.Context, at string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/metrics", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// rightsOf are the rights of the volume lock's own roles, as group/resource verb.
func rightsOf(t *testing.T, kinds ...string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../deploy/components/volumelock/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rights := map[string]bool{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(kinds, role.Kind) || role.Name != "podgrace-volumelock" && role.Name != "podgrace-volumelock-events" {
			continue
		}
		for _, r := range role.Rules {
			for _, of := range r.Resources {
				for _, verb := range r.Verbs {
					rights[r.APIGroups[0]+"/"+of+" "+verb] = true
				}
			}
		}
	}
	return rights
}

// requests are those that pass a proxy of the API server.
type requests struct {
	kubeconfig string

	mu      sync.Mutex
	used    map[string]bool
	refused []string
}

// recordRequests starts a proxy, until the test ends, which speaks to the API server by a kubeconfig, and returns one for whoever is to speak through it.
func recordRequests(t *testing.T, kubeconfig string) *requests {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	r := &requests{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), used: map[string]bool{}}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }, Transport: transport, FlushInterval: -1,
		ModifyResponse: func(response *http.Response) error { r.note(response); return nil },
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	through := clientcmdapi.NewConfig()
	through.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	through.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	through.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*through, r.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *requests) take() (used map[string]bool, refused []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.used), slices.Clone(r.refused)
}

func (r *requests) note(response *http.Response) {
	right := rightFor(response.Request)
	if right == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used[right] = true
	if response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized {
		r.refused = append(r.refused, response.Request.Method+" "+response.Request.URL.String())
	}
}

// rightFor is the right that a request takes, as group/resource verb; empty: it is for no resource (k8s.io/apiserver pkg/endpoints/request/requestinfo.go, 0.36.3).
func rightFor(request *http.Request) string {
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	group := ""
	switch {
	case len(path) > 2 && path[0] == "api":
		path = path[2:]
	case len(path) > 3 && path[0] == "apis":
		group, path = path[1], path[3:]
	default:
		return ""
	}
	if len(path) > 2 && path[0] == "namespaces" {
		path = path[2:]
	}
	of := path[0]
	if len(path) > 2 {
		of += "/" + path[2]
	}
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete", http.MethodGet: "get"}[request.Method]
	if verb == "get" && len(path) == 1 {
		verb = "list"
		if request.URL.Query().Has("watch") {
			verb = "watch"
		}
	}
	return group + "/" + of + " " + verb
}
