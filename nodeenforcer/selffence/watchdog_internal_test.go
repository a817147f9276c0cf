package selffence

import (
	"os"
	"path/filepath"
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

// One that did not stop is not told to be disarmed.
func TestDisarm(t *testing.T) {
	for state, stopped := range map[string]bool{"active": false, "inactive": true} {
		folder := t.TempDir()
		file, err := os.Create(filepath.Join(folder, "watchdog0"))
		if err != nil {
			t.Fatal(err)
		}
		d := &device{file: file, state: attribute("/dev/watchdog", folder, "state"), identity: "test", timeout: time.Minute}
		if err := os.MkdirAll(filepath.Dir(d.state), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d.state, []byte(state+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.Disarm(); (err == nil) != stopped {
			t.Errorf("%s: %v", state, err)
		}
		if wrote, err := os.ReadFile(file.Name()); string(wrote) != "V" || err != nil {
			t.Errorf("%s: %q was written, %v", state, wrote, err)
		}
	}
}
