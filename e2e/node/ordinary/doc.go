// Package ordinary tests on a real node that nobody who works normally notices the removal guard: for each kind of ordinary
// work the API server's own metrics must say that it made no call to us, but for those of a drain.
package ordinary
