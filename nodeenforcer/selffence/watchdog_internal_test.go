package selffence

import (
	"testing"
	"time"
)

func TestLatest(t *testing.T) {
	for identity, want := range map[string]time.Duration{"i6300ESB timer": 30 * time.Second, "HPE iLO2+ HW Watchdog Timer": 30 * time.Second, "": 30 * time.Second, "iTCO_wdt": time.Minute, "SBSA Generic Watchdog": time.Minute} {
		if got := latest(identity, 30*time.Second); got != want {
			t.Errorf("%q: %s", identity, got)
		}
	}
}
