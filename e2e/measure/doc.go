// Package measure reads what a process uses, and what its metrics say.
package measure
