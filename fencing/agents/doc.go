// Package agents has the ways in which the fencer powers machines off and reads their power: fencing.Agent by FenceAgent.spec.type. They do what they are told and
// report what was read; what follows from it is package fencing's to decide.
//
//	agents.go     New, and what all types have in common: identity, credentials
//	redfish.go    BMCs, by DMTF's Redfish (DSP0266)
//	exec.go       fence agents of ClusterLabs, by their API
//	webhook.go    a service of the user's, by a contract of ours
//	networkfence.go  csi-addons' NetworkFence, which takes storage away instead of power
//	client.go     HTTPS to one host, within bounds; scrub.go: errors without secrets
//
// All that power off hold to this, and the suite of package agentstest has each of them prove it:
//
//   - What is not exactly off is not off. An answer that could not be had, or read to its end, or understood, is an error and PowerUnknown.
//   - Where identity is to be verified, the machine is identified before anything is sent to it, and again with each reading.
//   - Whoever answers is not trusted with anything but the answer: it can't lead credentials to another host, have an unbounded answer read, or outlast the context.
//   - Secrets are read again for each call, so that they can be changed at any time, and stand in no error.
package agents
