package review

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook"
)

// Situation is a document's pod and what is known around it, to be explained. It is nil for an object that is no pod and makes none.
func (e *Engine) Situation(ctx context.Context, d *manifest.Document, q Question) (*explain.Input, error) {
	o, err := e.State.manifest(d)
	if o == nil || err != nil {
		return nil, err
	}
	s := &step{Engine: e, view: &view{State: e.State}, question: q, result: &Result{}, template: d.Template}
	pod, err := s.podOf(o)
	if pod == nil || err != nil {
		return nil, err
	}
	in := explain.Input{Pod: pod, User: q.User, Creator: s.creator, Created: pod.Spec.NodeName != "" || pod.Status.Phase != ""}
	if err := Situate(ctx, s.handlers(), s.view, &in); err != nil {
		return nil, err
	}
	errs := validateWorkload(o)
	if _, bare := o.(*corev1.Pod); bare && !in.Created {
		errs = apiserver.ValidatePodSpec(&in.Pod.Spec, field.NewPath("spec"))
	}
	in.Invalid = s.invalidity(errs)
	in.SelectorsUnknown = s.view.noneOf(&corev1.Service{})
	in.Deadlines = e.State.Deadlines(in.Pod)
	return &in, nil
}

// Situate fills in what a webhook's lookup knows about the pod of an explanation. The reader gives what the webhook never asks
// for: the node as a whole, and the pods on it.
func Situate(ctx context.Context, w *webhook.Engine, reader client.Reader, in *explain.Input) error {
	in.Now, in.Policies, in.Exempt = w.Now(), w.Policies.Policies(), w.Exempt
	in.Namespace = w.Lookup.Namespace(ctx, in.Pod.Namespace)
	facts, err := w.Lookup.Facts(ctx, explain.Needs(*in), in.Pod.Namespace, in.Pod)
	if err != nil {
		return fmt.Errorf("look up what pod %s depends on: %w", in.Pod.Name, err)
	}
	in.Facts = facts
	in.Ungated = ungatedOf(ctx, reader, in.Pod)
	if !in.Created {
		made(in)
		return nil
	}
	removal := w.RemovalFacts(ctx, &guard.Request{Road: guard.RoadDelete, User: in.User, Pod: in.Pod, GracePeriodSeconds: new(int64(0))})
	in.Removal = &removal
	if in.Pod.Spec.NodeName != "" {
		around(ctx, reader, in)
	}
	return nil
}

// made makes of a manifest the pod that would be stored.
func made(in *explain.Input) {
	in.Review = &defaulting.Result{}
	pod := in.Pod.DeepCopy()
	if err := defaulting.ResolvePriority(pod, in.Facts); err != nil {
		in.Review.Denials = append(in.Review.Denials, defaulting.Denial{Reason: defaulting.PriorityRefused, Message: "the API server's own Priority plugin refuses it: " + err.Error()})
		return
	}
	request := policy.Request{Pod: pod, Namespace: in.Namespace, User: in.Creator}
	result := defaulting.For(in.Policies, request, in.Exempt).Apply(request, in.Facts)
	in.Review, in.Pod = &result, defaulting.Patch(pod, result.Changes)
	apiserver.MergeMatchLabelKeys(in.Pod)
}

// around reads the node, and the pods beside which the pod would be ranked.
func around(ctx context.Context, reader client.Reader, in *explain.Input) {
	var node corev1.Node
	if err := reader.Get(ctx, types.NamespacedName{Name: in.Pod.Spec.NodeName}, &node); err == nil {
		in.Node = &node
	}
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, client.MatchingFields{"spec.nodeName": in.Pod.Spec.NodeName}); err != nil {
		return
	}
	in.Neighbours = []*corev1.Pod{}
	for i := range pods.Items {
		if !graceperiod.Finished(&pods.Items[i]) {
			in.Neighbours = append(in.Neighbours, &pods.Items[i])
		}
	}
}

// ClaimOf is the claim that a StatefulSet's controller makes for one of its pods, TEMPLATE-SET-ORDINAL
// (pkg/controller/statefulset/stateful_set_utils.go getPersistentVolumeClaimName, 1.36.3). It is nil where no StatefulSet that is known would
// make one of that name, or two would make different ones: a name may be taken apart in several ways.
func (s *State) ClaimOf(key client.ObjectKey) *corev1.PersistentVolumeClaim {
	cut := strings.LastIndexByte(key.Name, '-')
	if cut < 0 {
		return nil
	}
	if n, err := strconv.ParseUint(key.Name[cut+1:], 10, 31); err != nil || strconv.FormatUint(n, 10) != key.Name[cut+1:] {
		return nil
	}
	var made *corev1.PersistentVolumeClaim
	for i, c := range key.Name[:cut] {
		if c != '-' {
			continue
		}
		claim := s.templateOfClaim(types.NamespacedName{Namespace: key.Namespace, Name: key.Name[i+1 : cut]}, key.Name[:i])
		switch {
		case claim == nil:
		case made != nil && !equality.Semantic.DeepEqual(made.Spec, claim.Spec):
			return nil
		default:
			made = claim
		}
	}
	if made != nil {
		made.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: made.Labels}
	}
	return made
}

// templateOfClaim is a copy of the StatefulSet's template of that name, or nil.
func (s *State) templateOfClaim(set types.NamespacedName, name string) *corev1.PersistentVolumeClaim {
	stored, there, err := s.kinds[reflect.TypeFor[*appsv1.StatefulSet]()].GetByKey(set.String())
	if err != nil || !there {
		return nil
	}
	templates := stored.(*appsv1.StatefulSet).Spec.VolumeClaimTemplates
	for i := range templates {
		if templates[i].Name == name {
			return templates[i].DeepCopy()
		}
	}
	return nil
}
