// Package clustertest has what live tests share.
package clustertest

import (
	"os"
	"testing"
)

// Require skips the test with the reason if err says that this machine can't run it. If REQUIRE_ALL=1 is set, as in continuous
// integration, the test fails instead.
func Require(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("REQUIRE_ALL") == "1" {
		t.Fatalf("cannot run here, and REQUIRE_ALL=1: %v", err)
	}
	t.Skipf("cannot run here: %v", err)
}
