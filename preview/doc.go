// Package preview says where a pod would be scheduled, why not elsewhere, and whom it would cost, before it is created. The policies come first: what is judged is the pod as it would be
// stored. Whoever decides is the scheduler of Kubernetes itself (package scheduler).
//
//	Preview          of one object: preview.go goes from a review's Result to it, group.go puts nodes together that are alike, victims.go says what would become of those that go
//	invalid          why the API server refuses the object itself, before there is a pod (validate.go)
//	ineffective      constraints and affinity that have no effect
//	Rollout          where many pods end up; scaledown.go has which of those that are there go
//	siblings         what its workload has already, and how the pods of a Deployment and of a DaemonSet are not like others
//
// What is found is printed by package scheduling (cli/scheduling), which needs no scheduler.
package preview
