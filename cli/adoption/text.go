package adoption

import (
	"fmt"
	"slices"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
)

// margin is the width of the labels' column.
const margin = 11

// stages in words.
var stages = map[Stage]string{
	None:     "there is none",
	Ungated:  "attachRequired: false, which is what is to be changed",
	Deleted:  "an adoption was interrupted: its CSIDriver is deleted, and kept in a ConfigMap",
	Attaches: "attachRequired: true, and nothing that was mounted before is adopted",
	Adopting: "an adoption was interrupted, or goes on: the CSIDriver is made anew, and nothing is attached yet",
	Adopted:  "attachRequired: true, adopted",
}

// volumesShown is how many volumes are named.
const volumesShown = 20

// Text shows what would be done, in which order, and what stands against it.
func (p *Plan) Text(style console.Style) string {
	page := console.New(style, margin)
	page.Row("Driver", p.Driver+", "+stages[p.Stage])
	if p.Stage == None || p.Stage == Adopted {
		obstacles(page, p.Obstacles)
		return page.String()
	}
	if len(p.Locks) > 0 {
		page.Row("Mounted", fmt.Sprintf("%s adopted, since pods use them:", console.Plural(len(p.Locks), "volume is", "volumes are")))
		var rows [][]string
		for _, l := range p.Locks[:min(len(p.Locks), volumesShown)] {
			rows = append(rows, []string{l.Spec.PersistentVolume, l.Spec.Node.Name, console.Some(p.Users[l.Name], 3, ", ")})
		}
		page.Table("", rows)
		if more := len(p.Locks) - volumesShown; more > 0 {
			page.Row("", fmt.Sprintf("and %d more", more))
		}
		page.Row("", "Such a volume moves to another node only once its node was rebooted or fenced, or a person confirms that it is not mounted there (kubectl podgrace volumelock confirm). To spare that, scale the pods down first.")
	} else {
		page.Row("Mounted", "no volume, by what the pods say, that is not adopted already")
	}
	if len(p.Replaced) > 0 {
		page.Row("", fmt.Sprintf("In the place of %s, whose nodes are confirmed to be rid of them: %s.", console.Plural(len(p.Replaced), "VolumeLock", "VolumeLocks"), console.Some(names(p.Replaced), 3, ", ")))
	}
	if p.Standing > 0 {
		page.Row("", fmt.Sprintf("%s there already, of the nodes that use their volumes.", console.Plural(p.Standing, "VolumeLock is", "VolumeLocks are")))
	}
	if p.Shared > 0 {
		page.Row("Shared", fmt.Sprintf("%s by several nodes, and attached at once.", console.Plural(p.Shared, "PersistentVolume may be mounted", "PersistentVolumes may be mounted")))
	}
	page.Row("Not seen", "what is still mounted for pods that are gone from the API server (deleted by force, or with their Node), and where PersistentVolumes that are deleted were mounted")
	p.steps(page)
	obstacles(page, p.Obstacles)
	return page.String()
}

func (p *Plan) steps(page *console.Page) {
	var steps []string
	if p.Old != nil {
		steps = append(steps, "keep a copy of the CSIDriver in a ConfigMap, for whoever has to go on")
	}
	if len(p.Locks) > 0 {
		steps = append(steps, "make the VolumeLocks")
	}
	if p.Old != nil {
		steps = append(steps, fmt.Sprintf("delete the CSIDriver (UID %s), if it is as shown: until it is there again no volume of it is mounted anew", p.Old.UID))
	}
	switch {
	case p.New != nil:
		steps = append(steps, "make it anew with attachRequired: true, else as it was, and mark it: nothing is attached yet")
	case p.Stage == Attaches:
		steps = append(steps, "mark it so that nothing is attached yet")
	}
	steps = append(steps, "wait until kubelets have seen it (they need no restart), look again for pods that came meanwhile, and adopt what they use", "mark it as adopted: from then on new mounts wait for the volume lock")
	for i := range steps {
		steps[i] = fmt.Sprintf("%d. %s", i+1, steps[i])
	}
	page.Row("Then", steps...)
}

func obstacles(page *console.Page, all []Obstacle) {
	for _, o := range all {
		label, color := "REFUSED", console.Red
		help := ". What to do: " + o.Help
		if o.Waived {
			label, color = "DESPITE", console.Yellow
		} else if slices.Contains(Waivable(), o.Code) {
			help += ". If that is done, or no reason: --despite=" + string(o.Code)
		}
		page.Marked(color, label, o.What+help)
	}
}

// Text shows what would be done to leave, and what stands against it.
func (l *Leaving) Text(style console.Style) string {
	page := console.New(style, margin)
	switch {
	case l.Old != nil:
		page.Row("Driver", l.Driver+", gated: it is deleted and made anew with attachRequired: false. From then on nothing keeps two nodes from mounting one of its volumes.")
	case l.New != nil:
		page.Row("Driver", l.Driver+", deleted by an adoption that was interrupted: it is made anew with attachRequired: false.")
	case len(l.Obstacles) == 0:
		page.Row("Driver", l.Driver+", attachRequired: false, which gates nothing")
	}
	if len(l.Locks) > 0 {
		page.Row("Locks", fmt.Sprintf("%s deleted then, that no VolumeAttachment holds: %s", console.Plural(len(l.Locks), "VolumeLock is", "VolumeLocks are"), console.Some(names(l.Locks), 3, ", ")))
	}
	if l.Attached > 0 {
		page.Row("Attached", fmt.Sprintf("%s until the pods end. Let the volume lock run with the driver in --drivers until then, and give this command again: it deletes their VolumeLocks.", console.Plural(l.Attached, "volume stays attached", "volumes stay attached")))
	}
	if l.Marked > 0 {
		page.Row("Finalizers", fmt.Sprintf("%s the volume lock's without a VolumeLock. Let it run with the driver in --drivers until they are deleted (kubectl get volumeattachments), which takes the finalizer away: nobody else does.", console.Plural(l.Marked, "VolumeAttachment has", "VolumeAttachments have")))
	}
	obstacles(page, l.Obstacles)
	return page.String()
}

func names(locks []v1alpha1.VolumeLock) (all []string) {
	for i := range locks {
		all = append(all, locks[i].Name)
	}
	return all
}
