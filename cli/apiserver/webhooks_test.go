package apiserver_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook"
)

func webhooks(t testing.TB, actors ...string) *apiserver.Webhooks {
	t.Helper()
	return webhooksOf(t, denying(actors...))
}

func webhooksOf(t testing.TB, policies policy.Policies) *apiserver.Webhooks {
	t.Helper()
	exempt, err := policy.ExemptIn("podgrace-system").Excluding("calico-system", "openshift-*")
	if err != nil {
		t.Fatal(err)
	}
	w, err := apiserver.NewWebhooks(policies, exempt)
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
	off          = `{"metadata":{"name":"n1","uid":"n"},"spec":{},"status":{"nodeInfo":{"bootID":"b"},"conditions":[{"type":"Ready","status":"Unknown","lastHeartbeatTime":"2026-01-01T10:00:00Z"}]}}`
	confirmedOff = `{"metadata":{"name":"n1","uid":"n","annotations":{"podgrace.dev/confirm-off":"n/b/2026-01-01T10:00:00Z/2026-01-01T10:00:05.000000Z"}},
		"spec":{},"status":{"nodeInfo":{"bootID":"b"},"conditions":[{"type":"Ready","status":"Unknown","lastHeartbeatTime":"2026-01-01T10:00:00Z"}]}}`
	heardOf = `{"metadata":{"name":"n1","uid":"n","annotations":{"podgrace.dev/confirm-off":"n/b/2026-01-01T10:00:00Z/2026-01-01T10:00:05.000000Z"}},
		"spec":{},"status":{"nodeInfo":{"bootID":"b"},"conditions":[{"type":"Ready","status":"Unknown","lastHeartbeatTime":"2026-01-01T10:00:06Z"}]}}`
	readyAgain = `{"metadata":{"name":"n1","uid":"n","annotations":{"podgrace.dev/confirm-off":"n/b/2026-01-01T10:00:00Z/2026-01-01T10:00:05.000000Z"}},
		"spec":{},"status":{"nodeInfo":{"bootID":"b"},"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"2026-01-01T10:00:00Z"}]}}`
	// neverHeardOf is one whose Ready condition has no heartbeat, which the API server shows to an expression as null.
	neverHeardOf = `{"metadata":{"name":"n1","uid":"n","annotations":{"podgrace.dev/confirm-off":"n/b//"}},
		"spec":{},"status":{"nodeInfo":{"bootID":"b"},"conditions":[{"type":"Ready","status":"Unknown","lastHeartbeatTime":null}]}}`
	neverBooted = `{"metadata":{"name":"n1","uid":"n","annotations":{"podgrace.dev/confirm-off":"n///"}},"spec":{},"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`
	deployment  = `{"metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"a","image":"a"}]}}}}`
	scaled      = `{"metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"a","image":"a"}]}}}}`
	newImage    = `{"metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"a","image":"b"}]}}}}`
	owned       = `{"metadata":{"name":"web","namespace":"shop","ownerReferences":[{"kind":"Job","name":"j","controller":true}]},"spec":{"template":{}}}`
	hasty       = `{"gracePeriodSeconds":0}`
	patient     = `{"gracePeriodSeconds":30}`
)

func eviction(grace string) string {
	return `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"db-0","namespace":"shop"}` + grace + `}`
}

// byPath compares what is called, by whichever webhook.
var byPath = cmpopts.IgnoreFields(apiserver.Calls{}, "Webhooks")

func TestCalls(t *testing.T) {
	const hastily = `,"deleteOptions":{"gracePeriodSeconds":0}`
	confirmed := annotated("podgrace.dev/confirm-force-delete", "u1/2026-01-01T10:00:00Z")
	ghost := authenticationv1.UserInfo{Username: "ghost", Groups: kubelet.Groups}
	neighbour := authenticationv1.UserInfo{Username: "system:node:n2", Groups: kubelet.Groups}
	judged := []string{webhook.PathValidateRemoval}
	warning := v1alpha1.PodPolicy{Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn}}}
	warns, none := webhooksOf(t, policy.InForce([]v1alpha1.PodPolicy{warning})), webhooksOf(t, nil)
	elsewhere := webhooksOf(t, policy.InForce([]v1alpha1.PodPolicy{warning, *inNamespace("bank")}))
	for name, tc := range map[string]struct {
		request    apiserver.Request
		mutating   []string
		validating []string
	}{
		"pod created":                   {request: request(t, create, "pods", object(pod())), mutating: []string{webhook.PathMutatePods}, validating: []string{webhook.PathValidatePods}},
		"pod created in kube-system":    {request: request(t, create, "pods", object(pod()), in("kube-system"))},
		"pod created where excluded":    {request: request(t, create, "pods", object(pod()), in("calico-system"))},
		"pod created where many are":    {request: request(t, create, "pods", object(pod()), in("openshift-dns"))},
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
		"force delete where excluded":          {request: request(t, remove, "pods", oldObject(pod()), options(hasty), in("openshift-dns"))},
		"force delete where it looks like it":  {request: request(t, remove, "pods", oldObject(pod()), options(hasty), in("openshift")), validating: judged},
		"force delete in kube-system":          {request: request(t, remove, "pods", oldObject(pod()), options(hasty), in("kube-system"))},
		"kubelet's delete":                     {request: request(t, remove, "pods", oldObject(pod()), options(hasty), as(kubelet))},
		"what is left of a force delete":       {request: request(t, remove, "pods", oldObject(pod(halfDone)), options(patient)), validating: []string{webhook.PathValidateRemoval}},
		"delete by a group of kubelets alone":  {request: request(t, remove, "pods", oldObject(pod()), options(hasty), as(ghost)), validating: judged},
		"another kubelet's delete":             {request: request(t, remove, "pods", oldObject(pod()), options(hasty), as(neighbour)), validating: judged},
		"confirmed":                            {request: request(t, remove, "pods", oldObject(pod(confirmed)), options(hasty)), validating: []string{webhook.PathValidateRemoval, webhook.PathOpenRemoval}},
		"confirmed, and harmless":              {request: request(t, remove, "pods", oldObject(pod(confirmed)), options(patient))},
		"confirmed, its kubelet's delete":      {request: request(t, remove, "pods", oldObject(pod(confirmed)), options(hasty), as(kubelet))},
		"confirmed for another pod":            {request: request(t, remove, "pods", oldObject(pod(annotated("podgrace.dev/confirm-force-delete", "u0/2026-01-01T10:00:00Z"))), options(hasty)), validating: judged},
		"node enforcer's delete":               {request: request(t, remove, "pods", oldObject(pod()), options(patient), as(enforcer)), validating: []string{webhook.PathValidateRemoval}},

		"eviction":                     {request: request(t, create, "pods/eviction", object(eviction(""))), mutating: []string{webhook.PathMutateEvictions}},
		"eviction of old":              {request: request(t, create, "evictions of old", object(eviction(""))), mutating: []string{webhook.PathMutateEvictions}},
		"eviction in kube-system":      {request: request(t, create, "pods/eviction", object(eviction("")), in("kube-system"))},
		"eviction with grace":          {request: request(t, create, "pods/eviction", object(eviction(`,"deleteOptions":{"gracePeriodSeconds":5}`))), mutating: []string{webhook.PathMutateEvictions}},
		"eviction with grace 0":        {request: request(t, create, "pods/eviction", object(eviction(hastily))), mutating: []string{webhook.PathMutateEvictions}, validating: []string{webhook.PathValidateRemoval}},
		"eviction of old with grace 0": {request: request(t, create, "evictions of old", object(eviction(hastily))), mutating: []string{webhook.PathMutateEvictions}, validating: []string{webhook.PathValidateRemoval}},
		"node enforcer's eviction":     {request: request(t, create, "pods/eviction", object(eviction("")), as(enforcer)), validating: []string{webhook.PathValidateRemoval}},

		"status":                          {request: request(t, update, "pods/status", oldObject(pod()), object(pod(phase("Running"))))},
		"status to Failed":                {request: request(t, update, "pods/status", oldObject(pod()), object(pod(phase("Failed")))), validating: []string{webhook.PathValidateRemoval}},
		"a group's status to Failed":      {request: request(t, update, "pods/status", oldObject(pod()), object(pod(phase("Failed"))), as(ghost)), validating: judged},
		"status of a confirmed one":       {request: request(t, update, "pods/status", oldObject(pod(confirmed)), object(pod(confirmed, phase("Failed")))), validating: []string{webhook.PathValidateRemoval, webhook.PathOpenRemoval}},
		"a confirmed one runs on":         {request: request(t, update, "pods/status", oldObject(pod(confirmed)), object(pod(confirmed)))},
		"its last finalizer":              {request: request(t, update, "pods", oldObject(pod(halfDone, finalizer, confirmed)), object(pod(halfDone, confirmed))), validating: []string{webhook.PathValidateRemoval, webhook.PathOpenRemoval}},
		"confirmed by the update":         {request: request(t, update, "pods", oldObject(pod(halfDone)), object(pod(halfDone, confirmed))), validating: []string{webhook.PathValidateRemoval, webhook.PathOpenRemoval}},
		"kubelet's status to Failed":      {request: request(t, update, "pods/status", oldObject(pod()), object(pod(phase("Failed"))), as(kubelet))},
		"status of a pending pod":         {request: request(t, update, "pods/status", oldObject(pod(pending)), object(pod(pending, phase("Failed"))))},
		"status, once more Failed":        {request: request(t, update, "pods/status", oldObject(pod(phase("Failed"))), object(pod(phase("Failed"))))},
		"last finalizer of a half-done":   {request: request(t, update, "pods", oldObject(pod(halfDone, finalizer)), object(pod(halfDone))), validating: []string{webhook.PathValidateRemoval}},
		"resize of a half-done":           {request: request(t, update, "pods/resize", oldObject(pod(halfDone)), object(pod(halfDone))), validating: []string{webhook.PathValidateRemoval}},
		"a half-done keeps its finalizer": {request: request(t, update, "pods", oldObject(pod(halfDone, finalizer)), object(pod(halfDone, finalizer)))},

		"node deleted":                     {request: request(t, remove, "nodes", oldObject(plainNode)), validating: []string{webhook.PathValidateRemoval}},
		"node deleted, confirmed off":      {request: request(t, remove, "nodes", oldObject(confirmedOff)), validating: []string{webhook.PathOpenRemoval}},
		"node deleted, never heard of":     {request: request(t, remove, "nodes", oldObject(neverHeardOf)), validating: []string{webhook.PathOpenRemoval}},
		"node deleted, heard of since":     {request: request(t, remove, "nodes", oldObject(heardOf)), validating: []string{webhook.PathValidateRemoval}},
		"node created out of service":      {request: request(t, create, "nodes", object(outOfService)), validating: []string{webhook.PathValidateRemoval}},
		"node with a finalizer deleted":    {request: request(t, remove, "nodes", oldObject(`{"metadata":{"name":"n1","uid":"n","finalizers":["a/b"]},"spec":{}}`)), validating: []string{webhook.PathValidateRemoval}},
		"its last finalizer goes":          {request: request(t, update, "nodes", oldObject(`{"metadata":{"name":"n1","uid":"n","deletionTimestamp":"2026-01-01T10:00:00Z","finalizers":["a/b"]},"spec":{}}`), object(plainNode)), validating: []string{webhook.PathValidateRemoval}},
		"one of two goes":                  {request: request(t, update, "nodes", oldObject(`{"metadata":{"name":"n1","uid":"n","deletionTimestamp":"2026-01-01T10:00:00Z","finalizers":["a/b","a/c"]},"spec":{}}`), object(`{"metadata":{"name":"n1","uid":"n","finalizers":["a/c"]},"spec":{}}`))},
		"node created":                     {request: request(t, create, "nodes", object(plainNode))},
		"confirmed node gets a label":      {request: request(t, update, "nodes", oldObject(confirmedOff), object(confirmedOff))},
		"out-of-service taint":             {request: request(t, update, "nodes", oldObject(plainNode), object(outOfService)), mutating: []string{webhook.PathMutateNodes}, validating: []string{webhook.PathValidateRemoval}},
		"out-of-service taint taken away":  {request: request(t, update, "nodes", oldObject(outOfService), object(plainNode))},
		"out-of-service taint still there": {request: request(t, update, "nodes", oldObject(outOfService), object(outOfService))},
		"VolumeAttachment deleted":         {request: request(t, remove, "volumeattachments", oldObject(`{"metadata":{"name":"a"},"status":{"attached":true}}`)), validating: []string{webhook.PathValidateRemoval}},
		"one that is not attached":         {request: request(t, remove, "volumeattachments", oldObject(`{"metadata":{"name":"a"},"status":{"attached":false}}`))},
		"attached, by its controller":      {request: request(t, remove, "volumeattachments", oldObject(`{"metadata":{"name":"a"},"status":{"attached":true}}`), as(controller)), validating: []string{webhook.PathOpenRemoval}},
		"by its controller":                {request: request(t, remove, "volumeattachments", oldObject(`{"metadata":{"name":"a"}}`), as(controller))},

		"Deployment applied":            {request: request(t, create, "deployments", object(deployment)), validating: []string{webhook.PathValidateWorkloads}},
		"Deployment of an old version":  {request: request(t, create, "old deployments", object(deployment)), validating: []string{webhook.PathValidateWorkloads}},
		"Deployment scaled":             {request: request(t, update, "deployments", oldObject(deployment), object(scaled))},
		"Deployment with another image": {request: request(t, update, "deployments", oldObject(deployment), object(newImage)), validating: []string{webhook.PathValidateWorkloads}},
		"ReplicationController applied": {request: request(t, create, "replicationcontrollers", object(deployment)), validating: []string{webhook.PathValidateWorkloads}},
		"ReplicationController scaled":  {request: request(t, update, "replicationcontrollers", oldObject(deployment), object(scaled))},
		"policy applied":                {request: request(t, create, "podpolicies", object(`{"apiVersion":"podgrace.dev/v1alpha1","kind":"PodPolicy","metadata":{"name":"p"},"spec":{}}`)), validating: []string{webhook.PathValidatePolicies}},
		"policy changed":                {request: request(t, update, "podpolicies", oldObject(`{"apiVersion":"podgrace.dev/v1alpha1","kind":"PodPolicy","metadata":{"name":"p"},"spec":{}}`), object(`{"apiVersion":"podgrace.dev/v1alpha1","kind":"PodPolicy","metadata":{"name":"p"},"spec":{"weight":1}}`)), validating: []string{webhook.PathValidatePolicies}},
		"policy labelled":               {request: request(t, update, "podpolicies", oldObject(`{"apiVersion":"podgrace.dev/v1alpha1","kind":"PodPolicy","metadata":{"name":"p"},"spec":{}}`), object(`{"apiVersion":"podgrace.dev/v1alpha1","kind":"PodPolicy","metadata":{"name":"p","labels":{"a":"b"}},"spec":{}}`))},
		"made by a controller":          {request: request(t, create, "deployments", object(owned))},
	} {
		t.Run(name, func(t *testing.T) {
			w := webhooks(t)
			mutating, err := w.Mutating(t.Context(), tc.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(apiserver.Calls{Paths: tc.mutating}, mutating, byPath); diff != "" {
				t.Errorf("mutating: -want +got:\n%s", diff)
			}
			validating, err := w.Validating(t.Context(), tc.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(apiserver.Calls{Paths: tc.validating}, validating, byPath); diff != "" {
				t.Errorf("validating: -want +got:\n%s", diff)
			}
			// A policy that warns, or that denies in another namespace, is asked about the same, and no entry that fails closed asks.
			byEnforcer := tc.request.UserInfo.Username == enforcer.Username
			open := slices.Clone(tc.validating)
			if i := slices.Index(open, webhook.PathValidateRemoval); i >= 0 && !byEnforcer {
				open[i] = webhook.PathOpenRemoval
			}
			open = slices.Compact(open)
			ofNode := tc.request.AdmissionRequest.Namespace == ""
			for of, w := range map[string]*apiserver.Webhooks{"warns": warns, "denies elsewhere": elsewhere} {
				want := open
				if of != "warns" && ofNode {
					want = tc.validating
				}
				calls, err := w.Validating(t.Context(), tc.request)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(apiserver.Calls{Paths: want}, calls, byPath, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s: -want +got:\n%s", of, diff)
				}
			}
			// Without a policy no request but those of policies and of node enforcers is asked about.
			mutating, err = none.Mutating(t.Context(), tc.request)
			if err != nil {
				t.Fatal(err)
			}
			if validating, err = none.Validating(t.Context(), tc.request); err != nil {
				t.Fatal(err)
			}
			if asked := slices.Concat(mutating.Paths, validating.Paths); len(asked) > 0 && !byEnforcer && !slices.Equal(asked, []string{webhook.PathValidatePolicies}) {
				t.Errorf("without a policy it asks %q", asked)
			}
		})
	}
}

// inNamespace is a policy that denies in one namespace.
func inNamespace(name string) *v1alpha1.PodPolicy {
	return &v1alpha1.PodPolicy{Spec: v1alpha1.PodPolicySpec{
		Match:   &v1alpha1.PodMatch{NamespaceSelector: &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{corev1.LabelMetadataName: v1alpha1.LabelValue(name)}}},
		Removal: &v1alpha1.RemovalSection{},
	}}
}

// What is confirmed goes on while the webhook is away: of the entries that fail closed none takes it, of the others one does, so that each
// removal which must be judged is asked about once.
func TestConfirmedFailsOpen(t *testing.T) {
	const confirmation = "podgrace.dev/confirm-force-delete"
	ten := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	confirmed := func(p *corev1.Pod) {
		annotated(confirmation, "u1/2026-01-01T10:00:00Z")(p)
		noted(confirmation, ten)(p)
	}
	another := annotated(confirmation, "u0/2026-01-01T10:00:00Z")
	for name, tc := range map[string]struct {
		request apiserver.Request
		open    bool
	}{
		"force delete":                 {request(t, remove, "pods", oldObject(pod()), options(hasty)), false},
		"force delete, confirmed":      {request(t, remove, "pods", oldObject(pod(confirmed)), options(hasty)), true},
		"another is confirmed":         {request(t, remove, "pods", oldObject(pod(another)), options(hasty)), false},
		"as earlier versions did":      {request(t, remove, "pods", oldObject(pod(annotated("podgrace.dev/confirm-force-delete", "u1"))), options(hasty)), false},
		"its own grace is 0":           {request(t, remove, "pods", oldObject(pod(confirmed, grace(0)))), true},
		"what is left, confirmed":      {request(t, remove, "pods", oldObject(pod(confirmed, halfDone)), options(patient)), true},
		"status, confirmed":            {request(t, update, "pods/status", oldObject(pod(confirmed)), object(pod(confirmed, phase("Failed")))), true},
		"last finalizer, confirmed":    {request(t, update, "pods", oldObject(pod(halfDone, finalizer, confirmed)), object(pod(halfDone, confirmed))), true},
		"confirmed by the update":      {request(t, update, "pods", oldObject(pod(halfDone)), object(pod(halfDone, confirmed))), true},
		"last finalizer":               {request(t, update, "pods", oldObject(pod(halfDone, finalizer)), object(pod(halfDone))), false},
		"node":                         {request(t, remove, "nodes", oldObject(off)), false},
		"node, confirmed":              {request(t, remove, "nodes", oldObject(confirmedOff)), true},
		"node, heard of since":         {request(t, remove, "nodes", oldObject(heardOf)), false},
		"node, ready again":            {request(t, remove, "nodes", oldObject(readyAgain)), false},
		"node, never heard of":         {request(t, remove, "nodes", oldObject(neverHeardOf)), true},
		"node, never booted":           {request(t, remove, "nodes", oldObject(neverBooted)), false},
		"taint":                        {request(t, update, "nodes", oldObject(off), object(outOfService)), false},
		"taint, confirmed":             {request(t, update, "nodes", oldObject(confirmedOff), object(outOfService)), true},
		"taint, confirmed by the same": {request(t, update, "nodes", oldObject(off), object(strings.Replace(confirmedOff, `"spec":{}`, `"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service"}]}`, 1))), false},
	} {
		t.Run(name, func(t *testing.T) {
			calls, err := webhooks(t).Validating(t.Context(), tc.request)
			if err != nil || len(calls.Webhooks) != 1 || len(calls.Denials) > 0 {
				t.Fatalf("got %+v, %v", calls, err)
			}
			if got := calls.Webhooks[0]; strings.HasPrefix(got, "confirmed-") != tc.open {
				t.Errorf("asked by %s", got)
			}
		})
	}
}

// A confirmation that is void by what the API server has noted of the pod is none while the webhook is away.
func TestVoidConfirmationFailsClosed(t *testing.T) {
	const confirmation = "podgrace.dev/confirm-force-delete"
	ten := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	at := func(text string, times ...time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			annotated(confirmation, "u1/"+text)(p)
			for i, d := range times {
				noted([]string{confirmation, "a"}[min(i, 1)], ten.Add(d))(p)
			}
		}
	}
	began := func(at time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			halfDone(p)
			p.DeletionTimestamp = &metav1.Time{Time: ten.Add(at)}
		}
	}
	const now = "2026-01-01T10:00:00Z"
	hour := 61 * time.Minute
	for name, tc := range map[string]struct {
		changes []func(*corev1.Pod)
		// deleted, ends and completes: whether the removals by a DELETE, a status and the last finalizer are asked about by an entry that fails closed.
		deleted, ends, completes bool
	}{
		"valid":                                   {[]func(*corev1.Pod){began(0), at(now, 0)}, false, false, false},
		"valid at last":                           {[]func(*corev1.Pod){began(0), at(now, 0, 55*time.Minute)}, false, false, false},
		"ended, by a later write":                 {[]func(*corev1.Pod){began(0), at(now, 0, 55*time.Minute+time.Second)}, true, true, true},
		"ended since the force delete began":      {[]func(*corev1.Pod){began(time.Second), at(now, 0, hour)}, true, true, false},
		"ended before the force delete began":     {[]func(*corev1.Pod){began(hour), at(now, 0, hour)}, true, true, true},
		"of a time to come":                       {[]func(*corev1.Pod){began(0), at("2099-01-01T00:00:00Z", 0)}, true, true, true},
		"a bit ahead":                             {[]func(*corev1.Pod){began(0), at("2026-01-01T10:05:00Z", 0)}, false, false, false},
		"nothing is noted":                        {[]func(*corev1.Pod){began(0), at(now)}, true, true, true},
		"timeless":                                {[]func(*corev1.Pod){began(0), at("", 0)}, true, true, true},
		"of a time that is none":                  {[]func(*corev1.Pod){began(0), at("now", 0)}, true, true, true},
		"with the heartbeat of its node, in time": {[]func(*corev1.Pod){began(0), at(now+"/2026-01-01T09:00:00.5Z", 0)}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			stored := pod(tc.changes...)
			for what, asked := range map[string]struct {
				apiserver.Request
				closed bool
			}{
				"delete.removal.podgrace.dev":    {request(t, remove, "pods", oldObject(stored), options(hasty)), tc.deleted},
				"status.removal.podgrace.dev":    {request(t, update, "pods/status", oldObject(stored), object(pod(append(tc.changes, phase("Failed"), finalizer)...))), tc.ends},
				"finalizer.removal.podgrace.dev": {request(t, update, "pods", oldObject(pod(append(tc.changes, finalizer)...)), object(stored)), tc.completes},
			} {
				calls, err := webhooks(t).Validating(t.Context(), asked.Request)
				if err != nil || len(calls.Denials) > 0 || !slices.Contains(calls.Webhooks, "confirmed-pod.removal.podgrace.dev") || slices.Contains(calls.Webhooks, what) != asked.closed {
					t.Errorf("%s: got %+v, %v", what, calls, err)
				}
			}
		})
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
	if err != nil || len(got.Paths) > 0 || len(got.Denials) != 2 || got.Denials[0].Policy != "node.removal.podgrace.dev" || got.Denials[1].Policy != "out-of-service.removal.podgrace.dev" {
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
