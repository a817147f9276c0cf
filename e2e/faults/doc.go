// Package faults tests what becomes of ordinary work, and of force deletes, while the webhook is away, hangs, or can't be
// trusted, and while the API server has lost etcd.
package faults
