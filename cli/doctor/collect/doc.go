// Package collect reads what package doctor looks at: from a cluster (cluster.go), by GET alone, or from files (files.go). What can't be read is noted
// with its reason, and the rest is read on.
package collect
