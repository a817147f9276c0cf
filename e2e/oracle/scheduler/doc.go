// Package scheduler holds verdicts of previews against kube-scheduler itself: the program, with a real API server and Node objects that no kubelet serves. They
// are small clusters, one after the other. 25 random ones and the example of the design are a matter of 40 seconds; -preview.cases=500 -preview.seed=1000 are
// more, and others. In one process, without the API server, preview/scheduler is held against the scheduler's code on many more.
//
// It is a module of its own, for the sake of Kubernetes' replacements. What is not here: pods that wait beside the one in question, which the scheduler would not let
// wait (preview/scheduler has them), and 5,000 nodes, which take longer to create than all the rest.
package scheduler
