// Package guard decides whether a removal is safe: whether it could make Kubernetes believe that a pod is gone while its
// processes may still run, so that a replacement runs beside them. It is pure: a Request (who wants to remove what) and
// Facts (what is known) go in, a Decision comes out.
//
// A road is a kind of request by which that can happen; all are in road.go. Each road has one ordered slice of rules, and the first rule that has an
// answer decides. Rules that allow come first, so that more evidence never turns an allowance into a refusal. Facts that are unknown are
// judged on the safe side, and the message names them. Each level of policies (those that deny, those that warn) is judged by itself, and the
// strictest verdict holds.
package guard
