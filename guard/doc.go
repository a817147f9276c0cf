// Package guard decides whether a removal is safe: whether it could make Kubernetes believe that a pod is gone while its
// processes may still run, so that a replacement runs beside them. It is pure: a Request (who wants to remove what) and
// Facts (what is known) go in, a Decision comes out.
//
// The roads by which that can happen are in road.go. For each there is one ordered slice of rules; the first that has an
// answer decides. Rules that allow come first, so that more evidence never turns an allowance into a refusal. What is not
// known is judged on the safe side, and the message names it. Policies that deny are judged apart from those that warn, and
// the strictest verdict holds.
package guard
