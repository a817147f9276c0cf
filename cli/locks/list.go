package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/adoption"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/volumelock"
)

// Held is a volume that a node holds, as it is printed.
type Held struct {
	// Lock is the VolumeLock's name.
	Lock             string                  `json:"lock"`
	PersistentVolume string                  `json:"persistentVolume"`
	Driver           string                  `json:"driver"`
	Volume           string                  `json:"volume"`
	Identity         v1alpha1.VolumeIdentity `json:"identity"`
	Node             string                  `json:"node"`
	NodeUID          types.UID               `json:"nodeUID"`
	BootID           string                  `json:"bootID"`
	Since            metav1.Time             `json:"since"`
	// Adopted: it was mounted before its driver was gated.
	Adopted bool `json:"adopted,omitempty"`
	// Releasing is since when the VolumeAttachment is deleted, and Message what the release waits for.
	Releasing *metav1.MicroTime `json:"releasing,omitempty"`
	Message   string            `json:"message,omitempty"`
	// Conflict is why its driver is not gated, so that nothing releases it but the end of the instance; empty: it is, or nobody has looked yet.
	Conflict string `json:"conflict,omitempty"`
	// Confirmed: a person has confirmed this release.
	Confirmed bool `json:"confirmed,omitempty"`
	// Waiting are the nodes that want the volume.
	Waiting []string `json:"waiting,omitempty"`
}

// Interrupted is a driver whose adoption, or whose leaving, has not ended: nothing of it is attached, or mounted again, meanwhile.
type Interrupted struct {
	Driver string         `json:"driver"`
	Stage  adoption.Stage `json:"stage"`
	// Since is when its CSIDriver was recreated, or the copy of it was made.
	Since metav1.Time `json:"since"`
	// Command goes on.
	Command string `json:"command"`
}

// List is what "podgrace volumelock list -o json" prints.
type List struct {
	Items []Held `json:"items"`
	// Interrupted are drivers that are being adopted, or left, as far as they may be read; InterruptedUnknown is why others may be missing.
	Interrupted        []Interrupted `json:"interrupted,omitempty"`
	InterruptedUnknown string        `json:"interruptedUnknown,omitempty"`
	// NotGated are drivers that the volume lock is told to gate, and can't, but for those that are interrupted; NotGatedUnknown is why that is not known.
	NotGated        []NotGated `json:"notGated,omitempty"`
	NotGatedUnknown string     `json:"notGatedUnknown,omitempty"`
}

// NotGated is a driver that the volume lock is told to gate, and can't: it was not adopted, for instance, so that nothing of it is attached, whether or not nodes hold volumes of it.
type NotGated struct {
	Driver string `json:"driver"`
	// Why, and what to do.
	Why string `json:"why"`
}

// Held reads who holds which volume: all of them, or those of these names, of VolumeLocks, PersistentVolumes or nodes.
func (c *Client) Held(ctx context.Context, names ...string) (*List, error) {
	locks, err := all(ctx, c.Kube, &v1alpha1.VolumeLockList{}, func(l *v1alpha1.VolumeLockList) []v1alpha1.VolumeLock { return l.Items })
	if meta.IsNoMatchError(err) {
		return nil, errors.New("there is no kind VolumeLock in this cluster (docs/volume-lock.md)")
	}
	if err != nil {
		return nil, err
	}
	waiting, err := c.waiting(ctx)
	if err != nil {
		return nil, err
	}
	list := &List{Items: []Held{}}
	c.addDrivers(ctx, list)
	for i := range locks {
		if h := heldBy(&locks[i], waiting[locks[i].Name]); len(names) == 0 || slices.ContainsFunc(names, h.is) {
			list.Items = append(list.Items, h)
		}
	}
	for _, n := range names {
		if !slices.ContainsFunc(list.Items, func(h Held) bool { return h.is(n) }) {
			return nil, fmt.Errorf("there is no VolumeLock %s, and none of a PersistentVolume or a node of that name: nobody holds it", n)
		}
	}
	slices.SortFunc(list.Items, func(a, b Held) int {
		return cmp.Or(strings.Compare(a.PersistentVolume, b.PersistentVolume), strings.Compare(a.Lock, b.Lock))
	})
	return list, nil
}

// addDrivers adds what is to be said of drivers, whether or not somebody holds a volume of theirs. Who lists need not be allowed to read them.
func (c *Client) addDrivers(ctx context.Context, list *List) {
	drivers, err := all(ctx, c.Kube, &storagev1.CSIDriverList{}, func(l *storagev1.CSIDriverList) []storagev1.CSIDriver { return l.Items })
	if err != nil {
		list.InterruptedUnknown, list.NotGatedUnknown = err.Error(), err.Error()
		return
	}
	list.Interrupted, list.InterruptedUnknown = c.interrupted(ctx, drivers)
	var gated []string
	gated, list.NotGatedUnknown = c.gated(ctx)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(gated))) {
		var driver *storagev1.CSIDriver
		if i := slices.IndexFunc(drivers, func(d storagev1.CSIDriver) bool { return d.Name == name }); i >= 0 {
			driver = &drivers[i]
		}
		said := slices.ContainsFunc(list.Interrupted, func(d Interrupted) bool { return d.Driver == name })
		if why := volumelock.Conflict(name, driver, nil); why != "" && !said {
			list.NotGated = append(list.NotGated, NotGated{name, why})
		}
	}
}

// interrupted are the drivers whose adoption has not ended, and why others may be missing: who lists need not be allowed to read the copies in Podgrace's namespace. Empty: none is.
func (c *Client) interrupted(ctx context.Context, drivers []storagev1.CSIDriver) (found []Interrupted, unknown string) {
	for i := range drivers {
		if d := &drivers[i]; adoption.StageOf(d, nil) == adoption.Adopting {
			found = append(found, Interrupted{d.Name, adoption.Adopting, d.CreationTimestamp, goesOn("adopt", d.Name)})
		}
	}
	copies, err := c.copies(ctx)
	if err != nil {
		return found, err.Error()
	}
	for _, name := range slices.Sorted(maps.Keys(copies.Data)) {
		if slices.ContainsFunc(drivers, func(d storagev1.CSIDriver) bool { return d.Name == name }) {
			continue
		}
		d, err := keptIn(name, copies.Data[name])
		if err != nil {
			unknown = err.Error()
			continue
		}
		does := "adopt"
		if !attaches(d) {
			does = "leave"
		}
		found = append(found, Interrupted{name, adoption.Deleted, d.CreationTimestamp, goesOn(does, name)})
	}
	return found, unknown
}

func goesOn(does, driver string) string { return "kubectl podgrace volumelock " + does + " " + driver }

// waiting are the nodes whose VolumeAttachments are not attached, by the VolumeLock that is in their way.
func (c *Client) waiting(ctx context.Context) (map[string][]string, error) {
	volumes, err := all(ctx, c.Kube, &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) []corev1.PersistentVolume { return l.Items })
	if err != nil {
		return nil, err
	}
	attachments, err := all(ctx, c.Kube, &storagev1.VolumeAttachmentList{}, func(l *storagev1.VolumeAttachmentList) []storagev1.VolumeAttachment { return l.Items })
	if err != nil {
		return nil, err
	}
	byName := map[string]*corev1.PersistentVolume{}
	for i := range volumes {
		byName[volumes[i].Name] = &volumes[i]
	}
	nodes := map[string][]string{}
	for i := range attachments {
		a := &attachments[i]
		if a.Status.Attached || a.DeletionTimestamp != nil || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		if name := volumelock.LockFor(a, byName[*a.Spec.Source.PersistentVolumeName]); name != "" {
			nodes[name] = append(nodes[name], a.Spec.NodeName)
		}
	}
	return nodes, nil
}

func heldBy(l *v1alpha1.VolumeLock, waiting []string) Held {
	h := Held{
		Lock: l.Name, PersistentVolume: l.Spec.PersistentVolume, Driver: l.Spec.Driver, Volume: l.Spec.Volume, Identity: l.Spec.Identity,
		Node: l.Spec.Node.Name, NodeUID: l.Spec.Node.UID, BootID: l.Spec.Node.BootID, Since: l.CreationTimestamp, Adopted: l.Spec.Adopted, Message: l.Status.Message,
		Confirmed: l.Status.Release != nil && l.Annotations[v1alpha1.AnnotationConfirmRelease] == volumelock.Confirmation(l),
		Waiting:   slices.DeleteFunc(slices.Sorted(slices.Values(waiting)), func(n string) bool { return n == l.Spec.Node.Name }),
	}
	if r := l.Status.Release; r != nil {
		h.Releasing = &r.Since
	}
	if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionConflict); c != nil && c.Status == metav1.ConditionTrue {
		h.Conflict = c.Message
	}
	return h
}

func (h Held) is(name string) bool {
	return name == h.Lock || name == h.PersistentVolume || name == h.Node
}

// state says in a line why the node has it, or why it is not released.
func (h Held) state(now time.Time) string {
	switch {
	case h.Conflict != "" && h.Releasing == nil:
		return "in use, and its driver is not gated: " + h.Conflict
	case h.Conflict != "":
		return fmt.Sprintf("not released for %s, since its driver is not gated: %s", duration.HumanDuration(now.Sub(h.Releasing.Time)), h.Conflict)
	case h.Confirmed:
		return "confirmed by a person: the volume lock releases it"
	case h.Releasing == nil && h.Message != "":
		return h.Message
	case h.Releasing == nil && h.Adopted:
		return "in use since before its driver was gated"
	case h.Releasing == nil:
		return "in use"
	case h.Message == "":
		return "its kubelet is asked whether it still uses it, since " + duration.HumanDuration(now.Sub(h.Releasing.Time))
	}
	return fmt.Sprintf("not released for %s: %s", duration.HumanDuration(now.Sub(h.Releasing.Time)), h.Message)
}

// Text is a list for a person.
func (l *List) Text(style console.Style, now time.Time) string {
	page := console.New(style, 11)
	for _, d := range l.Interrupted {
		what := "it is being adopted, or that was interrupted, since %s: nothing of it is attached. %s goes on."
		if d.Stage == adoption.Deleted {
			what = "its CSIDriver is deleted, to be made anew, for up to %s: nothing of it is mounted anew. %s goes on."
		}
		page.Marked(console.Red, "Driver", d.Driver+": "+fmt.Sprintf(what, duration.HumanDuration(now.Sub(d.Since.Time)), d.Command))
		page.Gap()
	}
	if l.InterruptedUnknown != "" {
		page.Marked(console.Yellow, "Drivers", "whether one is being adopted or left is not known: "+console.Printable(l.InterruptedUnknown))
		page.Gap()
	}
	for _, d := range l.NotGated {
		page.Marked(console.Red, "Driver", console.Printable(d.Driver)+" is not gated: "+console.Printable(d.Why))
		page.Gap()
	}
	if l.NotGatedUnknown != "" && l.NotGatedUnknown != l.InterruptedUnknown {
		page.Marked(console.Yellow, "Drivers", "whether one is to be gated and was not adopted is not known: "+console.Printable(l.NotGatedUnknown))
		page.Gap()
	}
	if len(l.Items) == 0 {
		page.Row("", "Nobody holds a volume.")
	}
	for i, h := range l.Items {
		if i > 0 {
			page.Gap()
		}
		color := ""
		if h.Releasing != nil || len(h.Waiting) > 0 {
			color = console.Yellow
		}
		if h.Conflict != "" {
			color = console.Red
		}
		page.Marked(color, "Volume", fmt.Sprintf("%s, driver %s: %s", h.PersistentVolume, h.Driver, console.Printable(h.Volume)))
		page.Row("Node", fmt.Sprintf("%s (UID %s), for %s", h.Node, h.NodeUID, duration.HumanDuration(now.Sub(h.Since.Time))))
		page.Row("State", console.Printable(h.state(now)))
		if len(h.Waiting) > 0 {
			page.Row("Waiting", console.Some(h.Waiting, 5, ", "))
		}
		page.Row("Lock", h.Lock)
	}
	return page.String()
}
