// Package preview says where a pod would be scheduled, why not elsewhere, and whom it would cost, before it is created. The policies come first: what is judged is the pod as it would be
// stored. Whoever decides is the scheduler of Kubernetes itself (package scheduler).
//
//	Preview          of one object: preview.go goes from a review's Result to it, group.go puts nodes together that are alike, victims.go says what would become of those that go
//	siblings         what its workload has already, and how the pods of a Deployment and of a DaemonSet are not like others
//	Text, JSON, HTML how it is told
package preview
