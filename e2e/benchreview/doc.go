// Command benchreview measures podgrace review over manifests that it makes: time, memory, and what one manifest costs as
// they become more.
//
//	go run -C e2e ./benchreview [-sizes 100,1000,10000,100000] [-rounds 3]
package main
