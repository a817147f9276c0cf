// Package volumelock decides which one node may mount a volume that is for one node at a time (ReadWriteOnce, ReadWriteOncePod). Attach decides about one VolumeAttachment, Release about one
// VolumeLock. Both are pure: what was read goes in, and at most one write comes out. Package controller reads, writes and decides nothing.
//
// The promise: two nodes never have a volume mounted for writing at the same time. TestHistories and TestInterleavings (controller) try to break it by random histories of machines, kubelets,
// controllers and attachers. TestHistoriesFind removes one rule at a time and expects a history that breaks the promise; a text in quotes below is the name of such a rule.
//
// The argument is a list of claims. Each can be checked without the others. Places in Kubernetes are of v1.36.3.
//
// # The gate
//
//  1. A kubelet mounts a volume of a driver with attachRequired only after it has read, from the API server, a VolumeAttachment for its node whose status is attached and that is not being
//     deleted (pkg/volume/csi/csi_attacher.go, WaitForAttach and verifyAttachmentStatus). So whoever writes that status decides who mounts. e2e/volumelock/vm TestTwoKubelets
//  2. A VolumeLock that exists is held. It never expires. Its name depends on the volume alone, so that of two nodes that take it at once one gets AlreadyExists. Each other write names the UID
//     or resourceVersion that was read. Replicas may be many, slow, or stop after any write: leader election only saves work.
//     "a VolumeLock is taken though there is one", "VolumeLocks are written without regard to what was read", TestInterleavings
//  3. Each fact is read from the API server: the CSIDriver, the VolumeLock, the VolumeAttachment, the PersistentVolume, then the Node. A fact is later than those before it. Informers tell where to
//     look, and three things whose delay does no harm: another PersistentVolume of the same handle (its own event has both refused), other locks about which a kubelet is asked as well, and that there is a receipt
//     (without one nothing is released). TestRequests, TestLateInformer, TestInterleavings
//  4. After a write on the way to attach nothing is read again. The answer has the object as it is now, the lock stays while its VolumeAttachment is not deleted (claim 7), and the next write of
//     the VolumeAttachment is refused if it has changed. So it was there, unchanged, from before PersistentVolume and Node were read until attached is written, and a replica that is slow would decide by the same facts.
//     After an error everything is read again. TestRequests, TestSomebodyWasFaster, TestAnswerLost
//  5. For a volume that one node may mount, attached is written only if the lock names this VolumeAttachment and this Node, both by UID, and the VolumeAttachment has our finalizer, so that its
//     deletion is seen. "attached is said to whoever asks", TestAttach
//  6. A volume that is not attached is taken only for a node whose kubelet lists it in status.volumesInUse. A kubelet that does not list it would mount it without this gate, and claim 13 would not hold for
//     it. This takes no time: the kubelet itself waits until its list is stored (ReportedInUse). One that is attached and has no lock is taken for its node in any case: no other node may get it. TestAttach
//
// # What releases a volume
//
//  7. Nothing is released before the VolumeAttachment is deleted: until then its node can begin to mount at any time. The taint out-of-service and the force detach after six minutes only delete
//     it. "a release does not wait for the deletion"
//  8. The deletion is noted in status.release, with the boot that the Node has by a later read. From then on nobody on that node begins to mount. One of claims 9 to 12 has to show that no mount
//     is left that began before. TestRelease
//  9. A FenceReceipt, not void, that this boot is off. What the boot had mounted ended with it. "a receipt for any boot of the node counts", "a receipt counts for another Node of the name"
//     It does not count if the Node was heard of by that boot since. If the Node is not ready and has another boot since, that boot is noted instead, since nobody fences the earlier one any more,
//     unless a boot may have mounted without asking (claim 24). If there was no such Node, the boot can't be known and only a receipt that the instance is terminated counts.
//     TestBootedSince, TestBootedWhileReleased
//  10. A FenceReceipt that storage was revoked from this boot, if it names the PersistentVolume. TestRelease
//  11. A person's confirmation, if it names this release. "a confirmation of before counts"
//  12. Two answers of the kubelet (claims 13 to 17).
//
// Once the deletion is noted the VolumeAttachment may go, since its node gets another one only then. On a node that an autoscaler empties it is kept for a minute at most, so that the kubelet can
// still answer. One that is deleted lets nobody mount, whether it is there or not. TestKeptForTheKubelet
//
// # The kubelet's answer
//
//  13. A kubelet lists a volume in status.volumesInUse from when a pod wants it until it is unmounted (GetVolumesInUse), and does not mount before that list is stored. So a status that it
//     worked out after the deletion, and that does not list the volume, shows that the volume is not mounted.
//  14. No status tells that it was worked out after the deletion. Two machines' clocks can't be compared. A resourceVersion tells when a status was stored, and a kubelet sends none
//     (component-helpers node/util/status.go). A kubelet behind a late informer may even leave a list as it is that lacks the volume. So the kubelet is asked: the volume is put into
//     status.volumesInUse, and the heartbeat that the Node has then is noted. "the kubelet is not asked"
//  15. A kubelet that uses the volume leaves that list as it is: it sends the whole list, with the volume, or no list. Only a kubelet that does not use it removes it. An answer is a list
//     without the volume and with a later heartbeat of the same clock. "one answer is enough, and an older heartbeat is one"
//  16. A request that a kubelet has given up on may arrive late, after one question but not after two. So two answers are needed. "one answer is enough"
//  17. A kubelet that was restarted answers for the boot that it runs on. What an earlier boot had mounted ended with it.
//
// # When a kubelet's answer does not count
//
//  18. A kubelet that is restarted does not list a volume that was detached by force while in use (reconstruct.go takes what is attachable from status.volumesAttached), nor does a later attachment
//     change that. So the answers of that boot do not count while the VolumeLock exists (status.distrustedBootID). "a detach by force is as any other"
//  19. It may have been by force if the Node still lists the volume when the deletion is noted; if the VolumeAttachment was recreated before its deletion was noted; if the Node has the taint, or is
//     not ready; or if it was not ready at some time since the volume was last seen in status.volumesAttached.
//     "a deletion that nobody has noted is as one that was noted", TestForcedUnnoted, TestForcedWhileNobodyLooked, TestDistrust, TestWitness
//  20. status.volumesAttached does not show that a detach was orderly. The attach/detach controller removes a volume from it first, also one in use: it trusts its informer for whether the Node is
//     ready and lists the volume (reconciler.go, reconcile). "who is not in volumesAttached was not detached while in use"
//  21. A kubelet does not list a volume that it mounted before its driver was gated (desired_state_of_world.go decides when a pod comes). Only another boot counts.
//     "what was mounted before the gate is as any other", TestBootOfWhatWasAdopted
//  22. While a CSIDriver has attachRequired: false, kubelets let pods mount without asking (desired_state_of_world_populator.go, findAndRemoveDeletedPods). The lock has the condition Conflict, and
//     only a receipt that the instance is terminated releases it. "what a driver held that is not gated any more is released as ever", TestDriverUngated
//  23. attachRequired is immutable, so that a driver which changed it is another CSIDriver. Its UID is in the lock. If it is another one, for whatever reason, a release begins again. If the
//     annotation of the same CSIDriver was removed and put back, nothing begins again. "a CSIDriver that was made anew is as the one before", TestDriverMadeAnew, TestMarkPutBack
//  24. Which boot may have mounted without asking is not in the Node: a machine mounts before its first status arrives. It is the boot that answers a question which was asked since, or the one
//     whose status is read after the CSIDriver and that has two later heartbeats, with no other boot between (status.ungatedBootID). One late request can't do for both. Until it is known no receipt for a
//     boot counts. TestBootIsKnownWhileHeld, TestBootedWhileUngated, TestBootThatNobodyHadHeardOf
//  25. What other nodes had mounted before the gate no lock knows. So nothing of a driver is attached or released before a person has adopted it. The annotation podgrace.dev/gated has the UID of
//     its CSIDriver, so that a copy of the CSIDriver is not adopted. "who asks first has the volumes of a driver that was not adopted", "a mark that was copied counts", TestNotAdopted
//
// # A Node that is gone
//
//  26. If the Node was deleted or recreated, another machine may register by its name. So its VolumeAttachment is withdrawn (attached: false). The attach/detach controller then takes it for
//     detached and forgets it (csi_attacher.go, VolumesAreAttached; operation_generator.go, GenerateVolumesAreAttachedFunc), and nobody else would delete it. Release does, if it holds the lock,
//     says attached: false, and there is no Node of the lock's UID by a later read, which no later Node has. TestForgottenFinds, TestHandoverEnds
//  27. That deletion takes from the node the right to mount, and gives nobody anything: the lock stays until a person confirms or a receipt says that the instance is terminated. TestNodeGone
//
// # Who else writes
//
//  28. The attach/detach controller only creates and deletes VolumeAttachments. An external-attacher beside this one, or a person, may write the status. If nobody holds the volume, it is taken for
//     that node. If another node does, it is withdrawn, again every ten seconds. Both raise an alarm (metric and Event SecondHolder or OtherAttacher). A kubelet may have begun to mount by then: a
//     ValidatingAdmissionPolicy on volumeattachments/status refuses such writes. "what another attacher has attached stays attached", TestOtherAttacher
//
// # What is assumed
//
//   - One machine for each Node; a machine runs one kernel at a time. One that takes over another's name does so after that one's VolumeAttachments are gone or withdrawn.
//   - Of requests that a kubelet has given up on, no two arrive late, and no status of an ended boot is stored after one of a later boot that was noted.
//   - A taint is not set and removed on a node that is ready all the time and whose volume no replica looks at.
//   - A kubelet is not restarted, within its boot, before it has unmounted a volume that was removed from status.volumesAttached because an informer was late.
//   - No decision is under way when a CSIDriver is recreated with attachRequired: false.
//   - Receipts and confirmations are true. Whoever adopts a driver sees all that is mounted, and no other attacher runs before that.
//   - etcd does not go back (docs/volume-lock.md has what to do after a restore).
//   - Nobody sets status.attached or deletes a VolumeLock by hand while something else goes wrong. The policies refuse both to others, and both are found and reported.
//
// volumelocktest has the model of these in which the random histories happen.
package volumelock
