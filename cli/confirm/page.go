package confirm

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podgrace/podgrace/internal/console"
)

// Style is how a text is laid out.
type Style = console.Style

// margin is the width of the labels' column.
const margin = 11

// since writes when something was, and how long ago.
func since(t, now time.Time) string {
	layout := "15:04:05 UTC"
	if now.Sub(t) > 20*time.Hour {
		layout = "2006-01-02 15:04:05 UTC"
	}
	return t.UTC().Format(layout) + " (" + ago(t, now) + ")"
}

func ago(t, now time.Time) string {
	if d := now.Sub(t); d >= 0 {
		return duration.HumanDuration(d) + " ago"
	}
	return duration.HumanDuration(t.Sub(now)) + " ahead of this machine's clock"
}
