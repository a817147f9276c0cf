package diff

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A pod that runs is held against the template of its own controller, and not that of a namesake.
func TestRunningPodsOfCustomWorkloads(t *testing.T) {
	const manifests = `
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: w-1, labels: {app: w}, ownerReferences: [{apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet, name: w, uid: u, controller: true}]}
spec: {nodeName: n1, terminationGracePeriodSeconds: 50, priorityClassName: high, priority: 1000, containers: [{name: c}]}
status: {phase: Running}
---
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata: {namespace: shop, name: w, uid: u}
spec: {template: {metadata: {labels: {app: w}}, spec: {terminationGracePeriodSeconds: 50, containers: [{name: c}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: shop, name: w, uid: v}
spec: {selector: {matchLabels: {app: v}}, template: {metadata: {labels: {app: v}}, spec: {terminationGracePeriodSeconds: 70, containers: [{name: c}]}}}
`
	state := stateOf(t, append(documents(t, state), documents(t, manifests)...)...)
	if err := state.SetTemplate(schema.GroupKind{Group: "apps.kruise.io", Kind: "StatefulSet"}, "spec.template"); err != nil {
		t.Fatal(err)
	}
	c := Comparison{From: engine(t, state, ""), To: engine(t, state, policies("p", "{priority: {className: high}}"))}
	d, err := c.Of(t.Context(), documents(t, manifests))
	if err != nil {
		t.Fatal(err)
	}
	if d.Summary.Workloads != 2 || d.Summary.Running != 1 || len(d.Running) > 0 || len(d.Summary.NotKnown) > 0 || d.Summary.Errors > 0 {
		t.Errorf("%+v, %+v", d.Summary, d.Running)
	}
}

// A pod that no policy is for goes past the webhook, and gets from the API server what it has.
func TestRunningPodsThatNoPolicyIsFor(t *testing.T) {
	const policy = `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: all}
spec:
  gracePeriod: {minSeconds: 40}
`
	pod := func(namespace, name, spec, owner string) string {
		return `
---
apiVersion: v1
kind: Pod
metadata: {namespace: ` + namespace + `, name: ` + name + `, ` + owner + ` uid: ` + name + `}
spec: {nodeName: n1, terminationGracePeriodSeconds: 50, ` + spec + `, containers: [{name: c}]}
status: {phase: Running}
`
	}
	const (
		nodeCritical    = "priorityClassName: system-node-critical, priority: 2000001000, preemptionPolicy: PreemptLowerPriority"
		clusterCritical = "priorityClassName: system-cluster-critical, priority: 2000000000, preemptionPolicy: PreemptLowerPriority"
		ofProxy         = "ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: proxy, uid: u, controller: true}],"
	)
	manifests := pod("kube-system", "etcd", nodeCritical, "") + pod("kube-system", "dns", clusterCritical, "") + pod("podgrace-system", "webhook", clusterCritical, "") +
		pod("kube-system", "proxy-1", nodeCritical, ofProxy) + pod("shop", "critical", clusterCritical, "") + `
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {namespace: kube-system, name: proxy, uid: u}
spec:
  selector: {matchLabels: {app: proxy}}
  template:
    metadata: {labels: {app: proxy}}
    spec: {priorityClassName: system-node-critical, terminationGracePeriodSeconds: 50, containers: [{name: c}]}
`
	for _, from := range []string{"", policy} {
		d := diff(t, from, policy, manifests)
		if d.Summary.Running != 5 || d.Summary.RunningDifferent != 0 || d.Summary.Errors != 0 {
			t.Errorf("from %q: %+v, %+v", from, d.Summary, d.Running)
		}
	}
	// What differs is told all the same.
	older := strings.Replace(manifests, "priority: 2000001000", "priority: 7", 1)
	d := diff(t, "", policy, strings.Replace(older, "name: critical,  uid: critical}\nspec: {nodeName: n1, terminationGracePeriodSeconds: 50", "name: critical,  uid: critical}\nspec: {nodeName: n1, terminationGracePeriodSeconds: 35", 1))
	var got []string
	for _, r := range d.Running {
		for _, f := range r.Fields {
			got = append(got, r.Owner.Name+" "+f.Path)
		}
	}
	if strings.Join(got, ", ") != "etcd spec.priority, critical spec.terminationGracePeriodSeconds" {
		t.Errorf("%+v", d.Running)
	}
}
