// Package topology knows the nodes of a cluster as topology spread constraints ask for them: which of them a pod may use, and which
// domains these make.
//
// A review must not cost more where there are more nodes. What depends on a pod alone (its node affinity, its tolerations) is asked once
// for all pods that ask alike, and kept up with the nodes that changed since; what depends on nodes alone (their domain of each key) is
// kept by events. What is left for each review are a few words for each 64 nodes.
package topology
