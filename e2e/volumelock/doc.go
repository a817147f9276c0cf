// Package volumelock has the tests of the volume lock on a real control plane: the real attach/detach controller makes and deletes the VolumeAttachments, the volume lock is their attacher, and
// kubelets that are scripted mount and unmount by the rules of the real one. A witness knows what is mounted, which nobody else does.
package volumelock
