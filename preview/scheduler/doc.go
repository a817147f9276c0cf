// Package scheduler asks the scheduler of Kubernetes itself where a pod may go: the framework and the in-tree plugins of kube-scheduler 1.36.3, on objects that somebody has read.
// No rule of scheduling is written here. It differs from a scheduler that runs in three things: all nodes are judged and none is left out (percentageOfNodesToScore), nothing is
// decided by chance, and nothing is ever written, since there is no client that could.
//
//	Cluster    the objects that the scheduler's informers would hold
//	ReadConfig the scheduler's configuration: profiles, plugins, default constraints
//	New        the framework over them, and the scheduler's own cache and snapshot (informers.go, nominator.go)
//	Judge      one pod in, one Verdict out: filters of all nodes, scores of those that fit, else the framework's dry run of preemption
//	Place      puts a pod on a node, so that the next one is judged beside it
package scheduler
