// Package storage decides what has to do with storage that is taken away from a machine by csi-addons' NetworkFence: which addresses a node has, which blocks of addresses
// overlap, which volumes a NetworkFenceClass serves, and when a NetworkFence is lifted. It reads and writes nothing. Package fencing decides about nodes and calls it; package
// fencing/agents reads and writes the objects.
package storage
