// Package eviction decides which pods are evicted when a node runs out of a resource, how many at once, and with which grace period. It
// is pure.
//
// Rank is the kubelet's order (pkg/kubelet/eviction/helpers.go rankMemoryPressure, rankPIDPressure and rankDiskPressureFunc,
// 1.36.3): those above their request first, the lowest priority first, the largest usage above the request first; and between
// the last two the eviction order that admission wrote into the pod's annotation, so that a forged one changes nothing between
// priorities. Unlike the kubelet, which evicts a pod without statistics first, Rank puts it last. Choose takes as many victims at once as
// are needed, where the kubelet takes one each ten seconds, and counts the evictions that are in flight already. For a stall, which the kubelet
// does not know, only a pod that itself waits for memory is evicted.
package eviction
