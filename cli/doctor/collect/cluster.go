package collect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/doctor"
	"github.com/podgrace/podgrace/policy"
)

// Options of what is read.
type Options struct {
	// Namespace of Podgrace; empty: where the webhook configurations say that it is, else the one that the manifests have.
	Namespace string
	// Kubelets: their configurations are read as well, which takes nodes/proxy.
	Kubelets bool
	// CLI is the version of the program.
	CLI string
	// Now is this machine's time. Of a cluster, the API server's counts, if it tells it.
	Now time.Time
}

// FromCluster reads a cluster. It is an error only where the API server can't be reached at all.
func FromCluster(ctx context.Context, config *rest.Config, o Options) (*doctor.Snapshot, error) {
	config = rest.CopyConfig(config)
	var told clock
	config.Wrap(told.watch)
	kube, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	r := &reader{kube: kube, rest: typed.Discovery().RESTClient(), s: newSnapshot(o)}
	if err := r.server(ctx); err != nil {
		return nil, err
	}
	if now := told.now(); !now.IsZero() {
		r.s.Now = now
	}
	// Where Podgrace is, the configurations say.
	r.list(ctx, doctor.Mutating, &admissionregistrationv1.MutatingWebhookConfigurationList{})
	r.list(ctx, doctor.Validating, &admissionregistrationv1.ValidatingWebhookConfigurationList{})
	r.s.OwnNamespace = cmp.Or(o.Namespace, r.s.NamespaceOf(), doctor.DefaultNamespace)

	r.list(ctx, doctor.Nodes, &corev1.NodeList{})
	r.list(ctx, doctor.Deployments, &appsv1.DeploymentList{})
	r.list(ctx, doctor.DaemonSets, &appsv1.DaemonSetList{})
	r.list(ctx, doctor.AdmissionPolicies, &admissionregistrationv1.ValidatingAdmissionPolicyList{})
	r.list(ctx, doctor.AdmissionBindings, &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{})
	r.list(ctx, doctor.PodPolicies, &v1alpha1.PodPolicyList{})
	r.list(ctx, doctor.NodePolicies, &v1alpha1.NodePolicyList{})
	pools := &unstructured.UnstructuredList{}
	pools.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePoolList"})
	r.list(ctx, doctor.NodePools, pools)
	r.list(ctx, doctor.PriorityClasses, &schedulingv1.PriorityClassList{})
	r.list(ctx, doctor.VolumeLocks, &v1alpha1.VolumeLockList{})
	r.list(ctx, doctor.CSIDrivers, &storagev1.CSIDriverList{})
	r.list(ctx, doctor.VolumeAttachments, &storagev1.VolumeAttachmentList{})
	for _, name := range doctor.Rights()[doctor.CRDs].Names {
		r.get(ctx, doctor.CRDs, "", name, &apiextensionsv1.CustomResourceDefinition{})
	}
	r.get(ctx, doctor.Namespace, "", r.s.OwnNamespace, &corev1.Namespace{})
	r.get(ctx, doctor.Namespace, "", policy.NodeNamespace, &corev1.Namespace{})
	if r.s.Namespace != nil || r.s.Unread[doctor.Namespace] != "" { // in a namespace that is not there is nothing to be read, nor any right to it
		r.own(ctx)
	}
	r.list(ctx, doctor.ControllerManagers, &corev1.PodList{}, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"component": "kube-controller-manager"})
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	r.list(ctx, doctor.Records, pods)
	r.metrics(ctx)
	if o.Kubelets {
		r.kubelets(ctx)
	}
	return r.s, nil
}

// clock is the time of the API server by its first answer, to the second. What is compared with it was written in the cluster, and the clock of whoever looks may be wrong.
type clock struct {
	first sync.Once
	date  string
}

func (c *clock) watch(next http.RoundTripper) http.RoundTripper {
	return transport(func(request *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(request)
		if err == nil {
			c.first.Do(func() { c.date = answer.Header.Get("Date") })
		}
		return answer, err
	})
}

// now is zero where no time was told.
func (c *clock) now() time.Time {
	t, err := http.ParseTime(c.date)
	if err != nil {
		return time.Time{}
	}
	return t
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

// own reads Podgrace's own namespace, and the node enforcer's if that exists.
func (r *reader) own(ctx context.Context) {
	if r.s.NodeNamespace != nil && r.s.OwnNamespace != policy.NodeNamespace {
		in := client.InNamespace(policy.NodeNamespace)
		r.list(ctx, doctor.Quotas, &corev1.ResourceQuotaList{}, in)
		r.list(ctx, doctor.LimitRanges, &corev1.LimitRangeList{}, in)
	}
	in := client.InNamespace(r.s.OwnNamespace)
	r.list(ctx, doctor.Pods, &corev1.PodList{}, in)
	r.list(ctx, doctor.Budgets, &policyv1.PodDisruptionBudgetList{}, in)
	r.list(ctx, doctor.Quotas, &corev1.ResourceQuotaList{}, in)
	r.list(ctx, doctor.LimitRanges, &corev1.LimitRangeList{}, in)
	r.get(ctx, doctor.Leases, r.s.OwnNamespace, doctor.LeaseName, &coordinationv1.Lease{})
	r.get(ctx, doctor.Roles, r.s.OwnNamespace, doctor.InForce, &rbacv1.Role{})
	r.get(ctx, doctor.RoleBindings, r.s.OwnNamespace, doctor.InForce, &rbacv1.RoleBinding{})
}

func newSnapshot(o Options) *doctor.Snapshot {
	s := &doctor.Snapshot{Now: o.Now, CLI: o.CLI, OwnNamespace: cmp.Or(o.Namespace, doctor.DefaultNamespace), Unread: map[doctor.Source]string{}}
	if !o.Kubelets {
		s.Unread[doctor.Kubelets] = doctor.NotAsked
	}
	return s
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme, admissionregistrationv1.AddToScheme, coordinationv1.AddToScheme,
		policyv1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // two packages claim one kind
		}
	}
	return scheme
}

// reader fills a snapshot.
type reader struct {
	kube client.Client
	rest rest.Interface
	s    *doctor.Snapshot
}

// note keeps why a source is unread.
func (r *reader) note(source doctor.Source, err error) {
	if err != nil && r.s.Unread[source] == "" {
		r.s.Unread[source] = reason(source, err)
	}
}

// reason is an error in few words.
func reason(source doctor.Source, err error) string {
	right, is := doctor.Rights()[source]
	if apierrors.IsForbidden(err) && is {
		what := cmp.Or(right.Path, right.String())
		switch right.Scope {
		case doctor.InOwn:
			what += " in Podgrace's namespaces"
		case doctor.InKubeSystem:
			what += " in kube-system"
		}
		return fmt.Sprintf("you may not %s %s", right.Verb, what)
	}
	if apierrors.IsForbidden(err) {
		return "you may not get " + string(source)
	}
	return err.Error()
}

// list reads a kind, page by page. A kind that the cluster does not know has no objects.
func (r *reader) list(ctx context.Context, source doctor.Source, list client.ObjectList, options ...client.ListOption) {
	pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		into, is := list.DeepCopyObject().(client.ObjectList)
		if !is {
			return nil, fmt.Errorf("%T is no list", list)
		}
		return into, r.kube.List(ctx, into, append(slices.Clone(options), &client.ListOptions{Limit: page.Limit, Continue: page.Continue})...)
	})
	err := pages.EachListItemWithAlloc(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if c, is := o.(client.Object); is && source != doctor.PodPolicies && source != doctor.NodePolicies { // a policy's say what was written and can't be read (policy.UnreadFields)
			c.SetManagedFields(nil)
		}
		r.s.Add(o)
		return nil
	})
	if !meta.IsNoMatchError(err) {
		r.note(source, err)
	}
}

// get reads one object. One that is not there is none.
func (r *reader) get(ctx context.Context, source doctor.Source, namespace, name string, into client.Object) {
	err := r.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	switch {
	case err == nil:
		r.s.Add(into)
	case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
		r.note(source, err)
	}
}

// server reads the version and the API groups. That it answers at all is seen here.
func (r *reader) server(ctx context.Context) error {
	var v version.Info
	body, err := r.rest.Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(body, &v)
	}
	var status apierrors.APIStatus
	if err != nil && !errors.As(err, &status) {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	r.note(doctor.Version, err)
	r.s.Server = v.GitVersion

	var groups metav1.APIGroupList
	body, err = r.rest.Get().AbsPath("/apis").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(body, &groups)
	}
	r.note(doctor.APIs, err)
	for _, g := range groups.Groups {
		r.s.Groups = append(r.s.Groups, g.Name)
	}
	return nil
}

func (r *reader) metrics(ctx context.Context) {
	stream, err := r.rest.Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").Stream(ctx)
	if err != nil {
		r.note(doctor.Metrics, err)
		return
	}
	defer stream.Close()
	r.s.Calls, err = calls(stream)
	r.note(doctor.Metrics, err)
}

// atOnce is how many kubelets are asked at once.
const atOnce = 10

// kubelets reads the configuration of each node's. One that does not answer has none in the snapshot, and is told by the check; where none does, nothing was read.
func (r *reader) kubelets(ctx context.Context) {
	var (
		mu    sync.Mutex
		group sync.WaitGroup
		room  = make(chan struct{}, atOnce)
		last  error
	)
	r.s.Kubelets = map[string]*kubeletconfigv1beta1.KubeletConfiguration{}
	for i := range r.s.Nodes {
		name := r.s.Nodes[i].Name
		group.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			var answer struct {
				Config *kubeletconfigv1beta1.KubeletConfiguration `json:"kubeletconfig"`
			}
			body, err := r.rest.Get().AbsPath("/api/v1/nodes", name, "proxy/configz").DoRaw(ctx)
			if err == nil {
				err = json.Unmarshal(body, &answer)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case apierrors.IsForbidden(err):
				r.note(doctor.Kubelets, err)
			case err == nil && answer.Config != nil:
				r.s.Kubelets[name] = answer.Config
			default:
				last = cmp.Or(err, errors.New("it told no configuration"))
			}
		})
	}
	group.Wait()
	if last != nil && len(r.s.Kubelets) == 0 {
		r.note(doctor.Kubelets, fmt.Errorf("no kubelet can be asked, one of them for: %w", last))
	}
}
