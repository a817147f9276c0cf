package repair

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// drawBed is a node with pods of all kinds, whose files hold what was planned, or what is planned for some other group.
func drawBed(t *testing.T, r *rapid.T) *bed {
	var pods []*corev1.Pod
	for i := range rapid.IntRange(0, 4).Draw(r, "pods") {
		pods = append(pods, drawPod(r, fmt.Sprintf("p%d", i)))
	}
	b := newBed(t, pods...)
	b.Node.Version = rapid.SampledFrom([]cgroupfile.Version{cgroupfile.V1, cgroupfile.V2}).Draw(r, "version")
	b.Node.Driver = plan.Cgroupfs
	if b.Node.Version == cgroupfile.V2 { // with v1 and systemd nothing of others is repaired
		b.Node.Driver = rapid.SampledFrom([]plan.Driver{plan.Cgroupfs, plan.Systemd}).Draw(r, "driver")
	}
	if rapid.Bool().Draw(r, "policy") {
		b.Policy = &v1alpha1.NodePolicySpec{
			QOSReserved: &v1alpha1.QOSReserved{MemoryPercent: rapid.Int32Range(0, 100).Draw(r, "reserved")},
			Memory:      &v1alpha1.NodeMemory{Protection: v1alpha1.NodeMemoryProtectionTiered, ThrottlePercent: new(int32(90))},
			OOM:         &v1alpha1.NodeOOM{Order: v1alpha1.OOMOrderPriority},
		}
	}
	values := map[string][]string{}
	for _, g := range b.Tree().Groups {
		for file, v := range g.Files {
			values[file] = append(values[file], v.Want)
		}
	}
	b.make(func(g plan.Group, file string) string {
		if rapid.IntRange(0, 2).Draw(r, "drift") > 0 {
			return g.Files[file].Want
		}
		slices.Sort(values[file])
		return rapid.SampledFrom(values[file]).Draw(r, file)
	})
	for i, p := range b.Tree().Processes {
		b.Process(p.Path, 100+i, rapid.SampledFrom([]int{0, p.OOMScoreAdj}).Draw(r, "adj"))
	}
	return b
}

func drawPod(r *rapid.T, name string) *corev1.Pod {
	var resources []string
	for _, kind := range []string{"cpu", "memory"} {
		unit := map[string]string{"cpu": "00m", "memory": "00Mi"}[kind]
		request := rapid.IntRange(0, 4).Draw(r, kind)
		if request > 0 {
			resources = append(resources, fmt.Sprintf("%s=%d%s", kind, request, unit))
		}
		if more := rapid.IntRange(0, 2).Draw(r, kind+" limit"); more < 2 && request+more > 0 {
			resources = append(resources, fmt.Sprintf("%s<%d%s", kind, request+more, unit))
		}
	}
	p := statetest.Pod(name, resources...)
	p.Spec.Priority = new(rapid.Int32Range(0, 2).Draw(r, "priority"))
	if rapid.Bool().Draw(r, "contract") {
		p.Annotations = map[string]string{v1alpha1.AnnotationEnforcement: `{"cpu":{"weight":300},"io":{"weight":200},"memory":{"protection":"Low"}}`}
	}
	return p
}

// snapshot is all that files and processes hold.
func (b *bed) snapshot() map[string]string {
	all := map[string]string{}
	for _, g := range b.Tree().Groups {
		for file := range g.Files {
			value, ok := b.Cgroups.Get(g.Path, file)
			all[g.Path+" "+file] = fmt.Sprint(value, ok)
		}
	}
	for i := range b.Tree().Processes {
		all[fmt.Sprint(100+i)] = strings.TrimSpace(b.Adj(100 + i))
	}
	return all
}

func differing(before, after map[string]string) (keys []string) {
	for key := range after {
		if before[key] != after[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// Observe and a dry run never write; after a full round of Repair another one has nothing to do.
func TestRoundProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := drawBed(t, r)
		before := b.snapshot()
		b.Mode = v1alpha1.NodeModeObserve
		b.mustRound(true)
		b.Mode, b.enforcer.DryRun = v1alpha1.NodeModeRepair, true
		b.mustRound(true)
		b.mustRound(false)
		if wrote := differing(before, b.snapshot()); len(wrote)+len(b.Cgroups.Writes()) > 0 {
			r.Fatalf("it wrote %v, %v", wrote, b.Cgroups.Writes())
		}

		b.enforcer.DryRun = false
		first, _ := b.mustRound(true)
		second, writes := b.mustRound(true)
		if len(writes)+len(second.Written)+len(second.Diff.Operations)+len(second.Processes.Operations) > 0 {
			r.Fatalf("after %v\nit wrote again: %v\nand would %v, %v", first.Written, writes, second.Diff.Operations, second.Processes.Operations)
		}
		if left := second.Diff.Drift; len(left) > 0 && slices.ContainsFunc(left, func(d drift.Drift) bool { return d.Why == "" }) {
			r.Fatalf("there is drift without a reason: %v", left)
		}
	})
}

// Tune writes what nobody else owns, and nothing else.
func TestTuneProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := drawBed(t, r)
		before := b.snapshot()
		b.Mode = v1alpha1.NodeModeTune
		b.mustRound(true)
		ours := map[string]bool{}
		for _, g := range b.Tree().Groups {
			for file, v := range g.Files {
				ours[g.Path+" "+file] = v.Owner == plan.Nobody
			}
		}
		for i, p := range b.Tree().Processes {
			ours[fmt.Sprint(100+i)] = p.Owner == plan.Nobody
		}
		for _, key := range differing(before, b.snapshot()) {
			if !ours[key] {
				r.Fatalf("%s was written", key)
			}
		}
	})
}

// When the policy goes, files and processes are as they were before it came; not as long as it is only unknown.
func TestPolicyGoes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := drawBed(t, r)
		policy := b.Policy
		b.Policy, b.enforcer.Undo = nil, &ledger.Ledger{}
		b.make(statetest.AsPlanned)
		b.mustRound(true) // as the kubelet and the runtime have it
		b.Policy = policy
		for _, g := range b.Tree().Groups { // and what they do not write has the kernel's defaults
			for file, v := range g.Files {
				if _, ok := b.Cgroups.Get(g.Path, file); !ok {
					b.Cgroups.Set(g.Path, file, rapid.SampledFrom([]string{"0", v.Want}).Draw(r, file))
				}
			}
		}
		before := b.snapshot()
		b.mustRound(true)
		with := b.snapshot()

		b.Policy, b.Mode, b.enforcer.Hold = nil, v1alpha1.NodeModeObserve, true
		b.mustRound(true)
		b.Policy = policy
		if wrote := differing(with, b.snapshot()); len(wrote) > 0 {
			r.Fatalf("it was not known whether there is a policy, and %v were written", wrote)
		}
		b.Policy, b.enforcer.Hold = nil, false
		b.mustRound(true)
		b.Policy = policy
		if left := differing(before, b.snapshot()); len(left) > 0 {
			r.Fatalf("left behind: %v", left)
		}
	})
}

// When a pod's record is removed, files and processes are as they were before it had one: as if no policy had decided for it.
func TestRecordIsRemoved(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := drawBed(t, r)
		recorded := func(is bool) {
			for _, p := range b.Pods {
				p.Annotations = nil
				if is {
					p.Annotations = map[string]string{v1alpha1.AnnotationEnforcement: `{"cpu":{"weight":300},"io":{"weight":200},"memory":{"protection":"Low"},"oom":{"rank":50}}`}
				}
			}
		}
		recorded(false)
		b.enforcer.Undo = &ledger.Ledger{}
		b.make(statetest.AsPlanned)
		b.mustRound(true)
		recorded(true)
		for _, g := range b.Tree().Groups { // what nobody wrote has the kernel's defaults
			for file := range g.Files {
				if _, ok := b.Cgroups.Get(g.Path, file); !ok {
					b.Cgroups.Set(g.Path, file, "0")
				}
			}
		}
		before := b.snapshot()
		b.mustRound(true)

		recorded(false)
		b.mustRound(true)
		recorded(true) // the files that count
		if left := differing(before, b.snapshot()); len(left) > 0 {
			r.Fatalf("left behind: %v", left)
		}
	})
}

// A group may vanish under any operation: that is no error, and all the rest is done.
func TestRoundVanishing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := drawBed(t, r)
		groups := b.Tree().Groups
		gone := rapid.SampledFrom(groups).Draw(r, "gone").Path
		b.Cgroups.VanishAfter(gone, rapid.IntRange(0, 12).Draw(r, "after"))
		round, _, err := b.round(true)
		if err != nil {
			r.Fatal(err)
		}
		last := map[string]drift.Operation{}
		for _, op := range round.Diff.Operations {
			last[op.Path+" "+op.File] = op
		}
		for key, op := range last {
			if strings.HasPrefix(op.Path+"/", gone+"/") {
				continue
			}
			if got, _ := b.Cgroups.Get(op.Path, op.File); !cgroupfile.Holds(got, op.To) {
				r.Fatalf("%s holds %s, not %s", key, got, op.To)
			}
		}
		for _, op := range round.Processes.Operations {
			if got := strings.TrimSpace(b.Adj(op.PID)); !strings.HasPrefix(op.Path+"/", gone+"/") && got != fmt.Sprint(op.To) {
				r.Fatalf("process %d has %s, not %d", op.PID, got, op.To)
			}
		}
		b.Clock.Step(time.Minute)
		if _, _, err := b.round(false); err != nil {
			r.Fatal(err)
		}
		b.Clock.Step(time.Minute)
		if _, writes, err := b.round(true); err != nil || len(writes) > 0 {
			r.Fatalf("wrote %v, %v", writes, err)
		}
	})
}

// Where a write is refused, nothing that depends on it is written, and all the rest is. Once it is taken the next round, also a partial
// one, makes up for it.
func TestRoundRefused(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := drawBed(t, r)
		would := drift.Diff(b.Tree(), b.have(), b.Mode, drift.Options{}).Operations
		if len(would) == 0 {
			return
		}
		at := rapid.IntRange(0, len(would)-1).Draw(r, "refused")
		for slices.ContainsFunc(would[:at], func(op drift.Operation) bool { return op.Path == would[at].Path && op.File == would[at].File }) {
			at--
		}
		refused := would[at]
		b.Cgroups.Refuse(refused.Path, cgroup.File{Name: refused.File}, unix.EBUSY)
		_, writes, err := b.round(true)
		if !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), refused.String()) {
			r.Fatalf("refused %v: got %v", refused, err)
		}
		var want []string
		var failed []drift.Operation
		for i, op := range would {
			if i == at || slices.ContainsFunc(failed, op.DependsOn) {
				failed = append(failed, op)
				continue
			}
			want = append(want, op.Path+" "+op.File+" "+op.To)
		}
		var got []string
		for _, w := range writes {
			got = append(got, w.Path+" "+w.File+" "+w.Value)
		}
		if !slices.Equal(want, got) {
			r.Fatalf("refused %v; wrote\n%s\nwant\n%s", refused, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		b.Cgroups.Refuse(refused.Path, cgroup.File{Name: refused.File}, nil)
		b.Clock.Step(time.Minute)
		if round, _, err := b.round(false); err != nil || !round.Full {
			r.Fatalf("full %v, %v", round.Full, err)
		}
		if again, _, err := b.round(true); err != nil || len(again.Diff.Operations) > 0 {
			r.Fatalf("still to do: %v, %v", again.Diff.Operations, err)
		}
	})
}

// have is what the enforcer is to read.
func (b *bed) have() drift.Have {
	have, _, err := b.enforcer.observe(b.Tree(), func(string) bool { return true })
	if err != nil {
		b.T.Fatal(err)
	}
	return have
}

// Whatever is planned again, partial rounds lead to the same cgroups as full ones.
func TestPartialRoundsAreEnough(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := drawBed(t, r)
		b.mustRound(true)
		for i := range rapid.IntRange(1, 4).Draw(r, "changes") {
			switch kind := rapid.IntRange(0, 2).Draw(r, "kind"); {
			case kind == 0 && len(b.Pods) > 0: // ends
				last := len(b.Pods) - 1
				b.Pods = b.Pods[:last]
			case kind == 1 && len(b.Pods) > 0: // is resized
				b.Pods[0] = drawPod(r, b.Pods[0].Name)
				b.make(statetest.AsPlanned) // in another QoS class it has another cgroup
			default:
				b.Pods = append(b.Pods, drawPod(r, fmt.Sprintf("new%d", i)))
				b.make(statetest.AsPlanned)
			}
			b.mustRound(false)
		}
		round, writes := b.mustRound(true)
		if len(writes) > 0 {
			r.Fatalf("a full round found more: %v of %v", writes, round.Diff.Drift)
		}
	})
}
