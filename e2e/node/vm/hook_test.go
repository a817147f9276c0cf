package vm

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/node/enforcer"
	"github.com/podgrace/podgrace/e2e/vm"
)

// available is what the enforcer measures, in MiB.
func (g *ground) available(t *testing.T) int {
	t.Helper()
	text := g.script(t, `awk '/^MemTotal:/{a=$2*1024} /^(anon|file) /{a-=$2} /^inactive_file /{a+=$2} END{printf "%d", a/1048576}' /proc/meminfo /sys/fs/cgroup/memory.stat`)
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A hard eviction contains the pod and still lets its preStop hook run. The victim is small: over its usage of about 60 MiB the few MiB
// of the hook are what the kernel stops a cgroup for, for 2 s at each 256 KiB (mm/memcontrol.c calculate_high_delay). The hook ends once the pod was
// loosened: one that is over before the enforcer looks needs no memory, and on a slow machine that happens.
func TestHookOfAContainedHog(t *testing.T) {
	const grace = 60 // an exec takes seconds under emulation
	g := start(t)
	g.Class(t, "low", 10)
	ns := g.Namespace(t)
	neighbour := g.Pod(ns, "neighbour", cluster.PauseImage, "50m/64Mi", "", nil)
	g.Running(t, neighbour)
	loosened := `podgrace_node_eviction_steps_total{kind="Hard",step="Loosened"}`
	before, err := g.Enforcer(t).Sum(t.Context(), loosened)
	if err != nil {
		t.Fatal(err)
	}
	h := g.Pod(ns, "hog", vm.HogImage, "", "", []string{"eat", "600", "2"}, enforcer.Priority("low"), func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = new(int64(grace))
		p.Spec.Volumes = []corev1.Volume{{Name: "out", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/run"}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "out", MountPath: "/out"}}
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{vm.HogProgram, "touch", "/out/" + ns, "/out/" + ns + "-loosened"}}}}
	})
	g.Running(t, h)
	g.wrote(t, h, "20.0 MiB") // measured once it has started, and once what was there before has gone
	spec := evicting()
	spec.Eviction.Hard[0].Value = v1alpha1.ThresholdValue(fmt.Sprintf("%dMi", g.available(t)-40))
	spec.Eviction.HardGracePeriodSeconds = new(int64(grace))
	spec.Eviction.PressureTransitionPeriod = &metav1.Duration{Duration: 3 * time.Second}
	g.NodePolicy(t, spec)
	g.Eventually(t, "the pod to be loosened", func(ctx context.Context) (bool, error) {
		n, err := g.Enforcer(t).Sum(ctx, loosened)
		return n == before+1, err
	})
	g.script(t, "touch /run/"+ns+"-loosened")
	g.gone(t, h)
	if got := g.script(t, "test -e /run/"+ns+" && echo ran || echo no"); got != "ran" {
		t.Error("the preStop hook did not run")
	}
	if logs := g.logs(t); !strings.Contains(logs, `pod="`+ns+`/hog (`+string(h.UID)+`)" step="Contained"`) {
		t.Error("the pod was not contained")
	}
	g.Lives(t, neighbour)
	g.calm(t)
}
