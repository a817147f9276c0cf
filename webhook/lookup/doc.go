// Package lookup looks up what decisions depend on besides the request: Lookup, from informers that keep no more of an object than is read of it (cache.go), and
// live from the API server what may not be stale (live.go) or is not watched (reads.go). Policies are no facts: package webhook holds them.
package lookup
