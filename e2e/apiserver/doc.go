// Package apiserver tests the webhook against a real API server, without controllers: the traps of pod admission, each
// test named after one.
package apiserver
