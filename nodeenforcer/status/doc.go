// Package status reports the state of the node: conditions and a taint of the Node object (NodeUpdater), rate-limited Events (Events),
// metrics (Metrics), and the steps of evictions in metrics and log (NewRecorder). It decides nothing.
package status
