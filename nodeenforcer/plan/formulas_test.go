package plan

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// TestFormulas has the numbers that were measured on real nodes, and the ends of each range.
func TestFormulas(t *testing.T) {
	v1, v2 := Node{Version: cgroupfile.V1, PageSize: 4096}, Node{Version: cgroupfile.V2, PageSize: 4096}
	for name, tc := range map[string]struct{ got, want any }{
		"shares of 100m":                     {sharesOf(100), int64(102)},
		"shares of nothing":                  {sharesOf(0), int64(2)},
		"shares of 1m":                       {sharesOf(1), int64(2)},
		"shares of 300 CPUs":                 {sharesOf(300_000), int64(262144)},
		"weight of 2 CPUs":                   {weightOf(sharesOf(2000)), int64(79)},
		"weight of 250m":                     {weightOf(sharesOf(250)), int64(10)},
		"weight of 100m":                     {weightOf(102), int64(4)},
		"weight of nothing":                  {weightOf(2), int64(1)},
		"weight at the top":                  {weightOf(262144), int64(10000)},
		"a container's weight, the default":  {curveOf(1024), int64(100)},
		"a container's weight of 100m":       {curveOf(102), int64(17)},
		"a container's least weight":         {curveOf(2), int64(1)},
		"a container's weight at the top":    {curveOf(262144), int64(10000)},
		"shares of the least weight":         {sharesOfWeight(1), int64(2)},
		"shares of the top weight":           {sharesOfWeight(10000), int64(262144)},
		"quota of 250m":                      {quotaOf(250, 100_000), int64(25_000)},
		"quota of 1m":                        {quotaOf(1, 100_000), int64(1000)},
		"quota of no limit":                  {quotaOf(0, 100_000), int64(0)},
		"quota of 15m by systemd":            {cgroupfile.SystemdQuota(quotaOf(15, 100_000), 100_000), int64(2000)},
		"quota of 250m by systemd":           {cgroupfile.SystemdQuota(25_000, 100_000), int64(25_000)},
		"quota of 15m in 10 ms by systemd":   {cgroupfile.SystemdQuota(1000, 10_000), int64(1000)},
		"a quota out of range by systemd":    {cgroupfile.SystemdQuota(math.MaxInt64, 100_000), int64(math.MaxInt64)},
		"memory in pages":                    {v2.memoryBytes(4097), "4096"},
		"all memory in v2":                   {v2.memoryBytes(math.MaxInt64), "max"},
		"all memory in v1":                   {v1.memoryBytes(math.MaxInt64), "9223372036854771712"},
		"negative memory":                    {v2.memoryBytes(-1), "0"},
		"unbounded huge pages":               {v2.hugeBytes(hugeUnbounded, 2<<20), "4611686018427387904"},
		"huge pages in pages":                {v1.hugeBytes(3<<20, 2<<20), "2097152"},
		"2Mi":                                {hugeUnit(2 << 20), "2MB"},
		"1Gi":                                {hugeUnit(1 << 30), "1GB"},
		"64Ki":                               {hugeUnit(64 << 10), "64KB"},
		"no page size":                       {hugeUnit(1025), ""},
		"throttling, KEP-2570":               {throttleAt(1<<30, 2<<30, 0.9, 4096), int64(2040107008)},
		"throttling below the request":       {throttleAt(2<<30, 1<<30, 0.9, 4096), int64(0)},
		"throttling within a page":           {throttleAt(4096, 8191, 0.9, 4096), int64(0)},
		"BFQ's default":                      {bfqWeight(100), int64(100)},
		"BFQ's least":                        {bfqWeight(1), int64(1)},
		"BFQ's most":                         {bfqWeight(10000), int64(1000)},
		"a portion without overflow":         {portion(math.MaxInt64, 50, 100), int64(math.MaxInt64 / 2)},
		"a portion that is too much":         {portion(math.MaxInt64, math.MaxInt64, 1), int64(math.MaxInt64)},
		"a portion of nothing":               {portion(1, 1, 0), int64(0)},
		"a sum that is too much":             {plus(math.MaxInt64, 1), int64(math.MaxInt64)},
		"one band for all is the kubelet's":  {band{oomBurstableMin, oomBurstableMax}.place(778, 0), 778},
		"rank 100 is the band's end":         {band{3, 334}.place(100, 100), 334},
		"rank 50 is half of what is left":    {band{3, 999}.place(801, 50), 900},
		"the kubelet's least is a band's":    {band{335, 666}.place(oomBurstableMin, 0), 335},
		"the kubelet's greatest is a band's": {band{335, 666}.place(oomBurstableMax, 0), 666},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %v, wanted %v", name, tc.got, tc.want)
		}
	}
}

// TestBands: more priorities than places share places, in order.
func TestBands(t *testing.T) {
	b := &builder{}
	b.policy.OOM = orderByPriority
	for i := range 2000 {
		b.members = append(b.members, burstableOf(int32(i)))
	}
	bands := b.oomBands()
	last := oomBurstableMin
	for p := int32(1999); p >= 0; p-- {
		r := bands[p]
		if r.low < last || r.high < r.low || r.high > oomBurstableMax {
			t.Fatalf("priority %d has %+v after %d", p, r, last)
		}
		last = r.low
	}
}

func TestGates(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		set     map[string]bool
		gate    string
		want    bool
	}{
		"alpha":                       {"v1.36.3", nil, gateMemoryQoS, false},
		"on by default later":         {"v1.37.0-beta.1", nil, gateMemoryQoS, true},
		"set":                         {"v1.36.3", map[string]bool{gateMemoryQoS: true}, gateMemoryQoS, true},
		"all alpha":                   {"v1.36.3", map[string]bool{"AllAlpha": true}, gateMemoryQoS, true},
		"set, against all alpha":      {"v1.36.3", map[string]bool{"AllAlpha": true, gateMemoryQoS: false}, gateMemoryQoS, false},
		"all alpha, of a beta":        {"v1.36.3", map[string]bool{"AllAlpha": false}, gatePodLevelResources, true},
		"no beta":                     {"v1.36.3", map[string]bool{"AllBeta": false}, gatePodLevelResources, false},
		"no beta, of a stable":        {"v1.36.3", map[string]bool{"AllBeta": false}, gateCFSQuotaPeriod, true},
		"not yet":                     {"v1.33.1", nil, gatePodLevelResources, false},
		"no version is 1.36":          {"", nil, gatePodLevelResources, true},
		"a version of something else": {"v2.1", nil, gatePodLevelResources, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := Node{KubeletVersion: tc.version, Kubelet: kubeletWith(tc.set)}
			if got := n.enabled(tc.gate); got != tc.want {
				t.Errorf("%s is %v", tc.gate, got)
			}
		})
	}
}

var orderByPriority = &v1alpha1.NodeOOM{Order: v1alpha1.OOMOrderPriority}

func burstableOf(priority int32) *member {
	return &member{class: corev1.PodQOSBurstable, pod: &corev1.Pod{Spec: corev1.PodSpec{Priority: &priority}}}
}

func kubeletWith(gates map[string]bool) *kubeletconfigv1beta1.KubeletConfiguration {
	return &kubeletconfigv1beta1.KubeletConfiguration{FeatureGates: gates}
}
