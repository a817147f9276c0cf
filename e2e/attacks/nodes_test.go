package attacks

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const nodesPath = "/api/v1/nodes"

// spare makes a node that nothing is bound to.
func (w *walk) spare(taints ...corev1.Taint) (*corev1.Node, request) {
	w.made++
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("spare-%d", w.made), Labels: map[string]string{group: "spare"}},
		Spec: corev1.NodeSpec{Taints: taints}}
	n.Labels[corev1.LabelHostname] = n.Name
	return n, request{who: oneOf(w, noders), method: http.MethodPost, path: nodesPath, contentType: asJSON, body: toJSON(n), about: []string{nodeName(n.Name)}}
}

// someNode is one of those that pods are bound to, mostly a cold one, or a spare one that the first request makes.
func (w *walk) someNode() (*corev1.Node, []request) {
	if w.one(4) {
		n, r := w.spare()
		return n, []request{r}
	}
	return w.nodeOfGroup(oneOf(w, []string{busy, cold, cold})), nil
}

func (w *walk) nodeOfGroup(of string) *corev1.Node {
	return w.nodeWhere(func(n *corev1.Node) bool { return n.Labels[group] == of })
}

func (w *walk) deleteNode() []request {
	n, rs := w.someNode()
	if n == nil {
		return nil
	}
	who := oneOf(w, noders)
	switch silent := rs == nil && !w.runs(n.Name); {
	case silent && w.one(20):
		who = repair
		w.model.said.actors[n.UID], w.model.said.lately[nodeName(n.Name)] = true, w.version
	case silent && w.one(3):
		rs = w.confirmOf(n)
	}
	return append(rs, w.deleting(request{attempt: "delete a node", who: who, path: nodesPath + "/" + n.Name, about: []string{nodeName(n.Name)}}, n.UID))
}

func (w *walk) deleteNodes() []request {
	n, rs := w.someNode()
	if n == nil {
		return nil
	}
	if rs == nil && !w.runs(n.Name) && w.one(3) {
		rs = w.confirmOf(n)
	}
	r := w.deleting(request{attempt: "delete a collection of nodes", who: oneOf(w, noders), path: nodesPath, about: []string{nodeName(n.Name)}}, "")
	if r.query == nil {
		r.query = url.Values{}
	}
	switch w.rng.IntN(3) {
	case 0:
		r.query.Set("fieldSelector", "metadata.name="+n.Name)
	case 1:
		r.query.Set("labelSelector", corev1.LabelHostname+"="+n.Name)
	case 2:
		r.query.Set("labelSelector", group+"="+n.Labels[group])
		r.about = []string{nodeName("")}
	}
	return append(rs, r)
}

// runs reports whether a node's machine runs, as far as the walk is its kubelet.
func (w *walk) runs(node string) bool {
	n := w.model.nodeOf(node)
	_, back := w.back[node]
	return n.node != nil && n.lease != nil && (n.node.Labels[group] == busy || back)
}

// offText is the true confirmation of a node as it is stored.
func (w *walk) offText(n *corev1.Node) string {
	return fmt.Sprintf("%s/%s/%s/%s", n.UID, n.Status.NodeInfo.BootID, readyCondition(n).LastHeartbeatTime.UTC().Format(time.RFC3339), w.renewed(n.Name))
}

func (w *walk) renewed(node string) string {
	if lease := w.model.nodeOf(node).lease; lease != nil && lease.Spec.RenewTime != nil {
		return lease.Spec.RenewTime.UTC().Format(metav1.RFC3339Micro)
	}
	return ""
}

// confirmOf says that a node is off, by who may.
func (w *walk) confirmOf(n *corev1.Node) []request {
	text := w.offText(n)
	w.model.said.confirmations[text] = true
	return []request{w.annotateNode(oneOf(w, mayNode), n, text)}
}

func (w *walk) annotateNode(who string, n *corev1.Node, text string) request {
	path := nodesPath + "/" + n.Name
	if who != "noder" && w.one(4) {
		path += "/status"
	}
	return w.dryly(w.patch(request{attempt: "confirm a node", who: who, path: path, about: []string{nodeName(n.Name)}}, n,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, confirmOff, text), ""))
}

func (w *walk) confirmNode() []request {
	n := w.nodeOfGroup(oneOf(w, []string{busy, cold, cold}))
	if n == nil {
		return nil
	}
	who := oneOf(w, mayNotOff)
	switch w.rng.IntN(5) {
	case 0, 1:
		if w.runs(n.Name) { // by who may, and false
			w.model.said.early[w.offText(n)] = true
			return []request{w.annotateNode(oneOf(w, mayNode), n, w.offText(n))}
		}
		return w.confirmOf(n)
	case 2: // taken back
		return []request{mergePatch("", who, nodesPath+"/"+n.Name, []string{nodeName(n.Name)}, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, confirmOff))}
	case 3: // by who may, of the node as it is, but for its lease
		return []request{w.annotateNode(oneOf(w, mayNode), n, w.offText(n)+"0")}
	}
	text := w.offText(n)
	if w.one(2) {
		w.forgeries++
		text += fmt.Sprint(w.forgeries)
	}
	w.model.said.forged[text] = who
	return []request{w.annotateNode(who, n, text)}
}

func (w *walk) outOfService() []request {
	taint := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	const attempt = "out of service"
	if w.one(8) {
		n, r := w.spare(taint)
		if gone := oneOf(w, []string{busy, cold}) + "-0"; w.model.nodeOf(gone).node == nil { // beside the pods of the one before
			n.Name = gone
			r.body, r.about = toJSON(n), []string{nodeName(gone)}
		}
		r.attempt = attempt
		return []request{r}
	}
	of := oneOf(w, []string{busy, cold, cold})
	n := w.nodeWhere(func(n *corev1.Node) bool { return n.Labels[group] == of && !outOfService(n) })
	if n == nil {
		return nil
	}
	var rs []request
	who, path := oneOf(w, noders), nodesPath+"/"+n.Name
	switch {
	case !w.runs(n.Name) && w.one(10): // which confirms it
		who = repair
		w.model.said.actors[n.UID], w.model.said.lately[nodeName(n.Name)] = true, w.version
		w.model.said.confirmations[w.offText(n)] = true
	case !w.runs(n.Name) && w.one(2):
		rs = w.confirmOf(n)
	}
	taints := append(n.DeepCopy().Spec.Taints, taint)
	r := w.patch(request{attempt: attempt, who: who, path: path, about: []string{nodeName(n.Name)}}, n, fmt.Appendf(nil, `{"spec":{"taints":%s}}`, toJSON(taints)),
		fmt.Sprintf(`[{"op":"add","path":"/spec/taints","value":%s}]`, toJSON(taints)))
	switch {
	case w.one(6):
		now := n.DeepCopy()
		now.Spec.Taints = taints
		r.method, r.contentType, r.query, r.body = http.MethodPut, asJSON, nil, toJSON(now)
	case who != "noder" && w.one(6): // which drops it, and says that it took it
		r.attempt, r.path = "out of service by the status", path+"/status"
	}
	return append(rs, w.dryly(r))
}

// leavingNode makes a node that a finalizer holds, deletes it while nothing is bound to it, and binds a protected pod to it then. With that pod the DELETE would be
// refused. From then on the finalizer has to stay for as long as the pod does.
func (w *walk) leavingNode() []request {
	n, r := w.spare()
	n.Labels[group], n.Finalizers = leaving, []string{hold}
	r.body = toJSON(n)
	pod := template(leaving, leaving)
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	p.Namespace, p.Name, p.Spec.NodeName = w.all, "on-"+n.Name, n.Name
	return []request{
		r,
		{who: oneOf(w, noders), method: http.MethodDelete, path: nodesPath + "/" + n.Name, about: r.about},
		{who: "edit", method: http.MethodPost, path: "/api/v1/namespaces/" + p.Namespace + "/pods", contentType: asJSON, body: toJSON(p), about: append(r.about, podName(p))},
	}
}

// nodeFinalizer begins the removal of a node that a finalizer holds, and takes the finalizer away. Only an old one is sure to hold it, and those
// of garbage collection never are. No busy one is held by another: nothing would end that. Most cold ones are confirmed off, so that a refusal would be rare
// without leaving ones.
func (w *walk) nodeFinalizer() []request {
	n, rs := w.nodeOfGroup(cold), []request(nil)
	finalizer := oneOf(w, []string{hold, hold, metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents})
	if !strings.Contains(finalizer, "/") && w.one(2) {
		n = w.nodeOfGroup(busy)
	}
	switch goes := w.nodeWhere(func(n *corev1.Node) bool { return n.Labels[group] == cold && n.DeletionTimestamp != nil }); {
	case w.one(5):
		var r request
		n, r = w.spare()
		rs = append(rs, r)
	case w.one(2):
		if n = w.nodeOfGroup(leaving); n == nil {
			return w.leavingNode()
		}
	case goes != nil && w.one(2):
		n = goes
	}
	if n == nil {
		return nil
	}
	who, about := oneOf(w, noders), []string{nodeName(n.Name)}
	if n.DeletionTimestamp == nil {
		if len(n.Finalizers) == 0 {
			rs = append(rs, mergePatch("", who, nodesPath+"/"+n.Name, about, fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, finalizer)))
			if n.UID != "" && !w.one(10) {
				return rs // until it is old
			}
		}
		rs = append(rs, w.deleting(request{who: oneOf(w, noders), path: nodesPath + "/" + n.Name, about: about}, ""))
		if n.UID != "" && !w.one(10) {
			return rs // to be drained, as far as anybody knows
		}
	}
	if n.UID != "" && !w.runs(n.Name) && w.one(4) {
		rs = append(w.confirmOf(n), rs...)
	}
	last := w.patch(request{attempt: "finalizer of a node", who: who, path: nodesPath + "/" + n.Name, about: about}, n, []byte(`{"metadata":{"finalizers":null}}`), `[{"op":"remove","path":"/metadata/finalizers"}]`)
	if who != "noder" && w.one(3) {
		last.path += "/status"
	}
	if n.UID != "" {
		last = w.dryly(last)
	}
	return append(rs, last) // a spare one goes
}

func (w *walk) detach() []request {
	v := w.attachment()
	if v == nil {
		return nil
	}
	const path = "/apis/storage.k8s.io/v1/volumeattachments"
	who := oneOf(w, []string{"operator", "remover", "root"})
	if w.one(12) {
		who = repair
		w.model.said.actors[v.UID] = true
	}
	r := w.deleting(request{attempt: "delete a VolumeAttachment", who: who, path: path + "/" + v.Name, about: []string{"volumeattachment/" + v.Name, nodeName(v.Spec.NodeName)}}, v.UID)
	if w.one(3) {
		r.path = path
		if r.query == nil {
			r.query = url.Values{}
		}
		r.query.Set("fieldSelector", "metadata.name="+v.Name)
	}
	return []request{r}
}
