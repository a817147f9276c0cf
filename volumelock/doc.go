// Package volumelock decides which one node may mount a volume that is for one node at a time (ReadWriteOnce, ReadWriteOncePod), and when it may be another one. It is pure: what was
// read goes in as values, and one write at most comes out; the volume lock (volumelock/controller) reads, carries that out, reads again, and decides nothing.
//
// The gate is Kubernetes' own. A kubelet mounts a volume of a driver with attachRequired only after it has read, from the API server itself, a VolumeAttachment for its node whose
// status says attached and which is not being deleted (pkg/volume/csi/csi_attacher.go, WaitForAttach and verifyAttachmentStatus, v1.36.3). So whoever writes that status decides who
// mounts. Attach does, for one VolumeAttachment; Release, for one VolumeLock, decides when its node is rid of the volume. A VolumeLock that exists is held; it never expires.
//
// Taking is creating the VolumeLock, whose name only depends on the volume: of two at once, one is told that it exists already. Releasing is deleting it, with its UID and
// resourceVersion as preconditions. Between these, each write names the resourceVersion that was read. Facts are read in this order, from the API server itself: the CSIDriver, the VolumeLock, then the
// VolumeAttachment, then the Node. Replicas may therefore be many, slow, or stop after any write: leader election spares work, it is no part of this argument.
//
// # What is read once, or not at all
//
// On the way to attach what is not attached each fact is read once. After a write it is decided by its answer and by what was read before it, as a replica would that is slow. The lock that was made, or given to
// the VolumeAttachment, is as the answer says, and stays as long as that is not deleted, since nothing is released before. And the VolumeAttachment was neither deleted nor changed by others since it was read: each
// write of it names the resourceVersion that the read, or our write before, has told. So attached is said of one that was there all the while, from before PersistentVolume and Node were read, and that holds the lock.
//
// Two things nobody has to read who takes a volume of which the informer knows no lock. That there is none creating it asks. And what the VolumeAttachment is may the informer say: the next write of
// it, which comes before attached is said or says that, names the resourceVersion that the informer had, and proves that it was so all the while; the PersistentVolume and the Node are read later than the informer
// heard of it. A lock for one that is gone may be made then, as by any slow
// replica: nobody mounts by it, and it is released as any other. It hardly is: the attach/detach controller deletes one once the Node lists the volume no more, which is read later, and then nothing is taken. By that informer nothing else is written, and no alarm raised.
//
// The CSIDriver has to be read before the lock is made, which has its UID, and before the Node, since what that listed earlier its kubelet may have mounted without asking. It may be read beside the Node where the informer had it before, gated,
// and has told the UID that is read: then it was there, and gated, from before the Node was read, since neither attachRequired nor a UID changes. (When the mark of an adopted one went and came back meanwhile
// nothing begins again, see below.)
//
// Where several decide at once they may share a read, which has to begin after each of them has read what comes before it.
//
// The finalizer is put on the VolumeAttachment while the lock is made, one before the other or not, and nothing is attached before both are there. Where another node was faster the VolumeAttachment has it without
// holding a lock, and is let go as soon as it is deleted; where it was deleted meanwhile the lock is released as any other, and nobody has mounted by it.
//
// # When a node is rid of a volume
//
// The deletion of the VolumeAttachment comes first, whatever else is known: as long as it is there its node can begin to mount at any time, also by another boot. Neither the taint
// out-of-service nor the force detach after six minutes releases anything: they only delete it. That it was deleted is noted in the VolumeLock (status.release), with the boot that the
// Node has by a read after the deletion. From then on nobody of that node begins to mount; what may be is a mount that began before. One of these says that there is none:
//
//   - A FenceReceipt, not void, that this boot of this node is off. It must be the boot that the Node had after the deletion: an earlier one may have been followed by a boot that
//     mounted. Where there was no such Node then, that can't be known, and only InstanceTerminated counts, after which there is no boot. Where a Node that is not ready has had another boot since, that one is noted
//     (NodeBooted), and only a receipt for it counts: what an earlier one had mounted ended with it, and the later does not begin to. A machine is fenced by the boot that it has, so that nobody writes a receipt for the one
//     before any more. That no status of an ended boot is stored after one of a later boot is assumed here, as for the one that is noted with the deletion. It is not while it is not known which boot may have mounted without
//     asking (below), so that then what is noted stays.
//   - A FenceReceipt that storage was revoked from this boot, which names the PersistentVolume.
//   - A person's confirmation, which names this very release: one that was given before says nothing of what was mounted since.
//   - The kubelet's own word, by its node status.
//
// Elsewhere a deleted VolumeAttachment is let go once that is noted, since its node gets another only then. Where nobody comes back to the node, which an autoscaler deletes as soon as it
// has none, it is kept for the kubelet's answers, by our clock, which says nothing of what is safe: a VolumeAttachment that is deleted lets nobody mount, whether it is there or not.
//
// # A Node that is gone
//
// Whose Node was deleted, or recreated, has its VolumeAttachment withdrawn (attached: false): another machine may register by that name. Of what is not attached the attach/detach controller
// thinks that it is detached, and forgets it (pkg/volume/csi/csi_attacher.go, VolumesAreAttached, and pkg/volume/util/operationexecutor/operation_generator.go, GenerateVolumesAreAttachedFunc,
// v1.36.3), until it is started again: nobody would delete the VolumeAttachment, and the volume would stay where it is for ever. So Release deletes it, with its UID and resourceVersion
// as preconditions, and nothing more is needed than that: it holds the lock, it says attached: false, and by a read after that there was no Node of the lock's UID, which no later Node has.
// It is safe without any proof since a deletion gives nobody anything: it takes from the node the right to begin to mount, and the lock stays until there is a proof as above. It
// loses nothing either. The boot that is noted with a deletion is what receipts of a boot count by, and of a Node that is gone none can be read any more, now or later. And only after it
// a person can confirm the release, or a receipt count that the instance is terminated. Where another Node has the name now, and wants the volume, the attach/detach controller makes
// another VolumeAttachment, which waits for the lock as that of any node does.
//
// # The kubelet's word
//
// A kubelet lists a volume in status.volumesInUse from when a pod wants it until it is unmounted (GetVolumesInUse: desired and actual state of world), and does not mount before its list
// was stored (ReportedInUse). A status that it worked out after the deletion and that does not list the volume is the proof. But which one is later? Clocks of two machines can't be
// compared, and neither can the Node's resourceVersion tell: it says when a status was stored, not when it was worked out, and kubelets send no resourceVersion
// (component-helpers node/util/status.go). A kubelet also works out what to send against an informer's copy, and sends of the list only that it differs from that: behind an informer
// that is late it may believe that the volume stands in the stored list when it does not, mount, and go on to send heartbeats that leave the list as it is. Besides, it writes a status
// that has not changed every five minutes only.
//
// So the kubelet is asked. Once the deletion is noted the volume is put into status.volumesInUse, which says of it the safe thing, and the heartbeat is noted that the Node has
// then. The kubelet's next round (10 s) finds a list that is not its own. If it uses the volume the list stays as it is, however late its informer is, because what it sends is
// the whole list, with the volume, or nothing of it. Only a kubelet that does not use it takes it out: the answer is a list without the volume, with a later heartbeat of the same
// clock. A node that is cut off does not answer, and is never taken for one that did.
//
// What remains is a request that a kubelet has given up on after ten seconds, and that arrives after all: it carries a list of before. It has an earlier heartbeat than one that was stored
// since, which does not count; but one that was worked out just before a pod came, beside an informer that was late just then, has not. Therefore the kubelet is asked twice: an old
// request can't arrive for both. That no two do is assumed. A kubelet that was started again answers for the boot that it runs by, and what an earlier boot had mounted ended with it.
//
// A kubelet that is restarted finds what is mounted on its disks, and takes for attachable what stands in status.volumesAttached (reconstruct.go). A volume that was detached by force while
// it was in use (the taint, the six minutes) does not stand there any more, and is not listed, mounted though it is, nor by a later attachment. So a kubelet from whose node the volume may have
// been detached by force counts by another boot only, as long as the VolumeLock is there (status.distrustedBootID). It may have been where the Node still listed the volume once the
// VolumeAttachment was deleted; where that was gone, and another one made, before anybody noted it; where it has the taint, or is not ready; and where it was not ready at some time since the volume was last seen attached as it should be, in
// status.volumesAttached, whence the attach/detach controller takes it first: nobody may have looked when that happened, or the deletion may have come long after it. Since when the Node is
// ready tells. What is assumed: that a taint is not set and taken away on a node that is ready all the while and whose volume nobody looks after; and that no kubelet is started again, within its
// boot, before it has unmounted what was taken out of volumesAttached as if it were not in use, because it mounted behind an informer that was late; or because the attach/detach controller's was, before the
// deletion was noted.
//
// A pod that comes back to its node in the moment in which its volume is detached is taken for a detach by force as well: the Node lists the volume. It is tempting to tell the two apart by volumesAttached, out of which
// the controller takes a volume before it deletes the VolumeAttachment, and which who deletes that by hand leaves as it is. That is no proof: the controller also does so with what is in use of a node that is ready and has
// no taint. It goes by its informer for whether the node is ready and lists the volume, and asks the API server only where less than six minutes have gone since the pod did
// (pkg/controller/volume/attachdetach/reconciler/reconciler.go, reconcile: verifySafeToDetach is without regard to whether the node is healthy, v1.36.3). A node that has just become ready again, or has just
// unmounted the volume after six minutes and mounts it for another pod, so loses it in use, with all that the Node and the VolumeAttachment show as for the pod that came back (history_test.go, inVolumesAttached).
//
// A volume that was mounted before its driver was gated (Adopted) is not in the list either: whether a volume is to be attached a kubelet decides when a pod comes
// (desired_state_of_world.go), and keeps of what is mounted (actual_state_of_world.go). There, too, only another boot counts.
//
// Nor is one that was mounted while its CSIDriver said attachRequired: false, whether or not its node holds the lock: a kubelet that sees that lets also those pods mount that wait already
// (desired_state_of_world_populator.go, findAndRemoveDeletedPods). While that is so the lock says Conflict, and nothing but the end of the instance releases it. attachRequired can't be changed,
// so that the CSIDriver is another one before and after: its UID is in the lock, and where it has become another, for whatever reason, a release begins again. The CSIDriver is read before all
// others. Which boot may have mounted without asking the Node does not tell: a machine that has just booted has mounted before its first status arrives. It is the boot that answers a question
// which was asked since (status.ungatedBootID), as with what was adopted: each later one began when the gate was there, and only its word counts. Or it is the boot that is heard of while the
// volume is held: a status of it is read after the CSIDriver, so that the gate stood, and two more follow, each with a later heartbeat of the same clock, and none of another boot seen between.
// Had it ended before the first read, each of the two would be an old request that arrives late, and no two do; so it ran then, and each later one began when the gate was there. How late we read
// does no harm: what we have missed between makes it no less true that it ran. One late request alone, by which the Node names a boot that has ended, does for neither. While that is not known no
// receipt for a boot counts, since which boots it has to be about is not known; once it is, the one counts that the Node has after the deletion: what was mounted without asking ended
// with that boot or before it, and what was mounted since is in the list of whose Node it is. A Node whose status does not change is written every five minutes (kubelet's
// nodeStatusReportFrequency), so that this takes some ten to fifteen minutes. What other nodes have mounted then
// no lock knows: that is what adopting looks for. So a driver is gated only once it was adopted, which its CSIDriver says by an annotation with its own UID (podgrace.dev/gated); where that is missing, or of another CSIDriver, of which
// this one is a copy, or there is no CSIDriver, nothing is attached and nothing released, though kubelets ask. When the annotation comes back to the same CSIDriver nothing begins again. Assumed is that no decision is under way
// while the CSIDriver is recreated so.
//
// By the same reason a volume is taken only for a node whose kubelet lists it: one that does not would mount it without this gate, and its silence would say nothing later. It costs
// no time: the kubelet itself waits until its list is stored.
//
// # Who else writes
//
// Nobody else writes the status of a gated driver's VolumeAttachments: not the attach/detach controller, which only makes and deletes them. An external-attacher that runs beside this one for a
// driver without ControllerPublish says attached of whatever is not, without a finalizer (its trivial handler), and so do other hands. That is found: where nobody holds the volume
// it is taken for the node that has it now, and where another node does it is withdrawn, again every ten seconds, and Conflict is said. By then a kubelet may have begun to mount: it takes
// a policy on volumeattachments/status to prevent it. That one goes by the user and by spec.attacher: the finalizer and the annotation are also on a VolumeAttachment for which the volume was to
// be taken when another was faster.
//
// What holds, whatever happens (history_test.go): at most one node has a volume mounted that it can write to. What is assumed is in volumelocktest/world.go: one machine for each Node, and no hand
// that sets VolumeAttachment.status.attached, or deletes a VolumeLock, while something goes wrong elsewhere. The second is refused to others
// where the policies are installed; both are found and told.
package volumelock
