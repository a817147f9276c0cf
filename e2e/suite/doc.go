// Package suite is what live tests share: one cluster with one webhook a test binary, and
// namespaces and policies that a test makes and leaves behind clean.
package suite
