package vm

import (
	"context"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/vmnode"
)

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

var (
	guaranteed = corev1.ResourceRequirements{Requests: list("250m", "64Mi"), Limits: list("250m", "64Mi")}
	burstable  = corev1.ResourceRequirements{Requests: list("100m", "64Mi"), Limits: list("500m", "256Mi")}
	bestEffort = corev1.ResourceRequirements{}
)

// One pod of each QoS class, and what the kubelet and the runtime write for it.
func TestCgroupsOfTheQoSClasses(t *testing.T) {
	s, n := start(t)
	ns := namespace(t, s)
	var object corev1.Node
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: nodeName}, &object); err != nil {
		t.Fatal(err)
	}
	memory := object.Status.Capacity.Memory().Value()
	burstableAdjust := strconv.FormatInt(1000-1000*(64<<20)/memory, 10)

	if got := read(t, n, vmnode.Kubepods, "cpu.weight"); got["cpu.weight"] != "79" { // of 2 CPUs
		t.Errorf("kubepods has cpu.weight %s", got["cpu.weight"])
	}
	for _, tc := range []struct {
		name      string
		resources corev1.ResourceRequirements
		want      map[string]string // of pod and container alike
		adjust    string
	}{
		{"guaranteed", guaranteed, map[string]string{"cpu.weight": "10", "cpu.max": "25000 100000", "memory.max": "67108864"}, "-997"},
		{"burstable", burstable, map[string]string{"cpu.weight": "4", "cpu.max": "50000 100000", "memory.max": "268435456"}, burstableAdjust},
		{"besteffort", bestEffort, map[string]string{"cpu.weight": "1", "cpu.max": "max 100000", "memory.max": "max"}, "1000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := pod(ns, tc.name, cluster.PauseImage, tc.resources)
			running(t, s, p)
			container := vmnode.ContainerCgroup(p, "main")
			for _, dir := range []string{vmnode.PodCgroup(p), container} {
				if diff := cmp.Diff(tc.want, read(t, n, dir, "cpu.weight", "cpu.max", "memory.max")); diff != "" {
					t.Errorf("%s: -want +got:\n%s", dir, diff)
				}
			}
			got := read(t, n, container, "cgroup.procs", "memory.oom.group")
			if got["memory.oom.group"] != "1" {
				t.Errorf("memory.oom.group %q", got["memory.oom.group"])
			}
			if adjust := read(t, n, "/proc/"+got["cgroup.procs"], "oom_score_adj")["oom_score_adj"]; adjust != tc.adjust {
				t.Errorf("oom_score_adj %s, want %s", adjust, tc.adjust)
			}
		})
	}
}

// read reads files of a folder in the guest, by their names.
func read(t *testing.T, n *vmnode.Node, dir string, names ...string) map[string]string {
	t.Helper()
	var paths []string
	for _, name := range names {
		paths = append(paths, path.Join(dir, name))
	}
	values, err := n.Read(t.Context(), paths...)
	if err != nil {
		t.Fatal(err)
	}
	short := map[string]string{}
	for name, value := range values {
		short[path.Base(name)] = value
	}
	return short
}

func TestKubeletAndSandboxesAreTheLastToGo(t *testing.T) {
	s, n := start(t)
	p := pod(namespace(t, s), "one", cluster.PauseImage, bestEffort)
	running(t, s, p)
	got := run(t, n, "cat /proc/$(systemctl show --property=MainPID --value kubelet)/oom_score_adj\n"+
		"for scope in "+vmnode.PodCgroup(p)+"/cri-containerd-*; do cat /proc/$(cat $scope/cgroup.procs)/oom_score_adj; done | sort --numeric-sort")
	if want := "-999\n-998\n1000\n"; got != want {
		t.Errorf("kubelet, sandbox and container: got %q, want %q", got, want)
	}
}

// Exec, logs and hooks: the helper's commands, over the API server where that is the way.
func TestHogHelps(t *testing.T) {
	s, n := start(t)
	ns := namespace(t, s)
	p := pod(ns, "hog", vmnode.HogImage, bestEffort, "eat", "20", "100")
	p.Spec.Volumes = []corev1.Volume{{Name: "out", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/run"}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "out", MountPath: "/out"}}
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{vmnode.HogProgram, "touch", "/out/" + ns}}},
	}
	p.Spec.TerminationGracePeriodSeconds = new(int64(60)) // an exec takes seconds under emulation
	running(t, s, p)
	if _, _, err := s.Kubectl(t.Context(), "exec", "--namespace="+ns, p.Name, "--", vmnode.HogProgram, "sleep", "0.1"); err != nil {
		t.Error(err)
	}
	eventually(t, "the hog to have its memory", func(ctx context.Context) (bool, error) {
		logs, _, err := s.Kubectl(ctx, "logs", "--namespace="+ns, p.Name)
		return strings.HasSuffix(logs, "has 20.0 MiB\n"), err
	})
	usage, err := strconv.Atoi(read(t, n, vmnode.ContainerCgroup(p, "main"), "memory.current")["memory.current"])
	if err != nil || usage < 20<<20 || usage > 60<<20 {
		t.Errorf("the hog uses %d bytes, %v", usage, err)
	}
	if err := s.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the preStop hook", func(ctx context.Context) (bool, error) {
		got, err := n.Read(ctx, "/run/"+ns)
		return len(got) == 1, err
	})
}
