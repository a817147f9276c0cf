// Package topology indexes the nodes of a cluster for topology spread constraints: which nodes a pod may use, and which topology
// domains these have.
//
// The cost of a review must not grow with the number of nodes. Which nodes match a pod's node affinity and tolerations is evaluated once for all
// pods that have the same, and updated for nodes that change; the domain of each node by topology key is kept up to date by events. For each
// review bit sets are combined, a few words for each 64 nodes.
package topology
