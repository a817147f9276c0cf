// Package attacks attacks Podgrace without a plan, where the tests of package controlplane try one known thing each. It has three tests.
//
// TestWalk walks at random over what can be asked of a real control plane: verbs, subresources, encodings, names, collections, dry runs,
// impersonation, edits of ownership, by users of all ranks, while the real controllers run. A model (model_test.go), which knows nothing of
// package guard, reads what is stored in the order in which it was stored, and holds each removal of a protected pod, of a Node with some and of a
// VolumeAttachment against the reasons that count. It fails on one without a reason, and where a path of removal was never both refused and allowed.
//
// TestWarnRefusesNothing sends the same random requests, and ordinary work, under policies that only warn, while the webhook runs, restarts, is away or is removed. It
// fails on a refusal by Podgrace.
//
// TestFlood sends the largest reviews there are to a webhook that has the memory of its container, and wants ordinary ones answered beside them.
//
// What a finding looks like, and how long they run: flags in main_test.go, make attack.
package attacks
