// Package volumelock measures what it costs that the volume lock attaches volumes, beside an attacher that looks at nothing and says of each VolumeAttachment at once that it is attached, as the
// external-attacher does for drivers without ControllerPublish (its trivial handler). Both are on one real API server, in turns. Nodes are only objects, whose kubelets list the volumes as in use already:
// real ones wait for that before they wait for the attacher. Both attachers have the token of one service account, as pods have it. The VolumeAttachments are made here, as the attach/detach controller makes them.
//
//	one by one   the time from when a VolumeAttachment was made until a watch says that it is attached
//	at once      the time until all of many are
//	at rest      memory and processor with many volumes held, while the kubelets of their nodes report a status every ten seconds, more often than real ones do that have nothing new to tell
package volumelock
