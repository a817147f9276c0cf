package vm

import (
	"bufio"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// connectedEvents have a QEMU that says some text once it was asked for events, and ends.
func connectedEvents(t *testing.T, text string) *events {
	t.Helper()
	e, err := listenEvents(filepath.Join(t.TempDir(), "events"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", strings.TrimPrefix(e.arguments()[1], "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if asked, err := bufio.NewReader(conn).ReadString('}'); asked != `{"execute": "qmp_capabilities"}` || err != nil {
		t.Errorf("asked %s, %v", asked, err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEvents(t *testing.T) {
	// What QEMU 7.2 says to a guest whose watchdog expires.
	e := connectedEvents(t, `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}}, "capabilities": ["oob"]}}
{"return": {}}
{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "WATCHDOG", "data": {"action": "reset"}}
{"timestamp": {"seconds": 1, "microseconds": 3}, "event": "SHUTDOWN", "data": {"guest": true, "reason": "guest-reset"}}
`)
	if err := e.end(); err != nil || !slices.Equal(e.names, []string{"WATCHDOG", "SHUTDOWN"}) {
		t.Errorf("got %q, %v", e.names, err)
	}
	if !e.has("WATCHDOG") || e.has("RESET") {
		t.Errorf("%q are not told", e.names)
	}
	if err := connectedEvents(t, "no JSON").end(); err == nil {
		t.Error("what is no event was taken")
	}
	// QEMU that did not start, and a guest without.
	e, err := listenEvents(filepath.Join(t.TempDir(), "events"))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.end(); err != nil || e.has("WATCHDOG") {
		t.Errorf("got %q, %v", e.names, err)
	}
	e = nil
	if err := e.end(); err != nil || e.has("WATCHDOG") {
		t.Errorf("without: %v", err)
	}
}
