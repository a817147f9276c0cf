// Package pressure says when a node runs out of something. Its decisions are pure: Compile makes thresholds of a NodeEviction,
// State.Step takes what was measured and says which thresholds are to be acted upon, which conditions the node has and when to
// look again, NextSample says how soon memory has to be measured again. What is not pure reads the kernel: Sensor measures, and a Trigger,
// which StallTrigger arms, wakes when processes have waited for memory.
//
// The rules are the kubelet's (pkg/kubelet/eviction/eviction_manager.go synchronize and helpers.go, 1.36.3): a threshold is met
// while less than its value is left; a soft one is acted upon after its grace period; one that was acted upon stays met until
// its minimum reclaim is free as well; a node condition lasts for a transition period after the last threshold. It differs in
// three ways, on purpose. What is not known is left as it was: the kubelet forgets a threshold whose signal is missing. Time is
// added up from step to step and never taken from the calendar, so that a clock that jumps neither evicts nor delays. And stall
// (PSI) is a signal of its own.
package pressure
