package apiserver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/review/apiserver"
	"github.com/podgrace/podgrace/webhook"
)

func webhooks(t testing.TB, actors ...string) *apiserver.Webhooks {
	t.Helper()
	w, err := apiserver.NewWebhooks(actors)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

const (
	create = admissionv1.Create
	update = admissionv1.Update
	remove = admissionv1.Delete
	// outOfService and plain are nodes.
	outOfService = `{"metadata":{"name":"n1","uid":"n"},"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}`
	plainNode    = `{"metadata":{"name":"n1","uid":"n"},"spec":{}}`
	confirmedOff = `{"metadata":{"name":"n1","uid":"n","annotations":{"podgrace.dev/confirm-off":"n/b"},"managedFields":[{"manager":"podgrace-confirm","time":"2026-01-01T10:00:05Z"}]},
		"spec":{},"status":{"nodeInfo":{"bootID":"b"},"conditions":[{"type":"Ready","status":"Unknown","lastHeartbeatTime":"2026-01-01T10:00:00Z"}]}}`
	heardOf = `{"metadata":{"name":"n1","uid":"n","annotations":{"podgrace.dev/confirm-off":"n/b"},"managedFields":[{"manager":"podgrace-confirm","time":"2026-01-01T10:00:05Z"}]},
		"spec":{},"status":{"nodeInfo":{"bootID":"b"},"conditions":[{"type":"Ready","status":"Unknown","lastHeartbeatTime":"2026-01-01T10:00:06Z"}]}}`
	// neverHeardOf is one whose Ready condition has no heartbeat, which the API server shows to an expression as null.
	neverHeardOf = `{"metadata":{"name":"n1","uid":"n","annotations":{"podgrace.dev/confirm-off":"n/b"},"managedFields":[{"manager":"podgrace-confirm","time":"2026-01-01T10:00:05Z"}]},
		"spec":{},"status":{"nodeInfo":{"bootID":"b"},"conditions":[{"type":"Ready","status":"Unknown","lastHeartbeatTime":null}]}}`
	deployment = `{"metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"a","image":"a"}]}}}}`
	scaled     = `{"metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"a","image":"a"}]}}}}`
	newImage   = `{"metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"a","image":"b"}]}}}}`
	owned      = `{"metadata":{"name":"web","namespace":"shop","ownerReferences":[{"kind":"Job","name":"j","controller":true}]},"spec":{"template":{}}}`
	hasty      = `{"gracePeriodSeconds":0}`
	patient    = `{"gracePeriodSeconds":30}`
)

func eviction(grace string) string {
	return `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"db-0","namespace":"shop"}` + grace + `}`
}

func TestCalls(t *testing.T) {
	const hastily = `,"deleteOptions":{"gracePeriodSeconds":0}`
	confirmed := annotated("podgrace.dev/confirm-force-delete", "u1")
	for name, tc := range map[string]struct {
		request    apiserver.Request
		mutating   []string
		validating []string
		unknown    []string
	}{
		"pod created":                   {request: request(t, create, "pods", object(pod())), mutating: []string{webhook.PathMutatePods}, validating: []string{webhook.PathValidatePods}},
		"pod created in kube-system":    {request: request(t, create, "pods", object(pod()), in("kube-system"))},
		"pod created in Podgrace's own": {request: request(t, create, "pods", object(pod()), in("podgrace-system"))},
		"in a namespace not known":      {request: request(t, create, "pods", object(pod()), in("elsewhere")), mutating: []string{webhook.PathMutatePods}, validating: []string{webhook.PathValidatePods}},
		"pod updated":                   {request: request(t, update, "pods", object(pod()), oldObject(pod()))},
		"pod bound":                     {request: request(t, create, "pods/binding", object(`{}`))},
		"not ours":                      {request: request(t, create, "configmaps", object(`{}`))},

		"plain delete":                         {request: request(t, remove, "pods", oldObject(pod()), options(patient))},
		"plain delete without options":         {request: request(t, remove, "pods", oldObject(pod()))},
		"plain delete, grace 0 in the spec":    {request: request(t, remove, "pods", oldObject(pod(grace(0)))), validating: []string{webhook.PathValidateRemoval}},
		"force delete":                         {request: request(t, remove, "pods", oldObject(pod()), options(hasty)), validating: []string{webhook.PathValidateRemoval}},
		"force delete by nobody in particular": {request: request(t, remove, "pods", oldObject(pod()), options(hasty), as(authenticationv1.UserInfo{})), validating: []string{webhook.PathValidateRemoval}},
		"force delete, nulls in the object":    {request: request(t, remove, "pods", oldObject(`{"metadata":{"name":"db-0","deletionTimestamp":null},"spec":{"nodeName":"n1","terminationGracePeriodSeconds":null}}`), options(patient))},
		"force delete of a finished pod":       {request: request(t, remove, "pods", oldObject(pod(phase("Failed"))), options(hasty))},
		"force delete of a pending pod":        {request: request(t, remove, "pods", oldObject(pod(pending)), options(hasty))},
		"force delete in kube-system":          {request: request(t, remove, "pods", oldObject(pod()), options(hasty), in("kube-system"))},
		"kubelet's delete":                     {request: request(t, remove, "pods", oldObject(pod()), options(hasty), as(kubelet))},
		"what is left of a force delete":       {request: request(t, remove, "pods", oldObject(pod(halfDone)), options(patient)), validating: []string{webhook.PathValidateRemoval}},
		"confirmed, and allowed to":            {request: request(t, remove, "pods", oldObject(pod(confirmed)), options(hasty), asking(&answers{Answer: guard.Yes}))},
		"confirmed, but not allowed to":        {request: request(t, remove, "pods", oldObject(pod(confirmed)), options(hasty), asking(&answers{Answer: guard.No})), validating: []string{webhook.PathValidateRemoval}},
		"confirmed, and it is not known whether it may be": {
			request:    request(t, remove, "pods", oldObject(pod(confirmed)), options(hasty)),
			validating: []string{webhook.PathValidateRemoval}, unknown: []string{"whether alice has the verb force-delete on pods.podgrace.dev shop/db-0"},
		},
		"confirmed, not known, and harmless": {request: request(t, remove, "pods", oldObject(pod(confirmed)), options(patient))},
		"confirmed for another pod":          {request: request(t, remove, "pods", oldObject(pod(annotated("podgrace.dev/confirm-force-delete", "u0"))), options(hasty)), validating: []string{webhook.PathValidateRemoval}},
		"node enforcer's delete":             {request: request(t, remove, "pods", oldObject(pod()), options(patient), as(enforcer)), validating: []string{webhook.PathValidateRemoval}},

		"eviction":                     {request: request(t, create, "pods/eviction", object(eviction("")))},
		"eviction with grace":          {request: request(t, create, "pods/eviction", object(eviction(`,"deleteOptions":{"gracePeriodSeconds":5}`)))},
		"eviction with grace 0":        {request: request(t, create, "pods/eviction", object(eviction(hastily))), mutating: []string{webhook.PathMutateEvictions}, validating: []string{webhook.PathValidateRemoval}},
		"eviction of old with grace 0": {request: request(t, create, "evictions of old", object(eviction(hastily))), mutating: []string{webhook.PathMutateEvictions}, validating: []string{webhook.PathValidateRemoval}},
		"node enforcer's eviction":     {request: request(t, create, "pods/eviction", object(eviction("")), as(enforcer)), validating: []string{webhook.PathValidateRemoval}},

		"status":                          {request: request(t, update, "pods/status", oldObject(pod()), object(pod(phase("Running"))))},
		"status to Failed":                {request: request(t, update, "pods/status", oldObject(pod()), object(pod(phase("Failed")))), validating: []string{webhook.PathValidateRemoval}},
		"kubelet's status to Failed":      {request: request(t, update, "pods/status", oldObject(pod()), object(pod(phase("Failed"))), as(kubelet))},
		"status of a pending pod":         {request: request(t, update, "pods/status", oldObject(pod(pending)), object(pod(pending, phase("Failed"))))},
		"status, once more Failed":        {request: request(t, update, "pods/status", oldObject(pod(phase("Failed"))), object(pod(phase("Failed"))))},
		"last finalizer of a half-done":   {request: request(t, update, "pods", oldObject(pod(halfDone, finalizer)), object(pod(halfDone))), validating: []string{webhook.PathValidateRemoval}},
		"resize of a half-done":           {request: request(t, update, "pods/resize", oldObject(pod(halfDone)), object(pod(halfDone))), validating: []string{webhook.PathValidateRemoval}},
		"a half-done keeps its finalizer": {request: request(t, update, "pods", oldObject(pod(halfDone, finalizer)), object(pod(halfDone, finalizer)))},

		"node deleted":                     {request: request(t, remove, "nodes", oldObject(plainNode)), validating: []string{webhook.PathValidateRemoval}},
		"node deleted, confirmed off":      {request: request(t, remove, "nodes", oldObject(confirmedOff))},
		"node deleted, never heard of":     {request: request(t, remove, "nodes", oldObject(neverHeardOf)), validating: []string{webhook.PathValidateRemoval}},
		"node deleted, heard of since":     {request: request(t, remove, "nodes", oldObject(heardOf)), validating: []string{webhook.PathValidateRemoval}},
		"out-of-service taint":             {request: request(t, update, "nodes", oldObject(plainNode), object(outOfService)), validating: []string{webhook.PathValidateRemoval}},
		"out-of-service taint taken away":  {request: request(t, update, "nodes", oldObject(outOfService), object(plainNode))},
		"out-of-service taint still there": {request: request(t, update, "nodes", oldObject(outOfService), object(outOfService))},
		"VolumeAttachment deleted":         {request: request(t, remove, "volumeattachments", oldObject(`{"metadata":{"name":"a"}}`)), validating: []string{webhook.PathValidateRemoval}},
		"by its controller":                {request: request(t, remove, "volumeattachments", oldObject(`{"metadata":{"name":"a"}}`), as(controller))},

		"Deployment applied":            {request: request(t, create, "deployments", object(deployment)), validating: []string{webhook.PathValidateWorkloads}},
		"Deployment of an old version":  {request: request(t, create, "old deployments", object(deployment)), validating: []string{webhook.PathValidateWorkloads}},
		"Deployment scaled":             {request: request(t, update, "deployments", oldObject(deployment), object(scaled))},
		"Deployment with another image": {request: request(t, update, "deployments", oldObject(deployment), object(newImage)), validating: []string{webhook.PathValidateWorkloads}},
		"made by a controller":          {request: request(t, create, "deployments", object(owned))},
	} {
		t.Run(name, func(t *testing.T) {
			w := webhooks(t)
			mutating, err := w.Mutating(t.Context(), tc.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(apiserver.Calls{Paths: tc.mutating}, mutating); diff != "" {
				t.Errorf("mutating: -want +got:\n%s", diff)
			}
			validating, err := w.Validating(t.Context(), tc.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(apiserver.Calls{Paths: tc.validating, Unknown: tc.unknown}, validating); diff != "" {
				t.Errorf("validating: -want +got:\n%s", diff)
			}
		})
	}
}

// Who asks for what is what the authorizer is told.
func TestCallsAskTheAuthorizer(t *testing.T) {
	a := &answers{Answer: guard.Yes}
	confirmed := pod(annotated("podgrace.dev/confirm-force-delete", "u1"))
	if _, err := webhooks(t).Validating(t.Context(), request(t, remove, "pods", oldObject(pod()), options(hasty), asking(a))); err != nil || len(a.asked) > 0 {
		t.Fatalf("asked without need: %v, %v", a.asked, err)
	}
	if _, err := webhooks(t).Validating(t.Context(), request(t, remove, "pods", oldObject(confirmed), options(hasty), asking(a))); err != nil {
		t.Fatal(err)
	}
	if len(a.asked) != 1 || a.asked[0].Verb != "force-delete" || a.asked[0].Group != "podgrace.dev" || a.asked[0].Resource != "pods" || a.asked[0].Namespace != "shop" || a.asked[0].Name != "db-0" {
		t.Errorf("asked %+v", a.asked)
	}
}

func TestAllowedActorsAreNotJudged(t *testing.T) {
	const repair = `system:serviceaccount:ops:repair"\`
	force := request(t, remove, "pods", oldObject(pod()), options(hasty), as(authenticationv1.UserInfo{Username: repair}))
	for name, tc := range map[string]struct {
		actors []string
		want   []string
	}{
		"allowed":     {[]string{"x", repair}, nil},
		"not allowed": {[]string{"x"}, []string{webhook.PathValidateRemoval}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := webhooks(t, tc.actors...).Validating(t.Context(), force)
			if err != nil || !slices.Equal(got.Paths, tc.want) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	enforcing := request(t, remove, "pods", oldObject(pod()), options(hasty), as(enforcer))
	if got, err := webhooks(t, enforcer.Username).Validating(t.Context(), enforcing); err != nil || len(got.Paths) != 1 {
		t.Errorf("a node enforcer is always judged: got %v, %v", got, err)
	}
}

// An object for which a condition fails is refused, not called for, where the webhook fails closed.
func TestCallsOfWhatNoAPIServerSends(t *testing.T) {
	got, err := webhooks(t).Validating(t.Context(), request(t, update, "nodes", object(outOfService)))
	if err != nil || len(got.Paths) > 0 || len(got.Denials) != 1 || got.Denials[0].Policy != "out-of-service.removal.podgrace.dev" {
		t.Errorf("without an old object: got %+v, %v", got, err)
	}
	for what, r := range map[string]apiserver.Request{
		"old object": request(t, remove, "pods", oldObject(`{"metadata":[]}`)),
		"object":     request(t, create, "pods/eviction", object(`{`)),
		"options":    request(t, remove, "pods", oldObject(pod()), options(`{"gracePeriodSeconds":"soon"}`)),
	} {
		if _, err := webhooks(t).Validating(t.Context(), r); err == nil || !strings.Contains(err.Error(), "decode the "+what+" of ") || !strings.Contains(err.Error(), "shop/db-0") {
			t.Errorf("a bad %s: got %v", what, err)
		}
	}
}
