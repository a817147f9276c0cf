package webhook

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/internal/pod/workloads"
	"github.com/podgrace/podgrace/policy"
)

// ValidateWorkloads decides about /validate-workloads. It never refuses: it warns the person who applies a workload if its
// pods will be refused or changed against a limit, which would otherwise be seen in the Events of its controller only.
func (e *Engine) ValidateWorkloads(ctx context.Context, req admission.Request) (Decision, error) {
	const otherwise = "this workload was not checked"
	workload := newWorkload(req.Kind.Group, req.Kind.Kind)
	if workload == nil {
		return Decision{}, misdirected("workloads", req)
	}
	if len(req.Object.Raw) == 0 || req.SubResource != "" {
		return Decision{}, nil
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, workload); err != nil {
		return Decision{}, fmt.Errorf("decode the %s: %w", req.Kind.Kind, err)
	}
	if !e.Ready() {
		return e.missed(PathValidateWorkloads, otherwise, errNotReady), nil
	}
	result, err := e.foresee(ctx, req.Namespace, workload)
	if err != nil {
		return e.missed(PathValidateWorkloads, otherwise, err), nil
	}
	return Decision{Result: result}, nil
}

// foresee returns what will be decided about the pods of a workload at their creation, as warnings.
func (e *Engine) foresee(ctx context.Context, namespace string, workload runtime.Object) (defaulting.Result, error) {
	var none defaulting.Result
	template, err := workloads.PodOf(workload)
	if err != nil || template == nil {
		return none, err
	}
	request := policy.Request{Pod: template.Pod, Namespace: e.Lookup.Namespace(ctx, namespace), User: authenticationv1.UserInfo{}}
	effective := defaulting.For(e.Policies.Policies(), request, e.Exempt)
	facts, err := e.Lookup.FactsOfTemplate(ctx, effective.Needs(), namespace, template)
	if err != nil {
		return none, err
	}
	return effective.Foresee(request, facts), nil
}

func newWorkload(group, kind string) runtime.Object {
	switch group + "/" + kind {
	case "apps/Deployment":
		return &appsv1.Deployment{}
	case "apps/ReplicaSet":
		return &appsv1.ReplicaSet{}
	case "apps/StatefulSet":
		return &appsv1.StatefulSet{}
	case "apps/DaemonSet":
		return &appsv1.DaemonSet{}
	case "batch/Job":
		return &batchv1.Job{}
	case "batch/CronJob":
		return &batchv1.CronJob{}
	case "/ReplicationController":
		return &corev1.ReplicationController{}
	}
	return nil
}
