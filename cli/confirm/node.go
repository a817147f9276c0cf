package confirm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/console"
)

// JudgeNode reports whether a node can be confirmed off: not while there is a sign of life.
func JudgeNode(f NodeFacts) Judgement {
	n := f.state()
	switch {
	case n.Ready:
		return Judgement{Refused, fmt.Sprintf("node %s is not off: it is ready, last heard of %s. Without a heartbeat it becomes not ready within a minute.", n.Name, ago(n.Heartbeat, f.Now))}
	case f.LeaseUnknown != "":
		return Judgement{Refused, fmt.Sprintf("whether the kubelet of node %s renews its lease could not be read: %s.", n.Name, f.LeaseUnknown)}
	case n.BootID == "":
		return Judgement{Refused, fmt.Sprintf("node %s has never reported a boot ID: a confirmation could not be bound to this boot.", n.Name)}
	case !f.silent():
		return Judgement{Refused, fmt.Sprintf("node %s is not off: its kubelet was heard of %s. It must have been silent for more than %s, as long as its Lease lasts.", n.Name, ago(n.Heartbeat, f.Now), n.Lease)}
	case len(f.Missing) > 0:
		return Judgement{NotPermitted, fmt.Sprintf("%s may not confirm this, and lacks: %s.", f.User, f.missing())}
	case n.ConfirmedOff:
		return Judgement{Already, fmt.Sprintf("node %s is confirmed off already.", n.Name)}
	}
	return Judgement{Verdict: Ask}
}

func (s NodeState) state() guard.Node { return guard.NodeOf(s.Node, s.Lease, s.Now) }

// silent asks the guard itself: whether it would take the node for off, were it confirmed now.
func (s NodeState) silent() bool {
	n := s.Node.DeepCopy()
	n.Annotations = map[string]string{guard.AnnotationConfirmOff: guard.ConfirmOff(n, s.Lease)}
	return guard.NodeOf(n, s.Lease, s.Now).ConfirmedOff
}

// fieldManager owns the annotations.
const fieldManager = "podgrace-confirm"

// Changed says what makes another node of it than the one that was shown; empty: nothing.
func (s NodeState) Changed(now NodeState) string {
	before, after := s.state(), now.state()
	switch {
	case before.UID != after.UID:
		return "it was replaced by another Node object of the same name"
	case before.BootID != after.BootID:
		return "it has rebooted"
	case !before.Heartbeat.Equal(after.Heartbeat):
		return "its kubelet was heard of at " + after.Heartbeat.UTC().Format("15:04:05 UTC")
	case after.Ready != before.Ready:
		return "it is ready"
	}
	return ""
}

// ReportNode writes what is known of the node, the danger first.
func ReportNode(f NodeFacts, style Style) string {
	p := console.New(style, margin)
	if JudgeNode(f).Verdict.dangerous() {
		p.Marked(console.Red, "DANGER", fmt.Sprintf("If %s still runs, its pods run twice and write to the same volumes.", f.Node.Name),
			"Confirm only what you know: it has no power, or the machine is destroyed. That it does not answer is not enough.")
		p.Gap()
	}
	p.Row("Node", f.Node.Name+", "+nodeState(f.state(), f.Now))
	if f.Node.Annotations[guard.AnnotationConfirmOff] != "" && !f.state().ConfirmedOff {
		p.Row("Earlier", "there is a confirmation, which is void: the node was heard of since, or rebooted")
	}
	p.Row("UID", string(f.Node.UID))
	p.Row("Boot", orNone(f.Node.Status.NodeInfo.BootID))
	p.Row("Ready", readyCondition(f.Node, f.Now))
	p.Row("Lease", f.lease())
	p.Row("Taints", taints(f.Node)...)
	p.Row("Deleting", f.deleting())
	f.podRows(p)
	f.attachmentRows(p)
	p.Row("You", f.you())
	p.Gap()
	return p.String()
}

// nodeState reports whether a node is ready, or since when it has been silent.
func nodeState(n guard.Node, now time.Time) string {
	switch {
	case n.Ready:
		return "ready, last heard of " + ago(n.Heartbeat, now)
	case n.Heartbeat.IsZero():
		return "NOT READY, never heard of"
	}
	state := "NOT READY, silent since " + since(n.Heartbeat, now)
	if n.ConfirmedOff {
		state += ", confirmed off"
	}
	return state
}

func readyCondition(n *corev1.Node, now time.Time) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return fmt.Sprintf("%s (%s) since %s", c.Status, c.Reason, since(c.LastTransitionTime.Time, now))
		}
	}
	return "no such condition"
}

// deleting reports whether somebody deleted the Node, and what holds it.
func (f NodeFacts) deleting() string {
	finalizers := strings.Join(f.Node.Finalizers, ", ")
	switch {
	case f.Node.DeletionTimestamp != nil:
		return "since " + since(f.Node.DeletionTimestamp.Time, f.Now) + ", and held by its finalizers: " + finalizers
	case finalizers != "":
		return "no; a DELETE would leave it to who has its finalizers: " + finalizers
	}
	return "no"
}

func (f NodeFacts) lease() string {
	switch {
	case f.LeaseUnknown != "":
		return "unknown: " + f.LeaseUnknown
	case f.Lease == nil || f.Lease.Spec.RenewTime == nil:
		return "none"
	}
	return "renewed " + since(f.Lease.Spec.RenewTime.Time, f.Now)
}

func taints(n *corev1.Node) []string {
	outOfService := "no " + corev1.TaintNodeOutOfService
	var all []string
	for _, t := range n.Spec.Taints {
		all = append(all, t.ToString())
		if t.Key == corev1.TaintNodeOutOfService {
			outOfService = ""
		}
	}
	if outOfService != "" {
		all = append(all, outOfService)
	}
	return all
}

// maxHarmless is how many pods are named that are not protected.
const maxHarmless = 5

func (f NodeFacts) podRows(p *console.Page) {
	if f.PodsUnknown != "" {
		p.Row("Pods", "unknown: "+f.PodsUnknown)
		return
	}
	protected, others := split(f.Pods)
	if len(f.Pods) == 0 {
		p.Row("Pods", "none that may still run")
		return
	}
	p.Row("Pods", fmt.Sprintf("%d may still run, %d of them protected:", len(f.Pods), len(protected)))
	var rows [][]string
	for _, b := range protected {
		rows = append(rows, []string{"! " + b.Namespace + "/" + b.Name, b.Why})
	}
	for _, b := range others[:min(len(others), maxHarmless)] {
		rows = append(rows, []string{"  " + b.Namespace + "/" + b.Name})
	}
	if more := len(others) - maxHarmless; more > 0 {
		rows = append(rows, []string{fmt.Sprintf("  and %d more that are not protected", more)})
	}
	p.Table("", rows)
}

// split returns the protected pods and the others, each by name.
func split(pods []BoundPod) (protected, others []BoundPod) {
	for _, b := range slices.SortedFunc(slices.Values(pods), func(a, b BoundPod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	}) {
		if b.Why != "" {
			protected = append(protected, b)
		} else {
			others = append(others, b)
		}
	}
	return protected, others
}

func (f NodeFacts) attachmentRows(p *console.Page) {
	if f.AttachmentsUnknown != "" {
		p.Row("Volumes", "unknown: "+f.AttachmentsUnknown)
		return
	}
	rows, locked := [][]string{{"none attached"}}, 0
	if len(f.Attachments) > 0 {
		rows = nil
	}
	for _, a := range f.Attachments {
		state := "attaching"
		if a.Attached {
			state = "attached"
		}
		row := []string{a.Volume, state, a.Name}
		if a.Lock != "" {
			row, locked = append(row, "VolumeLock "+a.Lock), locked+1
		}
		rows = append(rows, row)
	}
	p.Table("Volumes", rows)
	if locked > 0 {
		p.Row("", fmt.Sprintf("Of these the node holds %d by a VolumeLock: once it is confirmed off, each goes to the next node that wants it, when its VolumeAttachment is deleted; but for those of which it is not known which boot may have mounted them without asking: adopted, or the CSIDriver made anew, and the node has neither answered nor sent two later heartbeats since. Each of these is confirmed itself (kubectl podgrace volumelock confirm).", locked))
	}
}

// NextForNode writes how it ended and what becomes possible.
func NextForNode(f NodeFacts, j Judgement, style Style, commands Commands) string {
	p := console.New(style, margin)
	switch j.Verdict {
	case Refused:
		p.Marked(console.Red, "REFUSED", j.Reason)
		return p.String()
	case NotPermitted:
		p.Marked(console.Red, "REFUSED", j.Reason)
		f.granting(p)
		return p.String()
	case Already:
		p.Marked(console.Green, "CONFIRMED", j.Reason, void)
	case Ask, Unneeded:
		p.Marked(console.Green, "CONFIRMED", fmt.Sprintf("node %s is off. Nothing was deleted yet.", f.Node.Name), void)
	}
	if f.Fence != "" { // a taint that a person sets besides would stay when the node is back
		p.Row("Next", "nothing, while the fencer runs: Fence "+f.Fence+" goes on by this, and releases the protected pods. How far it is:")
		p.Gap()
		p.Command(commands.Self+" status"+commands.Flags, "")
		return p.String()
	}
	p.Row("Next", "one of:")
	p.Gap()
	name := f.Node.Name
	if !f.state().OutOfService {
		p.Command(commands.kubectl("taint node %s %s=nodeshutdown:NoExecute", name, corev1.TaintNodeOutOfService),
			"all of its pods and volumes move; before the node comes back, take the taint away")
	}
	protected, others := split(f.Pods)
	if all := append(protected, others...); len(all) > 0 {
		p.Command(commands.kubectl("delete pod -n %s %s --force", all[0].Namespace, all[0].Name), "one pod at a time")
	}
	if f.Node.DeletionTimestamp != nil {
		p.WriteString("  # it is being deleted already, and goes with the last of its finalizers\n")
		return p.String()
	}
	p.Command(commands.kubectl("delete node %s", name), "if it will never come back")
	return p.String()
}

const void = "It is void as soon as the node is heard of again."

func orNone(s string) string {
	if s == "" {
		return "none reported"
	}
	return s
}
