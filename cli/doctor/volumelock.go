package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/volumelock"
)

// undone is what nobody does while no volume lock runs.
const undone = "no volume of the drivers that it gates is attached or released, so that pods that move to another node wait"

// volumeLock: it runs where it is installed, and as long as nodes hold volumes.
func volumeLock(s *Snapshot) []Finding {
	d := s.deployment(volumeLockName)
	held := fmt.Sprintf("%d %s held", len(s.VolumeLocks), console.Noun(len(s.VolumeLocks), "volume is", "volumes are"))
	switch {
	case d == nil && len(s.VolumeLocks) > 0:
		return []Finding{{
			Severity: Error, About: "Deployment " + volumeLockName, Message: held + " (VolumeLocks), and it is not there: " + undone,
			Remedy: "install it again, or leave its drivers (docs/volume-lock.md)", Commands: []string{"kubectl get volumelocks -o wide"},
		}}
	case d == nil:
		return nil
	case d.Status.AvailableReplicas == 0:
		found := runs(s, volumeLockName, undone)
		if len(s.VolumeLocks) > 0 {
			found[0].Severity, found[0].Message = Error, found[0].Message+"; "+held
		}
		return found
	}
	left, gated := map[string]int{}, gatedDrivers(d)
	for _, l := range s.VolumeLocks {
		if !slices.Contains(gated, l.Spec.Driver) {
			left[l.Spec.Driver]++
		}
	}
	var found []Finding
	for _, driver := range slices.Sorted(maps.Keys(left)) {
		found = append(found, Finding{
			Severity: Error, About: "CSIDriver " + console.OneLine(driver), Message: fmt.Sprintf("%d of its volumes are held, and the volume lock does not gate it: none of them is attached or released", left[driver]),
			Remedy: "name it again (volumeLock.drivers), and leave it first (docs/volume-lock.md)", Commands: []string{"kubectl get volumelocks -o wide"},
		})
	}
	return found
}

// volumeLockDrivers: what is gated is so in truth.
func volumeLockDrivers(s *Snapshot) (found []Finding) {
	d := s.deployment(volumeLockName)
	if d == nil {
		return nil
	}
	gated := gatedDrivers(d)
	if len(gated) == 0 {
		return []Finding{{Severity: Note, About: "Deployment " + volumeLockName, Message: "it gates no driver, and waits", Remedy: "name the drivers (docs/volume-lock.md): volumeLock.drivers"}}
	}
	for _, driver := range gated {
		found = append(found, s.notGated(driver)...)
		if a := s.attachedByOthers(driver); a != nil {
			found = append(found, Finding{Severity: Error, About: "VolumeAttachment " + a.Name, Message: console.OneLine(volumelock.OwnAttacher(a)), Remedy: "one of the two has to go (docs/volume-lock.md)"})
		}
		if others := s.attachersOf(driver); len(others) > 0 {
			found = append(found, Finding{Severity: Warning, About: "Deployment " + console.Some(others, 3, ", "), Message: "it runs an external-attacher, and names driver " + console.OneLine(driver) + ", which the volume lock gates: two attachers of one driver", Remedy: "take that container out of it, or the driver out of the list (docs/volume-lock.md)"})
		}
	}
	return found
}

// notGated says why kubelets do not wait for a driver, or wait in vain.
func (s *Snapshot) notGated(driver string) []Finding {
	d, held := s.csiDriver(driver), 0
	for i := range s.VolumeLocks {
		if s.VolumeLocks[i].Spec.Driver == driver {
			held++
		}
	}
	f := Finding{Severity: Error, About: "CSIDriver " + console.OneLine(driver)}
	holds := fmt.Sprintf("%d of its %s held", held, console.Noun(held, "volumes is", "volumes are"))
	adopt := []string{"kubectl podgrace volumelock adopt " + console.OneLine(driver)}
	switch why := volumelock.Conflict(driver, d, nil); {
	case d == nil && held > 0:
		f.Message, f.Remedy, f.Commands = "it is not there, and "+holds+": an adoption was interrupted, or the driver is uninstalled. None of its volumes is mounted anew", "have the adoption go on, or install the driver", adopt
	case d == nil: // of which nothing is attached either, since it was not adopted
		f.Severity, f.Message = Warning, "there is no CSIDriver of that name, which the volume lock is to gate, so that it attaches none of its volumes: it may be spelled otherwise, or not installed, or an adoption was interrupted"
		f.Remedy, f.Commands = "see which there are, and whether one is being adopted", []string{"kubectl get csidrivers", "kubectl podgrace volumelock list"}
	case volumelock.Adopting(d):
		f.Message = fmt.Sprintf("its adoption goes on, or was interrupted, and nothing of it is attached until it has ended: the CSIDriver was made %s ago", duration.HumanDuration(s.Now.Sub(d.CreationTimestamp.Time)))
		f.Remedy, f.Commands = "have the adoption go on", adopt
	case why != "" && held == 0:
		f.Severity, f.Message, f.Remedy = Warning, console.OneLine(why)+". No node holds a volume of it", "adopt it, or take it out of the list, where it was left (docs/volume-lock.md)"
	case why != "":
		f.Message, f.Remedy = console.OneLine(why)+". "+holds, "adopt it, or leave it and take it out of the list (docs/volume-lock.md)"
	default:
		return nil
	}
	return []Finding{f}
}

// gatedDrivers are those that the Deployment's flags name.
func gatedDrivers(d *appsv1.Deployment) (all []string) {
	for _, c := range d.Spec.Template.Spec.Containers {
		args := slices.Concat(c.Command, c.Args)
		for i, arg := range args {
			value, is := strings.CutPrefix(arg, "--drivers=")
			if arg == "--drivers" && i+1 < len(args) {
				value, is = args[i+1], true
			}
			if is && value != "" {
				all = append(all, strings.Split(value, ",")...)
			}
		}
	}
	return all
}

// renderGated has the policy about VolumeAttachments be about these drivers, as the chart and the patches of docs/volume-lock.md do.
func renderGated(p *admissionregistrationv1.ValidatingAdmissionPolicy, drivers []string) {
	for i := range p.Spec.MatchConditions {
		if c := &p.Spec.MatchConditions[i]; c.Name == "gated" && len(drivers) > 0 {
			c.Expression = "object.spec.attacher in ['" + strings.Join(drivers, "', '") + "']"
		}
	}
}

func (s *Snapshot) csiDriver(name string) *storagev1.CSIDriver {
	i := slices.IndexFunc(s.CSIDrivers, func(d storagev1.CSIDriver) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &s.CSIDrivers[i]
}

// attachedByOthers is a VolumeAttachment of a driver that another attacher has in its hands; nil: there is none.
func (s *Snapshot) attachedByOthers(driver string) *storagev1.VolumeAttachment {
	i := slices.IndexFunc(s.VolumeAttachments, func(a storagev1.VolumeAttachment) bool {
		return a.Spec.Attacher == driver && volumelock.OwnAttacher(&a) != ""
	})
	if i < 0 {
		return nil
	}
	return &s.VolumeAttachments[i]
}

// attachersOf are Deployments that run kubernetes-csi's external-attacher beside something that names the driver: which one it serves the driver itself tells it, by its socket.
func (s *Snapshot) attachersOf(driver string) (names []string) {
	for _, d := range s.Deployments {
		containers := d.Spec.Template.Spec.Containers
		runsOne := slices.ContainsFunc(containers, func(c corev1.Container) bool { return strings.HasPrefix(path.Base(c.Image), "csi-attacher") })
		if runsOne && slices.ContainsFunc(containers, func(c corev1.Container) bool { return namesDriver(c, driver) }) {
			names = append(names, d.Namespace+"/"+d.Name)
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names
}

// namesDriver reports whether a container's flags or environment have a driver's name as a whole.
func namesDriver(c corev1.Container, driver string) bool {
	is := func(value string) bool { return value == driver || strings.HasSuffix(value, "="+driver) }
	return slices.ContainsFunc(slices.Concat(c.Command, c.Args), is) || slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return is(e.Value) })
}
