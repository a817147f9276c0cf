// Package monitoring tests the alerts of deploy/monitoring with Prometheus' own program and libraries, in a module of its own because
// these need much that Podgrace does not.
package monitoring
