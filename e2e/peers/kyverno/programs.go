//go:build programs

package kyverno

// The admission controller, named so that "go mod tidy" keeps what it needs.
import _ "github.com/kyverno/kyverno/cmd/kyverno"
