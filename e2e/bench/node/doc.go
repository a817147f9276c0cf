// Package node measures the node enforcer. It has three parts, and without a flag does them all.
//
// -hog: a node in a virtual machine (e2e/vm), and on it a hog that takes memory until the node runs short of it. The node
// enforcer's eviction and the kubelet's own take turns at the same threshold, on the same boot; before each turn the kubelet gets the
// turn's configuration and is restarted, so that both have a fresh one. Who is first alternates. A delay before each turn, the same for
// both sides of a pair, lets the hog come at every moment of the kubelet's 10 s loop. A small program in the guest (watcher) sees on
// the guest's own clock when the threshold is crossed, when the hog is contained and when its process is gone; decisions are
// timed by the logs of the enforcer and of the kubelet, on the same clock. The guest is emulated in software: a tenth of a real
// machine's speed, for both sides alike.
//
// -plan: plan.Build, a round that finds all as planned and one that finds everything otherwise, in this process, over cgroups of
// this machine (v1) that nobody else uses.
//
// -steady: the real program for a minute beside a real API server with 500 pods on a node that is only an object, over such
// cgroups: what it writes, and what it costs.
//
// Goals that are not met are no error; a run that proves nothing is. What it makes goes with it, also after an interrupt.
package node
