// Command gate runs the tests of all modules and ends with one table.
//
//	go run -C e2e ./gate [flags] SET|PART...
//
// A set is test, check, integration, e2e, gate or all; the Makefile has a target for each. A part is a line of parts.go. Parts run
// beside each other if the cores allow it. If a part of check fails, nothing that boots a server or a machine starts.
//
// It imports the standard library only, so that a first line is there within seconds on empty caches.
package main
