package enforcement

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Left is what a node has left of a signal, in bytes, inodes or processes.
type Left struct{ Available, Capacity int64 }

// LeftOf reads a kubelet's statistics (GET /stats/summary) as the kubelet does for its own thresholds (pkg/kubelet/eviction/helpers.go
// makeSignalObservations, 1.36.3), but for huge pages, which are taken off memory.available as by the node enforcer. capacity is the node's. A signal that
// they lack is absent.
func LeftOf(s *statsv1alpha1.Summary, capacity corev1.ResourceList) map[v1alpha1.EvictionSignal]Left {
	left := map[v1alpha1.EvictionSignal]Left{}
	if m := s.Node.Memory; m != nil && m.AvailableBytes != nil && m.WorkingSetBytes != nil {
		left[v1alpha1.SignalMemoryAvailable] = Left{int64(*m.AvailableBytes) - hugePages(capacity), int64(*m.AvailableBytes + *m.WorkingSetBytes)}
	}
	if r := s.Node.Rlimit; r != nil && r.MaxPID != nil && r.NumOfRunningProcesses != nil {
		left[v1alpha1.SignalPIDAvailable] = Left{*r.MaxPID - *r.NumOfRunningProcesses, *r.MaxPID}
	}
	disk := func(fs *statsv1alpha1.FsStats, bytes, inodes v1alpha1.EvictionSignal) {
		if fs != nil && fs.AvailableBytes != nil && fs.CapacityBytes != nil {
			left[bytes] = Left{int64(*fs.AvailableBytes), int64(*fs.CapacityBytes)}
		}
		if fs != nil && fs.InodesFree != nil && fs.Inodes != nil {
			left[inodes] = Left{int64(*fs.InodesFree), int64(*fs.Inodes)}
		}
	}
	disk(s.Node.Fs, v1alpha1.SignalNodeFsAvailable, v1alpha1.SignalNodeFsInodesFree)
	if r := s.Node.Runtime; r != nil {
		disk(r.ImageFs, v1alpha1.SignalImageFsAvailable, v1alpha1.SignalImageFsInodesFree)
	}
	return left
}

// hugePages are all of a node's, in bytes.
func hugePages(capacity corev1.ResourceList) (sum int64) {
	for name, q := range capacity {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			sum += q.Value()
		}
	}
	return sum
}

// Threshold is one of a NodePolicy by which its nodes' enforcers evict pods.
type Threshold struct {
	List   string // hard or soft
	Signal v1alpha1.EvictionSignal
	Value  v1alpha1.ThresholdValue
}

// String is such as "hard memory.available of 10%".
func (t Threshold) String() string { return fmt.Sprintf("%s %s of %s", t.List, t.Signal, t.Value) }

// Met reports whether less than the threshold's value is left. known is false if that can't be told.
func (t Threshold) Met(left map[v1alpha1.EvictionSignal]Left) (met, known bool) {
	l, known := left[t.Signal]
	amount, err := ParseAmount(t.Value)
	return known && err == nil && !amount.Never() && l.Available < amount.Of(l.Capacity), known && err == nil
}

// NewThresholds returns those by which pods are evicted after a change of a node's NodePolicy, and were not before. Either policy may be nil. One whose value is lower than before is
// not new.
func NewThresholds(before, after *v1alpha1.NodePolicy) []Threshold {
	had := evictingBy(before)
	return slices.DeleteFunc(evictingBy(after), func(t Threshold) bool {
		return slices.ContainsFunc(had, func(old Threshold) bool {
			return old.List == t.List && old.Signal == t.Signal && (old.Value == t.Value || t.lower(old))
		})
	})
}

// lower reports whether both values are of one form, and this one is not above the other.
func (t Threshold) lower(other Threshold) bool {
	a, err := ParseAmount(t.Value)
	b, wrong := ParseAmount(other.Value)
	return err == nil && wrong == nil && (a.Quantity == 0) == (b.Quantity == 0) && a.Quantity <= b.Quantity && a.Percentage <= b.Percentage
}

func evictingBy(p *v1alpha1.NodePolicy) (all []Threshold) {
	if p == nil || !Evicts(&p.Spec) {
		return nil
	}
	for _, t := range p.Spec.Eviction.Hard {
		all = append(all, Threshold{"hard", t.Signal, t.Value})
	}
	for _, t := range p.Spec.Eviction.Soft {
		all = append(all, Threshold{"soft", t.Signal, t.Value})
	}
	return slices.DeleteFunc(all, func(t Threshold) bool { // 100% and 0 are ignored, and what can't be read as well
		amount, err := ParseAmount(t.Value)
		return err != nil || amount.Never()
	})
}
