package fidelity

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubeletqos "k8s.io/kubernetes/pkg/kubelet/qos"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// TestFidelityNodePod: the group of each pod has the kubelet's QoS class, path and files. Systemd's rounding of quotas is not the
// kubelet's: there quotas are left out.
func TestFidelityNodePod(t *testing.T) {
	t.Parallel()
	wanted := draw.Shares{"Guaranteed": 10, "Burstable": 30, "BestEffort": 3, "quota": 10, "memory limit": 10, "huge pages": 10, "protection": 5, "pod level": 10}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := nodeCases.Draw(t, "case")
		v := rapid.SampledFrom([]cgroupfile.Version{cgroupfile.V1, cgroupfile.V2}).Draw(t, "version")
		groups := map[string]plan.Group{}
		tree := plan.Build(c.node(v), nil, c.Pods)
		for _, g := range tree.Groups {
			if g.Level == plan.LevelPod {
				groups[g.Pod.Name] = g
			}
		}
		for _, p := range c.Pods {
			got, class := groups[p.Name], qos.GetPodQOS(p)
			if got.QOS != class || plan.QOSClass(p, true) != class {
				t.Fatalf("class %s, the kubelet's %s\n%s", got.QOS, class, draw.Show(p))
			}
			if want := c.kubeletPath(class, p); got.Path != want {
				t.Fatalf("path %s, the kubelet's %s", got.Path, want)
			}
			want := c.kubeletFiles(v, p)
			files := map[string]string{}
			for file, value := range got.Files {
				if !c.Systemd || file != "cpu.max" && file != "cpu.cfs_quota_us" {
					files[file] = value.Want
				}
			}
			if diff := cmp.Diff(want, files); diff != "" {
				t.Fatalf("-kubelet +plan:\n%s\n%s", diff, draw.Show(c, p))
			}
			countPod(counts, class, want, p)
		}
	})
}

func countPod(counts *draw.Tally, class corev1.PodQOSClass, files map[string]string, p *corev1.Pod) {
	kinds := map[string]bool{string(class): true, "pod level": p.Spec.Resources != nil}
	for file := range files {
		kinds["quota"] = kinds["quota"] || file == "cpu.max" || file == "cpu.cfs_quota_us"
		kinds["memory limit"] = kinds["memory limit"] || file == "memory.max" || file == "memory.limit_in_bytes"
		kinds["huge pages"] = kinds["huge pages"] || strings.HasPrefix(file, "hugetlb")
		kinds["protection"] = kinds["protection"] || file == "memory.min" || file == "memory.low"
	}
	for kind, is := range kinds {
		if is {
			counts.Add(kind)
		}
	}
}

// kubeletPath is GetPodContainerName, which can't be called without a kubelet.
func (c *nodeCase) kubeletPath(class corev1.PodQOSClass, p *corev1.Pod) string {
	name := cm.NewCgroupName(cm.ParseCgroupfsToCgroupName(c.Root), "kubepods")
	if class != corev1.PodQOSGuaranteed {
		name = cm.NewCgroupName(name, strings.ToLower(string(class)))
	}
	name = cm.NewCgroupName(name, cm.GetPodCgroupNameSuffix(p.UID))
	if c.Systemd {
		return name.ToSystemd()
	}
	return name.ToCgroupfs()
}

// kubeletFiles are the files that libcontainer writes for the kubelet's configuration of the pod, as the kernel prints them.
func (c *nodeCase) kubeletFiles(v cgroupfile.Version, p *corev1.Pod) map[string]string {
	policy := kubeletconfig.NoneMemoryReservationPolicy
	if c.Tiered {
		policy = kubeletconfig.TieredReservationMemoryReservationPolicy
	}
	r := cm.ResourceConfigForPod(p, c.Quota, uint64(c.PeriodMillis*1000), c.MemoryQoS && v == cgroupfile.V2, policy)
	files := map[string]string{}
	if v == cgroupfile.V1 {
		files["cpu.shares"] = strconv.FormatUint(*r.CPUShares, 10)
	} else {
		files["cpu.weight"] = strconv.FormatUint(getCPUWeight(r.CPUShares), 10)
	}
	if r.CPUQuota != nil {
		c.quotaFiles(v, files, *r.CPUQuota, *r.CPUPeriod)
	}
	limit, suffix := "memory.max", ".max"
	if v == cgroupfile.V1 {
		limit, suffix = "memory.limit_in_bytes", ".limit_in_bytes"
	}
	if r.Memory != nil && *r.Memory != 0 {
		files[limit] = wholePages(*r.Memory)
	}
	for size, bytes := range r.HugePageLimit {
		unit, err := v1helper.HugePageUnitSizeFromByteSize(size)
		if err != nil {
			continue
		}
		for _, kind := range []string{"", ".rsvd"} {
			files["hugetlb."+unit+kind+suffix] = strconv.FormatInt(bytes/size*size, 10)
		}
	}
	for file, value := range r.Unified {
		n, _ := strconv.ParseInt(value, 10, 64)
		files[file] = wholePages(n)
	}
	if c.PodPIDs > 0 {
		files["pids.max"] = strconv.FormatInt(c.PodPIDs, 10)
	}
	return files
}

// quotaFiles: libcontainer takes 0 as none (fs/cpu.go and fs2/cpu.go).
func (c *nodeCase) quotaFiles(v cgroupfile.Version, files map[string]string, quota int64, period uint64) {
	if v == cgroupfile.V1 {
		files["cpu.cfs_period_us"] = strconv.FormatUint(period, 10)
		if quota != 0 && !c.Systemd {
			files["cpu.cfs_quota_us"] = strconv.FormatInt(quota, 10)
		}
		return
	}
	if c.Systemd {
		return
	}
	text := "max"
	if quota > 0 {
		text = strconv.FormatInt(quota, 10)
	}
	files["cpu.max"] = fmt.Sprintf("%s %d", text, period)
}

func wholePages(bytes int64) string { return strconv.FormatInt(bytes/nodePage*nodePage, 10) }

// TestFidelityNodeOOMScore: the oom_score_adj of each container is the kubelet's.
func TestFidelityNodeOOMScore(t *testing.T) {
	t.Parallel()
	wanted := draw.Shares{"-997": 10, "1000": 5, "between": 20, "sidecar": 5, "pod level": 5}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := nodeCases.Draw(t, "case")
		got := map[string]int{}
		for _, p := range plan.Build(c.node(cgroupfile.V2), nil, c.Pods).Processes {
			got[p.Pod.Name+"/"+p.Container] = p.OOMScoreAdj
		}
		for _, p := range c.Pods {
			for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
				for i := range containers {
					want, key := kubeletqos.GetContainerOOMScoreAdjust(p, &containers[i], nodeMemory), p.Name+"/"+containers[i].Name
					if score, ok := got[key]; !ok || score != want {
						t.Fatalf("%s has %d (%v), the kubelet's %d\n%s", key, score, ok, want, draw.Show(p))
					}
					countScore(counts, want, &containers[i], p)
				}
			}
		}
	})
}

func countScore(counts *draw.Tally, score int, c *corev1.Container, p *corev1.Pod) {
	switch score {
	case -997, 1000:
		counts.Add(strconv.Itoa(score))
		return
	}
	counts.Add("between")
	if c.RestartPolicy != nil {
		counts.Add("sidecar")
	}
	if p.Spec.Resources != nil {
		counts.Add("pod level")
	}
}

// TestFidelityNodeNames: kubepods is where the kubelet's own function says, whatever its root.
func TestFidelityNodeNames(t *testing.T) {
	t.Parallel()
	draw.Check(t, nil, func(t *rapid.T, _ *draw.Tally) {
		// An empty component, which systemd can't have, makes the kubelet panic: there nothing is planned, which unit tests show.
		parts := rapid.SliceOfN(rapid.StringMatching(`[a-z_-][a-z0-9_-]{0,8}`), 0, 4).Draw(t, "parts")
		for _, systemd := range []bool{false, true} {
			c := nodeCase{Root: "/" + strings.Join(parts, "/"), Systemd: systemd, PeriodMillis: 100}
			n := c.node(cgroupfile.V2)
			want := cm.NodeAllocatableRoot(c.Root, true, string(n.Driver))
			tree := plan.Build(n, nil, nil)
			if len(tree.Groups) == 0 || tree.Groups[0].Path != want || path.Dir(tree.Groups[1].Path) != want {
				t.Fatalf("root %s: %+v, the kubelet's %s", c.Root, tree, want)
			}
		}
	})
}
