// Package controller is the fencer's edge: it looks up what package fencing decides by, and carries out what that says. It decides nothing.
//
//	fencer.go      the loop of the leader: one round after the other
//	lookup.go      what is known of nodes, from informers, and live of those that are silent or being fenced
//	act.go         actions: agents, receipts, the removal guard's own roads
//	report.go      what became of a step: log, Events, metrics
//	conditions.go  podgrace.dev/Partitioned on nodes and pods
//	storage.go     which addresses nodes had while they were healthy, and what csi-addons says
//	policies.go    the status of FencePolicies
//	metrics.go     what is counted
//
// A round is a second long where something is being fenced, and some seconds else. What is acted upon is read from the API server itself in the same round; informers only say
// where to look.
package controller
