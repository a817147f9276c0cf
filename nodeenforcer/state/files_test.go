package state_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

const podYAML = `apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  nodeName: node-1
  initContainers:
  - {name: once}
  - {name: proxy, restartPolicy: Always}
  containers:
  - {name: c, resources: {limits: {memory: 1Gi, cpu: 1}, requests: {cpu: 100m}}}
`

func TestReadPods(t *testing.T) {
	list := `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","namespace":"shop","uid":"1"}},{"apiVersion":"v1","kind":"Service"}]}`
	podList := `{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"c","uid":"2"}},{"metadata":{"name":"d","uid":"3"},"spec":{"nodeName":"other"}}]}`
	text := "---\n" + podYAML + "---\n# nothing\n---\nkind: ConfigMap\napiVersion: v1\n---\r\n" + list + "\n---\n" + podList
	pods, others, err := state.ReadPods(statetest.TextFile(t, text), "node-1")
	if err != nil || others != 2 || len(pods) != 3 {
		t.Fatalf("got %d pods, %d others, %v", len(pods), others, err)
	}
	a := pods[0]
	if a.Namespace != "default" || a.UID == "" || a.Status.Phase != corev1.PodRunning {
		t.Errorf("a manifest is not planned as if it ran: %+v", a.ObjectMeta)
	}
	if len(a.Status.InitContainerStatuses) != 2 || a.Status.InitContainerStatuses[1].Name != "proxy" || len(a.Status.ContainerStatuses) != 1 {
		t.Errorf("the containers that would run are %v, %v", a.Status.InitContainerStatuses, a.Status.ContainerStatuses)
	}
	if r := a.Spec.Containers[0].Resources.Requests; r.Memory().String() != "1Gi" || r.Cpu().String() != "100m" {
		t.Errorf("a request that is not set is the limit: got %v", r)
	}
	if b := pods[1]; b.UID != "1" || b.Status.Phase != "" {
		t.Errorf("a pod of a cluster was changed: %+v", b)
	}
}

// Of a pod of a cluster every container that was never made has its place as well: the status of one that waits for its node, or of a file that somebody
// has trimmed, names none. What was made is as the status says.
func TestReadPodsWithoutStatuses(t *testing.T) {
	const spec = "spec: {initContainers: [{name: i}], containers: [{name: c}, {name: d}]}"
	made := "initContainerStatuses: [{name: i, containerID: 'containerd://1', state: {terminated: {exitCode: 0}}}], "
	for name, test := range map[string]struct {
		status string
		want   map[string]string // the containers that run, by name
	}{
		"no status":         {"{}", map[string]string{"i": "containerd://i", "c": "containerd://c", "d": "containerd://d"}},
		"a phase":           {"{phase: Pending}", map[string]string{"i": "containerd://i", "c": "containerd://c", "d": "containerd://d"}},
		"being made":        {"{phase: Pending, " + made + "containerStatuses: [{name: c, state: {waiting: {reason: ContainerCreating}}}]}", map[string]string{"c": "containerd://c", "d": "containerd://d"}},
		"one runs":          {"{phase: Running, " + made + "containerStatuses: [{name: c, containerID: 'containerd://2', state: {running: {}}}]}", map[string]string{"c": "containerd://2", "d": "containerd://d"}},
		"one waits to live": {"{phase: Running, " + made + "containerStatuses: [{name: c, containerID: 'containerd://2', state: {waiting: {reason: CrashLoopBackOff}}}]}", map[string]string{"d": "containerd://d"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: u}\n" + spec + "\nstatus: " + test.status + "\n"
			pods, _, err := state.ReadPods(statetest.TextFile(t, text), "")
			if err != nil || len(pods) != 1 || pods[0].UID != "u" {
				t.Fatalf("%v, %v", pods, err)
			}
			got := map[string]string{}
			for _, s := range append(pods[0].Status.InitContainerStatuses, pods[0].Status.ContainerStatuses...) {
				if s.State.Running != nil {
					got[s.Name] = s.ContainerID
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A workload has one pod in the plan, with all of its containers; what another workload makes has none of its own.
func TestReadPodsOfWorkloads(t *testing.T) {
	const template = "template: {metadata: {labels: {a: b}}, spec: {initContainers: [{name: i}], containers: [{name: c, resources: {limits: {memory: 1Gi}}}]}}"
	text := ""
	for _, workload := range []string{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {containers: [{name: c}]}",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop, uid: u}\nspec: {replicas: 2, " + template + "}",
		"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web-1, namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]}\nspec: {" + template + "}",
		"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web, namespace: shop}\nspec: {" + template + "}",
		"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: log}\nspec: {" + template + "}",
		"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: night}\nspec: {jobTemplate: {spec: {" + template + "}}}",
		"apiVersion: v1\nkind: ReplicationController\nmetadata: {name: old}\nspec: {}",
	} {
		text += workload + "\n---\n"
	}
	pods, others, err := state.ReadPods(statetest.TextFile(t, text), "node-1")
	if err != nil || others != 2 {
		t.Fatalf("%d others, %v", others, err)
	}
	var got []string
	for _, p := range pods {
		got = append(got, p.Namespace+"/"+p.Name+" "+string(p.UID))
		if p.Status.Phase != corev1.PodRunning || len(p.Status.ContainerStatuses) != len(p.Spec.Containers) || len(p.Status.InitContainerStatuses) != len(p.Spec.InitContainers) {
			t.Errorf("%s is not planned as if it ran: %+v", p.Name, p.Status)
		}
	}
	want := []string{"shop/web shop.web", "shop/web shop.deployment.web", "shop/web shop.statefulset.web", "default/log default.daemonset.log", "default/night default.cronjob.night"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Manifests have no UIDs: each gets its own, which can be a cgroup's name, however long it is.
func TestReadPodsGivesUIDs(t *testing.T) {
	long := strings.Repeat("a", 250)
	text := ""
	for _, pod := range []string{"a, namespace: shop-b", "b-a, namespace: shop", long + "aa", long + "ab"} {
		text += "kind: Pod\napiVersion: v1\nmetadata: {name: " + pod + "}\n---\n"
	}
	pods, _, err := state.ReadPods(statetest.TextFile(t, text), "")
	if err != nil || len(pods) != 4 {
		t.Fatalf("got %d pods, %v", len(pods), err)
	}
	for _, p := range pods {
		if len(p.UID) > 128 {
			t.Errorf("the UID of %s is %s", p.Name, p.UID)
		}
	}
}

func TestReadPodsRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"binary":          {"\x00\x01", "a binary file"},
		"half a document": {podYAML + "---\nkind: Pod\napiVersion: v1\nspec: {containers: [", ":14: YAML: "},
		"a wrong type":    {"kind: Pod\napiVersion: v1\nspec: {nodeName: 3}\n", ":1: "},
		"no kind":         {"a: b\n", ":1: no apiVersion and no kind"},
		"in a list":       {`{"kind":"List","apiVersion":"v1","items":[{"kind":"Pod","apiVersion":"v1","spec":3}]}`, ":1: "},
		"the same twice":  {podYAML + "---\n" + podYAML, "pods default/a and default/a are one"},
	} {
		t.Run(name, func(t *testing.T) {
			pods, _, err := state.ReadPods(statetest.TextFile(t, tc.text), "")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %d pods, %v, want %q", len(pods), err, tc.want)
			}
		})
	}
	if _, _, err := state.ReadPods(filepath.Join(t.TempDir(), "none"), ""); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestReadNode(t *testing.T) {
	const node = "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n"
	if n, err := state.ReadNode(statetest.TextFile(t, podYAML+"---\n"+node)); err != nil || n.Name != "node-1" {
		t.Errorf("got %v, %v", n, err)
	}
	for _, text := range []string{"", node + "---\n" + node} {
		if _, err := state.ReadNode(statetest.TextFile(t, text)); err == nil || !strings.Contains(err.Error(), "Nodes in it, want one") {
			t.Errorf("got %v", err)
		}
	}
}

func FuzzReadPods(f *testing.F) {
	f.Add(podYAML)
	f.Add(`{"kind":"List","apiVersion":"v1","items":[{}]}`)
	f.Add("kind: List\napiVersion: v1\nitems: [{kind: List, apiVersion: v1, items: [null]}]")
	f.Fuzz(func(t *testing.T, text string) {
		pods, _, err := state.ReadPods(statetest.TextFile(t, text), "")
		for _, p := range pods {
			if err != nil || p.Namespace == "" {
				t.Errorf("pod %s/%s, error %v", p.Namespace, p.Name, err)
			}
		}
	})
}
