package plan_test

import (
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/policy/enforcement"
)

func FuzzAnnotation(f *testing.F) {
	for _, a := range annotations {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := enforcement.Parse(text)
		if (e == nil) != (err != nil) {
			t.Fatalf("%v, %v", e, err)
		}
		tree := buildOne(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationEnforcement: text}}}, "containerd://a")
		if err != nil && len(tree.Notes) == 0 {
			t.Error("ignored without a note")
		}
	})
}

func FuzzParseCPUManagerState(f *testing.F) {
	f.Add([]byte(`{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`))
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0-3,6","entries":{"uid":{"app":"4-5"}},"checksum":0}`))
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0-99999999999"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := plan.ParseCPUManagerState(data)
		if (s == nil) != (err != nil) {
			t.Fatalf("%v, %v", s, err)
		}
	})
}

func FuzzParseMemoryManagerState(f *testing.F) {
	f.Add([]byte(`{"policyName":"None","machineState":{},"checksum":4236770233}`))
	f.Add([]byte(`{"policyName":"Static","entries":{"uid":{"app":[{"numaAffinity":[0,1],"type":"memory","size":1024}]}},"checksum":0}`))
	f.Add([]byte(`{"policyName":"Static","entries":{"uid":{"app":[{"numaAffinity":[-1]}]}}}`))
	f.Add([]byte(`{"policyName":"Static","podEntries":{"uid":[]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := plan.ParseMemoryManagerState(data)
		if (s == nil) != (err != nil) {
			t.Fatalf("%v, %v", s, err)
		}
		if err != nil {
			return
		}
		for uid, containers := range s.Entries {
			for name, blocks := range containers {
				for _, b := range blocks {
					for _, node := range b.NUMAAffinity {
						if node < 0 || node > cgroupfile.MaxCPU {
							t.Errorf("container %q of pod %q has the nodes %v", name, uid, b.NUMAAffinity)
						}
					}
				}
			}
		}
	})
}

// FuzzContainerID: whatever a status says, a container's group is one component below its pod's.
func FuzzContainerID(f *testing.F) {
	for _, id := range []string{"containerd://a", "cri-o://a", "containerd://../..", "cri-o://", "://", "containerd://.", "containerd://a\x00b", "x"} {
		f.Add(id, "uid")
	}
	f.Add("containerd://a", "../..")
	f.Fuzz(func(t *testing.T, id, uid string) {
		for _, v := range variants {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
			pod.UID = ""
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: uid, "kubernetes.io/config.hash": uid}
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Controller: new(true)}}
			tree := buildOneOn(plan.Node{Version: v.version, Driver: v.driver, Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}, pod, id)
			above := ""
			for _, g := range tree.Groups {
				if g.Path != path.Clean(g.Path) || strings.ContainsRune(g.Path, 0) {
					t.Fatalf("path %q", g.Path)
				}
				if g.Level == plan.LevelContainer && path.Dir(g.Path) != above {
					t.Fatalf("path %q is not below %q", g.Path, above)
				}
				if g.Level == plan.LevelPod {
					above = g.Path
				}
			}
		}
	})
}

// buildOne plans one pod with one container that runs.
func buildOne(pod *corev1.Pod, containerID string) *plan.Tree {
	pod.UID = "uid"
	return buildOneOn(plan.Node{Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}, pod, containerID)
}

func buildOneOn(node plan.Node, pod *corev1.Pod, containerID string) *plan.Tree {
	pod.Namespace, pod.Name = "ns", "pod"
	pod.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", ContainerID: containerID, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return plan.Build(node, &v1alpha1.NodePolicySpec{}, []*corev1.Pod{pod})
}

func TestParseCPUManagerState(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want *plan.CPUManagerState
		err  string
	}{
		"none, as the kubelet writes it": {`{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`, &plan.CPUManagerState{PolicyName: "none"}, ""},
		"another checksum":               {`{"policyName":"none","defaultCpuSet":"","checksum":1353318691}`, nil, "checksum"},
		"no checksum": {`{"policyName":"static","defaultCpuSet":"0-3,6","entries":{"u":{"a":"4-5"}},"checksum":0}`,
			&plan.CPUManagerState{PolicyName: "static", DefaultCPUSet: "0-3,6", Entries: map[string]map[string]string{"u": {"a": "4-5"}}}, ""},
		"empty":            {``, nil, "read cpu_manager_state"},
		"another policy":   {`{"policyName":"x"}`, nil, `policy "x" is not known`},
		"the first form":   {`{"policyName":"static","defaultCpuSet":"0","entries":{"id":"1"}}`, nil, "cannot unmarshal"},
		"the third form":   {`{"policyName":"static","defaultCpuSet":"0","podEntries":{"u":{"cpuSet":"1"}}}`, nil, `unknown field "podEntries"`},
		"a field twice":    {`{"policyName":"none","policyName":"static"}`, nil, "duplicate field"},
		"cut off":          {`{"policyName":"none"`, nil, "unexpected"},
		"something behind": {`{"policyName":"none"} x`, nil, "invalid character"},
		"descending":       {`{"policyName":"static","defaultCpuSet":"3-1"}`, nil, "ascending"},
		"overlapping":      {`{"policyName":"static","defaultCpuSet":"1-3,3"}`, nil, "ascending"},
		"joined":           {`{"policyName":"static","defaultCpuSet":"1,2"}`, nil, "ascending"},
		"huge":             {`{"policyName":"static","defaultCpuSet":"0-99999999"}`, nil, "ascending"},
		"no number":        {`{"policyName":"static","defaultCpuSet":"0-+3"}`, nil, "no list"},
		"an entry":         {`{"policyName":"static","defaultCpuSet":"","entries":{"u":{"a":"x"}}}`, nil, `container "a" of pod "u"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan.ParseCPUManagerState([]byte(tc.text))
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, wanted %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
