// Package preview measures podgrace preview over the state of a large cluster that it makes: time and memory for some questions, how long
// the scheduler's pass itself takes of it, and how large the program is.
//
//	go run -C e2e ./bench preview [-nodes 5000] [-pods 150000] [-rounds 3] [-processors 1]
package preview
