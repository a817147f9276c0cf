// Package review measures podgrace review over manifests that it makes: time, memory, and what one manifest costs as
// they become more.
//
//	go run -C e2e ./bench review [-sizes 100,1000,10000,100000] [-rounds 3]
package review
