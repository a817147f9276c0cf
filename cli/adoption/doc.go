// Package adoption plans how the volumes of a CSI driver come under the volume lock while pods use them, and how they leave it. It is pure: a command reads the facts, shows the plan, asks, and
// carries it out.
//
//	facts.go   what is known, and who uses which volume where
//	plan.go    adopting: what is written in which order, and what stands against it
//	owner.go   who would put the old CSIDriver back
//	leave.go   the way back
//	beyond.go  what is in a plan that was not in the one that a person has agreed to
//	text.go    both for a person
//
// attachRequired can't be changed (pkg/apis/storage/validation/validation.go, ValidateCSIDriverUpdate, v1.36.3), so that the CSIDriver is deleted and recreated. In between there is none, which
// kubelets and the attach/detach controller take for attachRequired: true (pkg/volume/csi/csi_plugin.go, skipAttach): nobody mounts again until it is there again. They see it by their informers;
// nothing needs to be restarted. A kubelet decides when the first pod of a volume comes whether that is to be attached (desired_state_of_world.go, AddPodToVolume), so that what it has mounted
// stays as it was, also for pods that come to it: such a volume is adopted.
//
// The order is: keep a copy of the CSIDriver; make a VolumeLock for each volume that a pod uses; delete the CSIDriver; make it again, marked as Adopting, while which nothing is attached; look
// again, for pods that came until the last kubelet had seen it; mark it as adopted. Each step can be the last one of a command that ends early: the next one reads how far it came.
package adoption
