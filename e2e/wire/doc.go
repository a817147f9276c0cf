// Package wire passes TCP connections on, as a Service does, and does to them what networks do: it holds them, delays them and ends them.
package wire
