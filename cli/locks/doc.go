// Package locks is what "podgrace volumelock" reads and writes: what package cli/adoption plans, and who holds which volume.
//
//	client.go   reading what is planned by, and the single writes
//	adopt.go    carrying out an adoption, step by step; leave.go the way back
//	list.go     who holds what, and why it is not released
package locks
