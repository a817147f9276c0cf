// Package status is what the node enforcer tells of its node: conditions and a taint of the Node object (NodeUpdater), Events that do not
// flood the cluster (Events), metrics (Metrics), and the steps of evictions in metrics and log (NewRecorder). It decides nothing.
package status
