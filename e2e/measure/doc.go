// Package measure reads what a process uses, and what it tells in its metrics.
package measure
