package attacks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
)

func podPath(p *corev1.Pod, sub ...string) string {
	return strings.Join(append([]string{"/api/v1/namespaces", p.Namespace, "pods", p.Name}, sub...), "/")
}

func toJSON(o any) []byte {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // values of ours
	}
	return text
}

// encoded writes options or an eviction as JSON or as protobuf.
func (w *walk) encoded(o runtime.Object) (string, []byte) {
	if w.one(3) {
		var text strings.Builder
		if err := protobuf.NewSerializer(w.scheme, w.scheme).Encode(o, &text); err != nil {
			panic(err)
		}
		return asProtobuf, []byte(text.String())
	}
	return asJSON, toJSON(o)
}

// grace is mostly none.
func (w *walk) grace() *int64 {
	if w.one(6) {
		return nil
	}
	return new(oneOf(w, []int64{0, 0, 0, 0, 0, 0, 1, 5, -1}))
}

// deleting writes the options of a DELETE: in the query, which counts only where there is no body, as JSON, or as protobuf.
func (w *walk) deleting(r request, uid types.UID) request {
	r.method = http.MethodDelete
	options := &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, GracePeriodSeconds: w.grace()}
	if w.one(8) {
		options.PropagationPolicy = new(oneOf(w, []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan}))
	}
	if r.dry = w.one(6); r.dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	if uid != "" && w.one(4) {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	if options.Preconditions != nil || w.one(2) {
		r.contentType, r.body = w.encoded(options)
		return r
	}
	r.query = url.Values{}
	if options.GracePeriodSeconds != nil {
		r.query.Set("gracePeriodSeconds", fmt.Sprint(*options.GracePeriodSeconds))
	}
	if options.PropagationPolicy != nil {
		r.query.Set("propagationPolicy", string(*options.PropagationPolicy))
	}
	if r.dry {
		r.query.Set("dryRun", metav1.DryRunAll)
	}
	return r
}

func (w *walk) deletePod() []request {
	p := w.target()
	if p == nil {
		return nil
	}
	who := oneOf(w, removers)
	if w.one(20) {
		who = repair
		w.model.said.actors[p.UID], w.model.said.lately[podName(p)] = true, w.version
	}
	return []request{w.deleteOf(who, p)}
}

func (w *walk) deleteOf(who string, p *corev1.Pod) request {
	return w.deleting(request{attempt: "delete", who: who, path: podPath(p), about: []string{podName(p)}}, p.UID)
}

func (w *walk) deletePods() []request {
	ns := oneOf(w, w.namespaces())
	r := w.deleting(request{attempt: "delete a collection of pods", who: oneOf(w, removers), path: "/api/v1/namespaces/" + ns + "/pods", about: []string{ns + "/"}}, "")
	if r.query == nil {
		r.query = url.Values{}
	}
	if p := w.target(); p != nil && w.one(2) {
		r.query.Set("fieldSelector", oneOf(w, []string{"metadata.name=" + p.Name, "spec.nodeName=" + p.Spec.NodeName}))
	} else if w.one(2) {
		r.query.Set("labelSelector", oneOf(w, []string{"app=web", "app=" + busy, "app=" + cold, "app in (host,disk)", "app!=web"}))
	}
	return []request{r}
}

func (w *walk) evict() []request {
	p := w.target()
	if p == nil {
		return nil
	}
	return []request{w.eviction(p)}
}

func (w *walk) eviction(p *corev1.Pod) request {
	r := request{attempt: "eviction", who: oneOf(w, evictors), method: http.MethodPost, path: podPath(p, "eviction"), about: []string{podName(p)}}
	o := &policyv1.Eviction{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"}, ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: w.grace()}}
	if r.dry = w.one(6); r.dry {
		o.DeleteOptions.DryRun = []string{metav1.DryRunAll}
	}
	if r.contentType, r.body = w.encoded(o); r.contentType == asJSON && w.one(2) {
		o.APIVersion = "policy/v1beta1"
		r.body = toJSON(o)
	}
	return r
}

// writers may write statuses; tenants may not.
var writers = []string{"operator", "remover", "root", "ghost", "gc", "other"}

func (w *walk) endStatus() []request {
	p := w.target()
	if p == nil {
		return nil
	}
	return []request{w.ended(oneOf(w, writers), p)}
}

// ended says in a status, in one way or another, that a pod has ended.
func (w *walk) ended(who string, p *corev1.Pod) request {
	phase := oneOf(w, []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded})
	r := w.patch(request{attempt: "status", who: who, path: podPath(p, "status"), about: []string{podName(p)}}, p, fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase),
		fmt.Sprintf(`[{"op":"replace","path":"/status/phase","value":%q}]`, phase))
	if w.one(6) {
		now := p.DeepCopy()
		now.Status.Phase = phase
		r.method, r.contentType, r.query, r.body = http.MethodPut, asJSON, nil, toJSON(now)
	}
	return w.dryly(r)
}

// patch sends the same change as one of the kinds of patches. Those of RFC 6902 say it in their own words; empty: they can't.
func (w *walk) patch(r request, o metav1.Object, change []byte, operations string) request {
	r.method, r.contentType, r.body = http.MethodPatch, oneOf(w, []string{asMerge, asStrategic, asJSONPatch, asApply}), change
	switch r.contentType {
	case asJSONPatch:
		if operations == "" {
			r.contentType = asMerge
		} else {
			r.body = []byte(operations)
		}
	case asApply:
		var fields map[string]any
		if err := json.Unmarshal(change, &fields); err != nil || strings.Contains(string(change), "null") { // it can't take away what is not its own
			r.contentType = asMerge
			break
		}
		kind := "Pod"
		if o.GetNamespace() == "" {
			kind = "Node"
		}
		meta, _ := fields["metadata"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
		}
		meta["name"] = o.GetName()
		if o.GetNamespace() != "" {
			meta["namespace"] = o.GetNamespace()
		}
		fields["apiVersion"], fields["kind"], fields["metadata"] = "v1", kind, meta
		r.body, r.query = toJSON(fields), url.Values{"fieldManager": {"attacks"}, "force": {"true"}}
	}
	return r
}

func mergePatch(attempt, who, path string, about []string, body string) request {
	return request{attempt: attempt, who: who, method: http.MethodPatch, path: path, contentType: asMerge, body: []byte(body), about: about}
}

// confirmationOf is what who has the verb writes, or, with another time, what does not count.
func (w *walk) confirmationOf(p *corev1.Pod, at time.Time) string {
	text := string(p.UID) + "/" + at.UTC().Format(time.RFC3339)
	if n := w.model.nodeOf(p.Spec.NodeName); n.node != nil && !ready(n.node) && n.lease != nil && n.lease.Spec.RenewTime != nil && strings.HasPrefix(p.Spec.NodeName, cold) {
		heard := readyCondition(n.node).LastHeartbeatTime.Time
		if n.lease.Spec.RenewTime.After(heard) {
			heard = n.lease.Spec.RenewTime.Time
		}
		text += "/" + heard.UTC().Format(time.RFC3339Nano)
	}
	return text
}

// confirmed is a confirmation that counts.
func (w *walk) confirmed(p *corev1.Pod) string {
	text := w.confirmationOf(p, time.Now())
	w.model.said.confirmations[text], w.model.said.confirming[p.UID] = true, w.version
	return text
}

func (w *walk) confirmPod() []request {
	p := w.target()
	if p == nil {
		return nil
	}
	who, text := oneOf(w, mayNotPod), ""
	switch w.rng.IntN(6) {
	case 0, 1:
		who, text = oneOf(w, mayPod), w.confirmed(p)
	case 2: // by who may, and worth nothing
		who = oneOf(w, mayPod)
		if w.one(2) {
			text = oneOf(w, []string{string(p.UID), "another/" + time.Now().UTC().Format(time.RFC3339)})
			break
		}
		// Of another time the API server takes none.
		text = w.confirmationOf(p, time.Now().Add(oneOf(w, []time.Duration{-61 * time.Minute, 61 * time.Minute, 1000 * time.Hour})))
		w.model.said.forged[text] = who
	case 3: // as it should be
		text = w.confirmationOf(p, time.Now())
		w.model.said.forged[text] = who
	default: // no other is like it
		w.forgeries++
		text = fmt.Sprintf("%s/%s/2999-01-01T00:00:00.%09dZ", p.UID, time.Now().UTC().Format(time.RFC3339), w.forgeries)
		w.model.said.forged[text] = who
	}
	var sub []string
	if w.one(3) {
		sub = []string{oneOf(w, []string{"status", "ephemeralcontainers", "resize"})}
	}
	r := w.patch(request{attempt: "confirm a pod", who: who, path: podPath(p, sub...), about: []string{podName(p)}}, p,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, confirmForceDelete, text), "")
	if sub != nil { // some drop annotations, and say that they took them
		r.attempt = "confirm a pod by a subresource"
	}
	rs := []request{w.dryly(r)}
	if w.one(2) {
		rs = append(rs, w.deleteOf(oneOf(w, removers), p))
	}
	return rs
}

// finalizer makes a force delete half done: it is confirmed and begun, a finalizer keeps the pod, and the confirmation is taken back.
func (w *walk) finalizer() []request {
	p := w.podWhere(func(p *podState) bool {
		return p.pod.DeletionTimestamp != nil && p.pod.DeletionGracePeriodSeconds != nil && *p.pod.DeletionGracePeriodSeconds == 0 && w.model.holds(p)
	})
	var rs []request
	if p == nil || w.one(2) {
		if p = w.podWhere(func(p *podState) bool { return p.pod.DeletionTimestamp == nil && w.model.holds(p) }); p == nil {
			return nil
		}
		about := []string{podName(p)}
		rs = append(rs,
			mergePatch("", oneOf(w, mayPod), podPath(p), about, fmt.Sprintf(`{"metadata":{"finalizers":[%q],"annotations":{%q:%q}}}`, hold, confirmForceDelete, w.confirmed(p))),
			request{who: oneOf(w, []string{"edit", "remover", "root"}), method: http.MethodDelete, path: podPath(p), query: url.Values{"gracePeriodSeconds": {"0"}}, about: about},
			mergePatch("", "edit", podPath(p), about, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, confirmForceDelete)))
	}
	switch w.rng.IntN(8) {
	case 0:
		rs = append(rs, w.deleteOf(oneOf(w, removers), p))
	case 1:
		rs = append(rs, w.eviction(p))
	case 2:
		rs = append(rs, w.ended(oneOf(w, writers), p))
	case 3: // the confirmation comes with it
		w.model.said.completed[p.UID] = true
		rs = append(rs, mergePatch("finalizer", oneOf(w, mayPod), podPath(p), []string{podName(p)}, fmt.Sprintf(`{"metadata":{"finalizers":null,"annotations":{%q:%q}}}`, confirmForceDelete, w.confirmed(p))))
	default:
		rs = append(rs, w.withoutFinalizers(p))
	}
	return rs
}

func (w *walk) withoutFinalizers(p *corev1.Pod) request {
	var sub []string
	who := oneOf(w, removers)
	if w.one(2) {
		who, sub = oneOf(w, []string{"operator", "remover", "root", "ghost"}), []string{oneOf(w, []string{"status", "ephemeralcontainers", "resize"})}
	}
	return w.dryly(w.patch(request{attempt: "finalizer", who: who, path: podPath(p, sub...), about: []string{podName(p)}}, p,
		[]byte(`{"metadata":{"labels":{"a":"b"},"finalizers":null}}`), `[{"op":"remove","path":"/metadata/finalizers"}]`))
}

// binding makes a pod that nobody schedules, and binds it: with a confirmation, and without.
func (w *walk) binding() []request {
	w.made++
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: oneOf(w, []string{w.stateful, w.open}), Name: fmt.Sprintf("bound-%d", w.made)},
		Spec: corev1.PodSpec{SchedulerName: "none", Containers: container()}}
	if old := w.target(); old != nil && w.one(4) {
		p = old // one that is bound already
	}
	bind := func(annotations map[string]string) request {
		b := &corev1.Binding{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"}, ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Annotations: annotations},
			Target: corev1.ObjectReference{Kind: "Node", Name: busy + "-0"}}
		r := request{attempt: "binding", who: oneOf(w, []string{"remover", "root"}), method: http.MethodPost, path: podPath(p, "binding"), contentType: asJSON, body: toJSON(b), about: []string{podName(p)}}
		if w.one(2) {
			r.path = "/api/v1/namespaces/" + p.Namespace + "/bindings"
		}
		return r
	}
	rs := []request{bind(map[string]string{confirmForceDelete: string(p.UID) + "/2026-01-31T12:00:00Z"}), bind(nil)}
	if p.UID == "" {
		rs = append([]request{{who: "edit", method: http.MethodPost, path: "/api/v1/namespaces/" + p.Namespace + "/pods", contentType: asJSON, body: toJSON(p)}}, rs...)
		rs = append(rs, request{attempt: "delete", who: "edit", method: http.MethodDelete, path: podPath(p), query: url.Values{"gracePeriodSeconds": {"0"}}, about: []string{podName(p)}})
	}
	return rs
}

// ownership edits by what a pod could be taken for something else, and then a removal.
func (w *walk) ownership() []request {
	p := w.target()
	if p == nil {
		return nil
	}
	about := []string{podName(p)}
	var rs []request
	switch w.rng.IntN(4) {
	case 0:
		rs = append(rs, mergePatch("", "edit", podPath(p), about, `{"metadata":{"ownerReferences":null,"labels":null}}`))
	case 1: // an owner that there is not: garbage collection deletes it
		rs = append(rs, mergePatch("", "edit", podPath(p), about, `{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"none","uid":"3fa85f64-5717-4562-b3fc-2c963f66afa6","controller":true}]}}`))
	case 2:
		set := oneOf(w, []string{busy, cold})
		rs = append(rs, request{who: "edit", method: http.MethodDelete, path: "/apis/apps/v1/namespaces/" + p.Namespace + "/statefulsets/" + set,
			query: url.Values{"propagationPolicy": {oneOf(w, []string{"Orphan", "Orphan", "Background"})}}, about: []string{p.Namespace + "/"}})
	case 3:
		return w.claim()
	}
	return append(rs, w.deleteOf(oneOf(w, tenants), p))
}

// claim recreates the claim of a pod, for many. Claims are told apart from the pod by times in seconds.
func (w *walk) claim() []request {
	p := w.podWhere(func(p *podState) bool {
		return w.model.said.exclusive[p.pod.UID] && p.pod.Status.StartTime != nil && time.Since(p.pod.Status.StartTime.Time) > 3*time.Second
	})
	if p == nil {
		return nil
	}
	path := "/api/v1/namespaces/" + p.Namespace + "/persistentvolumeclaims"
	about := []string{podName(p)}
	return []request{
		{who: "edit", method: http.MethodDelete, path: path + "/" + p.Name, about: about},
		mergePatch("", "edit", path+"/"+p.Name, about, `{"metadata":{"finalizers":null}}`),
		{who: "edit", method: http.MethodPost, path: path, contentType: asJSON, body: toJSON(claim(p.Namespace, p.Name, corev1.ReadWriteMany)), about: about},
		w.deleteOf("edit", p),
	}
}

// stopped is what the kubelet of a node that runs does for a pod that is being deleted.
func (w *walk) stopped() []request {
	p := w.podWhere(func(p *podState) bool { return p.pod.DeletionTimestamp != nil && w.runs(p.pod.Spec.NodeName) })
	if p == nil {
		return nil
	}
	w.model.said.ended[p.UID] = true
	about, who := []string{podName(p)}, kubelet(p.Spec.NodeName)
	rs := []request{{who: who, method: http.MethodDelete, path: podPath(p), contentType: asJSON, about: about,
		body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0,"preconditions":{"uid":%q}}`, p.UID)}}
	if !finished(p) && !w.one(5) {
		// With the UID, as a kubelet's are, which may have seen the pod's successor meanwhile (pkg/util/pod/pod.go PatchPodStatus, 1.36.3).
		rs = append([]request{mergePatch("", who, podPath(p, "status"), about, fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"phase":"Succeeded"}}`, p.UID))}, rs...)
	}
	return rs
}
