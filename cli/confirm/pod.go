package confirm

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy"
)

// JudgePod reports whether a force delete of the pod can be confirmed, and must be.
func JudgePod(f PodFacts) Judgement {
	switch {
	case graceperiod.Finished(f.Pod):
		return Judgement{Unneeded, fmt.Sprintf("pod %s has finished (%s): nothing of it runs any more.", podName(f.Pod), f.Pod.Status.Phase)}
	case f.Pod.Spec.NodeName == "":
		return Judgement{Unneeded, fmt.Sprintf("pod %s has no node: it never ran.", podName(f.Pod))}
	case f.Node.ConfirmedOff:
		return Judgement{Unneeded, fmt.Sprintf("node %s is confirmed off: a force delete of its pods goes through.", f.Node.Name)}
	case len(f.Missing) > 0:
		return Judgement{NotPermitted, fmt.Sprintf("%s may not confirm this, and lacks: %s.", f.User, f.missing())}
	case holds(guard.Confirmation(f.Pod, f.Node, f.Now)):
		return Judgement{Already, fmt.Sprintf("the force delete of pod %s is confirmed already.", podName(f.Pod))}
	}
	return Judgement{Verdict: Ask}
}

func holds(is bool, _ string) bool { return is }

// ReportPod writes what is known of the pod, the danger first.
func ReportPod(f PodFacts, style Style, commands Commands) string {
	p := console.New(style, margin)
	if JudgePod(f).Verdict.dangerous() {
		p.Marked(console.Red, "DANGER", podDanger(f), podAfter(f.Pod))
		p.Gap()
	}
	p.Row("Pod", podName(f.Pod)+", "+string(f.Pod.Status.Phase))
	p.Row("UID", string(f.Pod.UID))
	if f.Pod.Spec.NodeName != "" {
		p.Row("Node", f.Pod.Spec.NodeName+", "+f.nodeState())
	}
	p.Row("Protected", f.protected())
	p.Table("Claims", claimRows(f.Claims))
	p.Row("Deleting", deleting(f.Pod, f.Now))
	if _, void := guard.Confirmation(f.Pod, f.Node, f.Now); void != "" {
		p.Row("Earlier", "there is a confirmation, which is void: "+void)
	}
	p.Row("You", f.you())
	if JudgePod(f).Verdict.dangerous() {
		f.safer(p, commands)
	}
	p.Gap()
	return p.String()
}

func podDanger(f PodFacts) string {
	pod, node := "Pod "+podName(f.Pod), f.Pod.Spec.NodeName
	switch {
	case f.Node.State == guard.NodeUnknown:
		return fmt.Sprintf("%s may still run on %s, of which nothing is known. A force delete does not stop it.", pod, node)
	case f.Node.State == guard.NodeGone:
		return fmt.Sprintf("%s may still run on %s: the Node object is gone, the machine need not be. A force delete does not stop it.", pod, node)
	case f.Node.Ready:
		return fmt.Sprintf("%s runs on %s, which is ready. A force delete does not stop it.", pod, node)
	}
	return fmt.Sprintf("%s may still run on %s: a silent node is not off. A force delete does not stop it.", pod, node)
}

// podAfter says what happens when the pod's object is gone.
func podAfter(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case owner == nil:
		return "After that its name and its claims are free: who takes them may run beside it."
	case owner.Kind == "StatefulSet":
		return fmt.Sprintf("After that, StatefulSet %s makes another %s, with the same name and the same claims, which may run beside it.", owner.Name, pod.Name)
	case owner.Kind == "Node":
		return "It is the mirror of a static pod: its kubelet runs it from a file, with or without this object."
	}
	makes := "makes"
	if pod.DeletionTimestamp != nil { // most controllers do not wait for the end of a pod that is being deleted
		makes = "makes, or has made,"
	}
	return fmt.Sprintf("After that, %s %s %s a replacement, which may run beside it.", owner.Kind, owner.Name, makes)
}

func (f PodFacts) nodeState() string {
	switch f.Node.State {
	case guard.NodeGone:
		return "which has no Node object any more"
	case guard.NodePresent:
		return nodeState(f.Node, f.Now)
	case guard.NodeUnknown:
	}
	return "state unknown: " + f.NodeUnknown
}

func (f PodFacts) protected() string {
	if why := policy.AsRecorded(f.Pod).Why(f.Pod, f.known()); why != "" {
		return why
	}
	return "by itself it is not: no StatefulSet, no exclusive claim. A policy may protect it all the same"
}

func (f PodFacts) known() policy.Claims {
	known := policy.Claims{}
	for _, c := range f.Claims {
		if c.Unknown == "" {
			known[c.Name] = c.Claim
		}
	}
	return known
}

func claimRows(claims []Claim) [][]string {
	if len(claims) == 0 {
		return [][]string{{"none"}}
	}
	var rows [][]string
	for _, c := range claims {
		if c.Unknown != "" {
			rows = append(rows, []string{c.Name, "unknown: " + c.Unknown})
			continue
		}
		var modes []string
		for _, m := range c.Modes {
			modes = append(modes, string(m))
		}
		volume := "volume " + c.Volume
		if c.Volume == "" {
			volume = "not bound to a volume"
		}
		if c.Recreated {
			volume = "not there before the pod started: the pod's own volume may be another one, or was asked for in another way"
		}
		if c.Lock != "" {
			volume += fmt.Sprintf(", which node %s holds until that is proved to be rid of it (VolumeLock %s)", c.Holder, c.Lock)
		}
		rows = append(rows, []string{c.Name, strings.Join(modes, ","), volume})
	}
	return rows
}

// deleting says since when a pod is. Its deletion timestamp is when its grace ends.
func deleting(pod *corev1.Pod, now time.Time) string {
	if pod.DeletionTimestamp == nil {
		return "no"
	}
	var grace time.Duration
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	end := pod.DeletionTimestamp.Time
	left := "which ended " + ago(end, now)
	if end.After(now) {
		left = "of which " + duration.HumanDuration(end.Sub(now)) + " are left"
	}
	return fmt.Sprintf("since %s, with a grace period of %s, %s", since(end.Add(-grace), now), duration.HumanDuration(grace), left)
}

func (p Permission) you() string {
	if len(p.Missing) > 0 {
		return p.User + ", not permitted to confirm"
	}
	return p.User + ", permitted to confirm"
}

// safer writes what is better where it is possible.
func (f PodFacts) safer(p *console.Page, commands Commands) {
	name := f.Pod.Spec.NodeName
	switch {
	case f.Node.State == guard.NodeGone:
		p.Row("Safer", "make sure that the machine "+name+" is off, and go on only then")
	case f.Node.State == guard.NodePresent && f.Node.Ready:
		p.Row("Safer", "delete it without --force, its kubelet stops it:")
		p.Table("", [][]string{{commands.kubectl("delete pod -n %s %s", f.Pod.Namespace, f.Pod.Name)}})
	case f.Node.State == guard.NodeUnknown:
		ask := "ask somebody who may read nodes (ClusterRole podgrace-confirm-node) whether " + name + " is off, and to say so of the node:"
		if f.Pod.DeletionTimestamp == nil {
			p.Row("Safer", "delete it without --force: if the node is well, its kubelet stops it:")
			p.Table("", [][]string{{commands.kubectl("delete pod -n %s %s", f.Pod.Namespace, f.Pod.Name)}})
			p.Row("", "or "+ask)
		} else {
			p.Row("Safer", "wait: if the node is well, its kubelet stops it. Or "+ask)
		}
		p.Table("", [][]string{{commands.confirmNode(name)}})
	default:
		p.Row("Safer", "wait for "+name+"; or make sure that it is off, and say so of the node:")
		p.Table("", [][]string{{commands.confirmNode(name)}})
	}
}

// NextForPod writes how it ended and what to type next.
func NextForPod(f PodFacts, j Judgement, style Style, commands Commands) string {
	p := console.New(style, margin)
	force := " --force"
	switch j.Verdict {
	case NotPermitted:
		p.Marked(console.Red, "REFUSED", j.Reason)
		f.granting(p)
		return p.String()
	case Unneeded:
		p.Marked(console.Green, "NOT NEEDED", j.Reason)
		if !f.Node.ConfirmedOff {
			force = ""
		}
	case Already:
		p.Marked(console.Green, "CONFIRMED", j.Reason, podVoid(f))
	case Ask, Refused:
		p.Marked(console.Green, "CONFIRMED", fmt.Sprintf("pod %s may be force-deleted; a new pod of this name may not. Nothing was deleted yet.", podName(f.Pod)), podVoid(f))
	}
	p.Row("Next", "type:")
	p.Gap()
	p.Command(commands.kubectl("delete pod -n %s %s%s", f.Pod.Namespace, f.Pod.Name, force), "")
	return p.String()
}

// podVoid says when the confirmation of a pod ends.
func podVoid(f PodFacts) string {
	text := "It holds for 55 minutes from when it was made"
	switch n := f.Node; {
	case n.State == guard.NodePresent && !n.Ready && n.Silent(f.Now):
		text += ", and no longer than until node " + n.Name + " is heard of"
	case n.State == guard.NodeUnknown:
		text += ", also when node " + f.Pod.Spec.NodeName + " is back, of which nothing is known"
	}
	return text + "."
}

func podName(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }
