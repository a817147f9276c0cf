// Package clustertest has what tests of the higher tiers share.
package clustertest

import (
	"os"
	"testing"
)

// Require skips the test with the reason if err says that this machine cannot run the tier. Under
// REQUIRE_ALL=1, as in continuous integration, that is a failure: a skipped tier proves nothing.
func Require(t testing.TB, tier string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("REQUIRE_ALL") == "1" {
		t.Fatalf("REQUIRE_ALL=1, but the %s tier cannot run here: %v", tier, err)
	}
	t.Skipf("the %s tier cannot run here: %v", tier, err)
}
