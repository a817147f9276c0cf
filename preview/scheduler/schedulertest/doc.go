// Package schedulertest has what tests of previews and of the scheduler share: the example of contradictory constraints (example.go).
package schedulertest
