// Package eviction decides who has to go when a node runs out of something, how many at once, and how long they get. It is pure.
//
// Rank is the kubelet's order (pkg/kubelet/eviction/helpers.go rankMemoryPressure, rankPIDPressure and rankDiskPressureFunc,
// 1.36.3): those above their request first, the lowest priority first, the largest usage above the request first; and between
// the last two the eviction order that admission wrote into the pod's annotation, so that a forged one changes nothing between
// priorities. Unlike the kubelet, which evicts a pod without statistics first, Rank has it last. Choose takes as many as are
// needed at once, where the kubelet takes one each ten seconds, and counts those that are on their way already.
package eviction
