// Package fencer measures what the fencer costs in a large cluster: the real program beside a real API server with as many Nodes as are asked for, each with a Lease
// that is renewed every ten seconds, as a kubelet does. No kubelet and no controller is there. It watches twice: while all nodes are heard of, and while a part of them is silent and shown as partitioned. A run in which
// leases were not renewed as often as that is void: the fencer had less to do than it should have.
package fencer
