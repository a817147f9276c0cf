// Package diff is what a change of policies would do: the same documents are judged by two engines of package review over one state,
// and the answers are compared.
//
// Of a workload, or of a pod that is only a manifest, three things are asked under each: its creation, a force delete of its pod, and an
// eviction without a grace period. A pod that runs already is created no more: it is asked for its removal only, and what it has is
// compared with what the new policies would give it today, since a policy reaches new pods only. Nodes and VolumeAttachments are asked
// for their deletion; an AdmissionReview asks its own question.
//
//	judge.go    asks the engines                    count.go    what it comes to
//	change.go   two answers in, changes out         running.go  pods that run, beside what they would get
//	group.go    workloads that change alike         write.go    as text, JSON, Markdown
package diff
