//go:build programs

package gatekeeper

// The manager, named so that "go mod tidy" keeps what it needs.
import _ "github.com/open-policy-agent/gatekeeper/v3"
