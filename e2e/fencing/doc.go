// Package fencing tests the fencer end to end: a real API server, controller manager and scheduler, the webhook, and the fencer as a process of its own with its own rights.
// Nodes are Node objects whose Leases this package renews or does not, machines are scripted ones behind BMCs that speak Redfish. What BMCs and fence agents that others
// wrote make of it is in the folder agents.
package fencing
