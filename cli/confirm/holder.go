package confirm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/volumelock"
)

// HolderFacts are what is known of a Node that is gone, or silent, and of all volumes that it holds.
type HolderFacts struct {
	Now time.Time
	// Name and UID of the Node that holds them.
	Name string
	UID  types.UID
	// Node of the name; nil: there is none, or it can't be read, which NodeUnknown says.
	Node        *corev1.Node
	NodeUnknown string
	// Held are its volumes, by the names of their PersistentVolumes.
	Held []LockFacts

	Permission
}

// HolderReleaser reads what a Node holds, and confirms each release on the object and the release that were read.
type HolderReleaser interface {
	// Holder reads the VolumeLocks of the Node of this UID.
	Holder(ctx context.Context, node types.UID) (HolderFacts, error)
	May(ctx context.Context, rights []Right) (Permission, error)
	Release(ctx context.Context, l *v1alpha1.VolumeLock, text string) error
}

// JudgeHolder reports whether the releases of all volumes of a Node can be confirmed together. A node that is ready tells by itself what it is rid of; of one that is not each volume is judged as it is
// alone, and those which can't be confirmed yet are left. Where the node is there, and its pods can't be read, nobody knows which those are.
func JudgeHolder(f HolderFacts) Judgement {
	verdicts := map[Verdict]int{}
	for i := range f.Held {
		verdicts[JudgeLock(f.Held[i]).Verdict]++
	}
	is, pods := f.Node != nil && f.Node.UID == f.UID, f.podsUnknown()
	switch {
	case f.NodeUnknown != "":
		return Judgement{Refused, fmt.Sprintf("whether node %s is gone can't be read, %s: confirm its volumes one by one, by what you know of each (kubectl podgrace volumelock confirm LOCK).", f.Name, f.NodeUnknown)}
	case is && isReady(f.Node):
		return Judgement{Refused, fmt.Sprintf("node %s is there and ready: its kubelet tells what it is rid of, some 20 s after the pods have ended. What that does not count for is confirmed one by one (kubectl podgrace volumelock list %s).", f.Name, f.Name)}
	case is && pods != "":
		return Judgement{Refused, fmt.Sprintf("node %s is there, and which pods of it use its volumes can't be read, %s: confirm them one by one, by what you know of each (kubectl podgrace volumelock confirm LOCK).", f.Name, pods)}
	case len(f.Missing) > 0:
		return Judgement{NotPermitted, fmt.Sprintf("%s may not confirm this, and lacks: %s.", f.User, f.missing())}
	case verdicts[Ask] > 0:
		return Judgement{Verdict: Ask}
	case verdicts[Refused] > 0:
		return Judgement{Refused, "none of them can be confirmed yet."}
	}
	return Judgement{Already, fmt.Sprintf("the releases of all volumes of node %s are confirmed already.", f.Name)}
}

// podsUnknown is why it is not known which pods use the volumes, or some of them; empty: it is known.
func (f HolderFacts) podsUnknown() string {
	for i := range f.Held {
		if why := f.Held[i].PodsUnknown; why != "" {
			return why
		}
	}
	return ""
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// ReportHolder writes what the Node holds, and what can't be confirmed of it, the danger first.
func ReportHolder(f HolderFacts, style Style) string {
	p := console.New(style, margin)
	if JudgeHolder(f).Verdict.dangerous() {
		p.Marked(console.Red, "DANGER", fmt.Sprintf("If the machine that was node %s still has one of these volumes mounted, two nodes write to it once this is confirmed.", f.Name),
			"Confirm only what you know: the machine has no power, or its instance is terminated. That its Node is gone is not enough.")
		p.Gap()
	}
	p.Row("Holder", fmt.Sprintf("node %s, UID %s", f.Name, f.UID))
	p.Row("Node", f.node())
	if pods := f.podsUnknown(); pods != "" {
		p.Row("Pods", "unknown: "+pods)
	}
	var ask, not [][]string
	for i := range f.Held {
		h := &f.Held[i]
		row := []string{h.Lock.Spec.PersistentVolume, h.Lock.Spec.Driver, h.Lock.Name}
		switch j := JudgeLock(*h); j.Verdict {
		case Ask, NotPermitted, Unneeded:
			ask = append(ask, append(row, "released since "+since(h.Lock.Status.Release.Since.Time, f.Now)))
		case Already:
			not = append(not, append(row, "confirmed already"))
		case Refused:
			not = append(not, append(row, brief(h)))
		}
	}
	if len(ask) > 0 {
		p.Table("Volumes", ask)
	}
	if len(not) > 0 {
		p.Table("Not these", not)
	}
	p.Row("You", f.you())
	p.Gap()
	return p.String()
}

// brief says in few words why a release can't be confirmed.
func brief(h *LockFacts) string {
	if h.Lock.Status.Release == nil {
		return "attached: VolumeAttachment " + volumelock.Holder(h.Lock).Name + " is to be deleted first"
	}
	return "used by " + console.Some(h.Pods, 3, ", ")
}

func (f HolderFacts) node() string {
	switch n := f.Node; {
	case f.NodeUnknown != "":
		return "unknown: " + f.NodeUnknown
	case n == nil:
		return "there is none of that name any more"
	case n.UID != f.UID:
		return "another one has its name now (UID " + string(n.UID) + ")"
	default:
		return "it is there, Ready " + readyCondition(n, f.Now)
	}
}

// Holder shows what a Node holds, asks once, and confirms each release. It reports whether all are confirmed.
func (s *Session) Holder(ctx context.Context, r HolderReleaser, node types.UID) (bool, error) {
	f, err := r.Holder(ctx, node)
	if err != nil {
		return false, err
	}
	if f.Permission, err = r.May(ctx, lockRights("")); err != nil {
		return false, err
	}
	j := JudgeHolder(f)
	fmt.Fprint(s.Out, ReportHolder(f, s.Style))
	if j.Verdict == Ask {
		return s.releaseAll(ctx, r, f)
	}
	p := console.New(s.Style, margin)
	if j.Verdict == Already {
		p.Marked(console.Green, "CONFIRMED", j.Reason)
	} else {
		p.Marked(console.Red, "REFUSED", j.Reason)
	}
	if j.Verdict == NotPermitted {
		f.granting(p)
	}
	fmt.Fprint(s.Out, p.String())
	return j.Verdict == Already, nil
}

// releaseAll asks, and goes on with the next volume where one could not be confirmed.
func (s *Session) releaseAll(ctx context.Context, r HolderReleaser, f HolderFacts) (bool, error) {
	left := 0
	var ask []*v1alpha1.VolumeLock
	for i := range f.Held {
		switch JudgeLock(f.Held[i]).Verdict {
		case Ask:
			ask = append(ask, f.Held[i].Lock)
		case Refused:
			left++
		}
	}
	if s.DryRun {
		for _, l := range ask {
			fmt.Fprintf(s.Out, "VolumeLock %s: ", l.Name)
			if _, err := s.dryRun(v1alpha1.AnnotationConfirmRelease, volumelock.Confirmation(l)); err != nil {
				return false, err
			}
		}
		return left == 0, nil
	}
	if agreed, err := s.Agreed(ctx, "the node's name to confirm that its machine uses none of these volumes", f.Name); !agreed || err != nil {
		return false, err
	}
	var done []string
	var errs []error
	follow := map[string]bool{}
	for _, l := range ask {
		if err := r.Release(ctx, l, volumelock.Confirmation(l)); err != nil {
			errs = append(errs, err)
			continue
		}
		done = append(done, l.Spec.PersistentVolume)
		follow[follows(l)] = true
	}
	p := console.New(s.Style, margin)
	if len(done) > 0 {
		p.Marked(console.Green, "CONFIRMED", fmt.Sprintf("node %s does not use %s: %s. They are of these releases, and of no later ones.", f.Name, console.Plural(len(done), "volume", "volumes"), strings.Join(done, ", ")))
		for _, text := range slices.Sorted(maps.Keys(follow)) {
			p.Row("", text)
		}
	}
	if left > 0 {
		p.Marked(console.Yellow, "LEFT", fmt.Sprintf("%s not confirmed, as is said above: give the command again when that has changed.", console.Plural(left, "volume is", "volumes are")))
	}
	fmt.Fprint(s.Out, p.String())
	if len(errs) > 0 {
		return false, fmt.Errorf("%d of %d were not confirmed, give the command again: %w", len(errs), len(ask), errors.Join(errs...))
	}
	return left == 0, nil
}
