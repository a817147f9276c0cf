// Package webhook compares Podgrace's webhook with a bare one that only decodes the pod and allows it (e2e/bench/bare), in
// throughput, latency, CPU time, allocations and memory.
//
// Both are processes of their own behind TLS on loopback and get the same recorded reviews, over HTTP/1.1 as the API
// server sends them to a Service. Podgrace's is the real program with a real control plane, the examples' policies, and
// what the recorded pods refer to, so that each of them gets a patch from every section of a policy; a run in which one
// does not is void. The two take turns in short rounds and swap who is first: a machine that others use too slows both
// alike, and only the ratios of paired rounds mean anything.
//
// The load comes from this process on the same cores, which draws the ratios of throughput and latency towards 1. CPU
// time and allocations are the servers' own and are not diluted.
package webhook
