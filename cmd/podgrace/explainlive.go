package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/cli/load"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/pod/graceperiod/deadline"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/enforcement"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// livePod is a pod of the cluster, and what the cluster knows around it.
func (o *explainOptions) livePod(ctx context.Context, t terminal.Terminal) (*explain.Input, error) {
	reader, err := o.inputs.Client()
	if err != nil {
		return nil, err
	}
	policies, policiesErr := o.podPolicies(ctx, t, reader)
	if _, typed := errors.AsType[terminal.UsageError](policiesErr); typed {
		return nil, policiesErr // what is wrong in a file is told at once
	}
	var pod corev1.Pod
	if err := reader.Get(ctx, types.NamespacedName{Namespace: o.inputs.Namespace, Name: o.name}, &pod); err != nil {
		return nil, fmt.Errorf("read pod %s/%s: %w", o.inputs.Namespace, o.name, err)
	}
	kube, err := o.inputs.Clientset()
	if err != nil {
		return nil, err
	}
	in := &explain.Input{Pod: &pod, Created: true, User: me(whoAmI(ctx, kube), o.user, o.groups)}
	if policiesErr != nil {
		in.PoliciesUnknown = true
	}
	store, unread, err := webhook.NewStoredPolicies(policies...)
	if err != nil {
		return nil, err
	}
	load.TellUnread(t, unread)
	exempt, err := o.inputs.ExemptOf(ctx, t, reader)
	if err != nil {
		return nil, err
	}
	w := &webhook.Engine{
		Policies: store, Lookup: &lookup.Lookup{Informers: reader, Live: reader}, Ready: func() bool { return true }, Exempt: exempt,
	}
	exceptions, err := review.ExceptionsOf(ctx, reader, pod.Namespace, w.Now())
	in.ExceptionsUnknown = err != nil
	w.Lookup.Exceptions = func(string) policy.Exceptions { return exceptions }
	if err := review.Situate(ctx, w, reader, in); err != nil {
		return nil, err
	}
	stops(ctx, kube, in)
	return in, o.liveNodePolicy(ctx, reader, in)
}

// stops reads how long those who stop the pod's node wait for it, which budgets select it, and what its Events say. What can't be read stays unknown: all of it takes rights
// of its own, and the explanation is of use without them.
func stops(ctx context.Context, kube kubernetes.Interface, in *explain.Input) {
	if events, err := kube.CoreV1().Events(in.Pod.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(in.Pod.UID)}); err == nil {
		in.Events = events.Items
	}
	if budgets, err := kube.PolicyV1().PodDisruptionBudgets(in.Pod.Namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for i := range budgets.Items {
			selector, err := metav1.LabelSelectorAsSelector(budgets.Items[i].Spec.Selector)
			if err == nil && selector.Matches(labels.Set(in.Pod.Labels)) {
				in.Budgets = append(in.Budgets, &budgets.Items[i])
			}
		}
	}
	if in.Node == nil {
		return
	}
	facts := deadline.Facts{Labels: in.Node.Labels}
	var told struct {
		Config *kubeletconfigv1beta1.KubeletConfiguration `json:"kubeletconfig"`
	}
	if get(ctx, kube, &told, "/api/v1/nodes", in.Node.Name, "proxy/configz") == nil {
		in.Kubelet, facts.Kubelet = told.Config, told.Config
	}
	for _, owner := range in.Node.OwnerReferences {
		var claim unstructured.Unstructured
		if owner.Kind == "NodeClaim" && get(ctx, kube, &claim.Object, "/apis/karpenter.sh/v1/nodeclaims", owner.Name) == nil {
			facts.Pool = deadline.ReadNodePool(&claim)
		}
	}
	if deployments, err := kube.AppsV1().Deployments(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{}); err == nil {
		for i := range deployments.Items {
			if waits := deadline.AutoscalerOf(&deployments.Items[i]); waits != nil {
				facts.Autoscaler = waits
			}
		}
	}
	in.Deadlines = deadline.Of(in.Pod, facts)
}

// get reads what the client has no type for.
func get(ctx context.Context, kube kubernetes.Interface, into any, path ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // a kubelet may be away
	defer cancel()
	body, err := kube.Discovery().RESTClient().Get().AbsPath(path...).DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	return err
}

// podPolicies are those of the files, or of the cluster.
func (o *explainOptions) podPolicies(ctx context.Context, t terminal.Terminal, reader client.Reader) ([]*v1alpha1.PodPolicy, error) {
	if len(o.inputs.Policies) > 0 {
		files, err := load.ReadPolicyFiles("--policy", o.inputs.Policies, t.In)
		if err != nil {
			return nil, err
		}
		policies, wrong, err := files.Require()
		if err == nil && len(wrong) > 0 {
			err = terminal.UsageError{Err: manifest.Join(wrong)}
		}
		return policies, err
	}
	return review.PoliciesOf(ctx, reader)
}

// liveNodePolicy finds the policy of the pod's node.
func (o *explainOptions) liveNodePolicy(ctx context.Context, reader client.Reader, in *explain.Input) error {
	if len(o.nodePolicies) > 0 {
		return o.nodePolicy(in)
	}
	policies, err := nodePoliciesOf(ctx, reader)
	if in.NodePolicyUnknown = err != nil; err == nil {
		in.NodePolicy, in.NodePolicyName = heaviest(in.Node, policies)
	}
	return nil
}

// nodePoliciesOf are a cluster's. There are none if the CustomResourceDefinition is not installed, and nor is the enforcer then.
func nodePoliciesOf(ctx context.Context, reader client.Reader) ([]*v1alpha1.NodePolicy, error) {
	var list v1alpha1.NodePolicyList
	if err := reader.List(ctx, &list); err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("read the NodePolicies: %w", err)
	}
	policies := make([]*v1alpha1.NodePolicy, len(list.Items))
	for i := range list.Items {
		policies[i] = &list.Items[i]
	}
	return policies, nil
}

// heaviest is the policy that the enforcer of this node goes by; of an unknown node the heaviest without a selector.
func heaviest(node *corev1.Node, policies []*v1alpha1.NodePolicy) (*v1alpha1.NodePolicySpec, string) {
	if node == nil {
		node = &corev1.Node{}
	}
	p, _ := enforcement.PolicyFor(node, policies) // one whose selector does not compile selects nothing
	if p == nil {
		return nil, ""
	}
	return &p.Spec, p.Name
}

// whoAmI is nil where the API server does not say.
func whoAmI(ctx context.Context, kube kubernetes.Interface) *authenticationv1.UserInfo {
	r, err := kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil
	}
	return &r.Status.UserInfo
}

// rights asks what a user may do. Everybody may ask about themselves; about others only who may create SubjectAccessReviews.
type rights struct {
	kube kubernetes.Interface
	self bool
}

// Create answers a SubjectAccessReview.
func (r rights) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	review, ok := o.(*authorizationv1.SubjectAccessReview)
	if !ok {
		return errors.New("no SubjectAccessReview")
	}
	if r.self {
		own := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: review.Spec.ResourceAttributes}}
		answer, err := r.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, own, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask what you may do: %w", err)
		}
		review.Status = answer.Status
		return nil
	}
	answer, err := r.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("ask what %s may do: %w", review.Spec.User, err)
	}
	review.Status = answer.Status
	return nil
}

// completeArgs offers the pods of the namespace to a shell.
func (o *explainOptions) completeArgs(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 || len(o.inputs.Paths) > 0 {
		return nil, none
	}
	namespace, _, err := o.inputs.Kube.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, none
	}
	kube, err := o.inputs.Clientset()
	if err != nil {
		return nil, none
	}
	names, _ := (&confirm.Client{Kube: kube}).Complete(cmd.Context(), namespace, prefix)
	return names, none
}

// podsOfSets are the StatefulSets that would make a pod of the name that is asked for, each as if its first pod were that one. The error says
// which pods there are of a StatefulSet that does not make it.
func (o *explainOptions) podsOfSets(documents []*manifest.Document) (found []*manifest.Document, err error) {
	kind, name, qualified := strings.Cut(o.name, "/")
	if !qualified {
		kind, name = "Pod", o.name
	}
	set, ordinal, ok := cutOrdinal(name)
	if !ok || !kindIs(kind, podKind) {
		return nil, nil
	}
	for _, d := range documents {
		if d.Kind != "StatefulSet" || d.APIVersion != appsv1.SchemeGroupVersion.String() || d.Name != set || !o.inNamespace(d) {
			continue
		}
		made, wrong := podOfSet(d, ordinal)
		if wrong != nil {
			err = wrong
			continue
		}
		found = append(found, made)
	}
	return found, err
}

// cutOrdinal takes the name of a StatefulSet's pod apart.
func cutOrdinal(name string) (set string, ordinal int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	return name[:i], int32(n), err == nil && strconv.FormatInt(n, 10) == name[i+1:] && n >= 0
}

func podOfSet(d *manifest.Document, ordinal int32) (*manifest.Document, error) {
	var set appsv1.StatefulSet
	if json.Unmarshal(d.JSON, &set) != nil {
		return d, nil // whose reader says what is wrong with it
	}
	first := int32(0)
	if set.Spec.Ordinals != nil {
		first = set.Spec.Ordinals.Start
	}
	last := first + ptr.Deref(set.Spec.Replicas, 1) - 1
	if ordinal < first || ordinal > last {
		return nil, fmt.Errorf("StatefulSet %s (%s:%d) makes no pod %s-%d: %s", d.Name, d.File, d.Line, d.Name, ordinal, podsFrom(d.Name, first, last))
	}
	raw, err := jsonpatch.MergePatch(d.JSON, fmt.Appendf(nil, `{"spec":{"ordinals":{"start":%d}}}`, ordinal))
	if err != nil {
		return nil, fmt.Errorf("StatefulSet %s: %w", d.Name, err)
	}
	made := *d
	made.JSON = raw
	return &made, nil
}

func podsFrom(set string, first, last int32) string {
	switch {
	case last < first:
		return "it has no replicas"
	case last == first:
		return fmt.Sprintf("its only pod is %s-%d", set, first)
	}
	return fmt.Sprintf("its pods are %s-%d to %s-%d", set, first, set, last)
}

// madeAtRandom is a workload by whose name that of a pod begins which is asked for: its pods' names are made up in the cluster.
func (o *explainOptions) madeAtRandom(documents []*manifest.Document) *manifest.Document {
	name := o.name[strings.LastIndexByte(o.name, '/')+1:]
	makers := []string{"Deployment", "ReplicaSet", "DaemonSet", "Job", "CronJob", "ReplicationController"}
	i := slices.IndexFunc(documents, func(d *manifest.Document) bool {
		return slices.Contains(makers, d.Kind) && strings.HasPrefix(name, d.Name+"-") && o.inNamespace(d)
	})
	if i < 0 {
		return nil
	}
	return documents[i]
}
