// Package nodeplan prints a node's plan: for people, who should see QoS, promise, limit, usage and drift at a glance, and as JSON for
// programs.
package nodeplan
