// Package pressure decides when a node is under pressure. Its decisions are pure: Compile turns a NodeEviction into thresholds, State.Step
// takes what was measured and returns which thresholds are due, which conditions the node has and when to step again, and NextSample
// returns how soon memory has to be measured again. Two parts read the kernel: Sensor measures signals, and a Trigger, armed by
// StallTrigger, wakes up when processes have stalled on memory.
//
// The rules are the kubelet's (pkg/kubelet/eviction/eviction_manager.go synchronize and helpers.go, 1.36.3): a threshold is met
// while less than its value is left; a soft one is acted upon after its grace period; one that was acted upon stays met until
// its minimum reclaim is free as well; a node condition lasts for a transition period after the last threshold. It differs in
// three ways, on purpose. A threshold whose signal is unknown keeps its state, where the kubelet forgets it. Time is added up from step to
// step and never taken from the calendar, so that a clock that jumps neither evicts nor delays. And stall (PSI) is a signal of its own.
package pressure
