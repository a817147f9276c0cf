// Command demo starts a real control plane with Podgrace's real webhook, applies the examples, and prints what each pod
// asked for, what it got, and why. It stays until it is interrupted, or ends by itself with DEMO_EXIT=1.
package main
