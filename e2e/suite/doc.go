// Package suite is what the tiers of end-to-end tests have in common: one cluster with one webhook a test binary, and
// namespaces and policies that a test makes and leaves behind clean.
package suite
