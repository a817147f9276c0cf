// Package fencing decides which silent nodes are powered off, when one of them is known to be off, and what is released by that. It is pure: what is known goes in as
// values, decisions and what is to be done come out; the fencer (fencing/controller) looks up the one, carries out the other, and decides nothing.
//
// One round of the fencer:
//
//  1. It fills Facts. NodeOf and PodOf read the objects, Silence says for how long each node was not heard of. A zero value is unknown, and unknown waits. Fences and
//     receipts are listed from the API server itself, and so is each Node (with its Lease, VolumeAttachments and pods) that a Fence is for: Node.Live says so.
//  2. Storms notes by which policies too many nodes are unhealthy. Decide then says of each silent node, and of each Fence that nobody has begun, what becomes of it
//     and why. Where it says DoFence and there is no Fence yet, NewFence is the object to create.
//  3. Conditions says which condition podgrace.dev/Partitioned each node, and which protected pod of it, is to have.
//  4. Voids says which receipts are contradicted: the boot that they say is off was heard of since, or the storage that they say is revoked was given back to it. They are voided before anything else is done.
//  5. Step takes one Fence a step further. If its status changes, that is all: the status is stored first, with the resourceVersion that the Fence was read with, so that an
//     attempt is always written before the agent is called, and a fencer that leads no more learns it. Actions come only for a status that is stored. They may be
//     repeated, by this fencer or by another one: what an agent answers goes into the Fence's Progress, which is memory only. A fencer that has none reads the power first.
//  6. Lifts says which NetworkFences can be lifted, because the machines that they are for have booted again. Retire says which Fences and receipts can be deleted.
//
// Time is a Moment: how long the fencer has led, by its own monotonic clock, by which all decisions go; and the wall clock, which is only ever written down. Where that
// clock goes back the fencer begins as one that begins to lead; where it goes on and nobody looked, silences and cooldowns begin again.
//
// Verdicts are of one round: Step must not get one of a round before, whose budget may be spent since. Two fencers that both take themselves for the leader, as leader election
// can't rule out, spend a budget each at worst; neither can contradict the other about one Fence, whose status has a resourceVersion.
//
// What holds, whatever happens (property_test.go): nothing is released without a receipt that stands; no receipt is made for a boot that was heard of since its power was
// read; no more nodes are in the course of being fenced than the strictest budget allows; an incident ends, or its message says what it waits for;
// no pod is released by storage that its boot can write to, then or later, and none that has more at stake; no storage is given back to a boot that it was taken from.
package fencing
