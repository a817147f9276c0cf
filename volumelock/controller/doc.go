// Package controller is the volume lock's edge: the attacher of CSI drivers that attach nothing themselves. It reads what package volumelock decides by, carries out the one write that it
// returns, and decides nothing.
//
//	attacher.go  one VolumeAttachment, one VolumeLock: read, decide, write
//	write.go     writes, each refused by the API server where what it changes is not as it was read
//	setup.go     what is watched, and what is looked at when it changes; that no event is swallowed which matters filters_test.go tries to refute
//	cache.go     what informers keep
//	metrics.go   what is counted
//
// What is decided by is read from the API server itself; informers only tell where to look. Replicas elect a leader so that they do not do each other's work; two that both take
// themselves for it do no harm, and neither does one that stops anywhere (interleaving_test.go).
package controller
