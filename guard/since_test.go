package guard

import (
	"testing"
	"time"
)

func TestSinceSaysTheDayOfWhatIsLongAgo(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for ago, want := range map[time.Duration]string{
		time.Minute:                           "11:59:00 UTC, 1m0s",
		24*time.Hour - time.Second:            "12:00:01 UTC, 23h59m59s",
		24 * time.Hour:                        "2026-11-21 12:00:00 UTC, a day",
		47 * time.Hour:                        "2026-11-20 13:00:00 UTC, a day",
		48 * time.Hour:                        "2026-11-20 12:00:00 UTC, 2 days",
		7813*time.Hour + 20*time.Minute:       "2025-12-31 22:40:00 UTC, 325 days",
		1500 * time.Millisecond:               "11:59:58 UTC, 2s",
		24*time.Hour - 100*time.Millisecond:   "2026-11-21 12:00:00 UTC, a day",
		365*24*time.Hour + 5*time.Millisecond: "2025-11-22 11:59:59 UTC, 365 days",
	} {
		if got := since(now.Add(-ago), now); got != want {
			t.Errorf("%s ago: %q, want %q", ago, got, want)
		}
	}
}
