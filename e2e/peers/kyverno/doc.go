// Package kyverno pins Kyverno with the very dependencies that it pins itself, in a module of its own: its go.mod is the only place that names the
// version. e2e/bench/peers measures beside it what programs.go names.
package kyverno
