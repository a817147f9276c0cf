// Package schedulertest has what tests of previews and of the scheduler share: random clusters (draw.go, volumes.go) and the example of contradictory constraints
// (example.go).
package schedulertest
