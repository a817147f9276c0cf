package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hostile is what a tenant may put into a name that nobody checks: lines of a log, and what moves a terminal's cursor, its colour or the direction of
// letters. C1's CSI is one character, which JSON need not escape.
const hostile = "a\nI1126 10:00:00.000000       1 run.go:1] \"forged\"\r\n{\"msg\":\"forged\"}\n\x1b[2K\x1b[31m\u009b2K\x7f\u202eb\xff"

// The field names are documented (docs/logs.md) and kept.
func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := Options{Format: JSON, Verbosity: 1}
	log := o.New(&out)
	log.WithName("part").Info("said", "policy", hostile, "n", 3)
	log.V(1).Info("more")
	log.V(2).Info("too much")
	log.Error(errors.New(hostile), "failed")
	log.Error(nil, "ALARM")
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines:\n%q", len(lines), out.String())
	}
	clean := strings.ToValidUTF8(hostile, "\ufffd")
	wants := []map[string]any{
		{"level": "info", "v": 0.0, "logger": "part", "msg": "said", "policy": clean, "n": 3.0},
		{"level": "info", "v": 1.0, "msg": "more"},
		{"level": "error", "msg": "failed", "err": clean},
		{"level": "error", "msg": "ALARM"},
	}
	for i, line := range lines {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if at, err := time.Parse(time.RFC3339Nano, got["ts"].(string)); err != nil || time.Since(at).Abs() > time.Hour || at.Location() != time.UTC {
			t.Errorf("ts %v: %v", got["ts"], err)
		}
		if caller, _ := got["caller"].(string); !strings.HasPrefix(caller, "logging/logging_test.go:") {
			t.Errorf("caller %q", caller)
		}
		delete(got, "ts")
		delete(got, "caller")
		if diff := cmp.Diff(wants[i], got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	harmless(t, out.String())
}

var entry = regexp.MustCompile(`(?m)^[IE]\d{4} `)

// What has more than one line is indented, as klog does it: only an entry begins at the start of a line.
func TestText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := Default()
	log := o.New(&out)
	log.Info("said", "policy", hostile)
	log.Error(errors.New(hostile), "failed")
	if got := len(entry.FindAllString(out.String(), -1)); got != 2 {
		t.Errorf("%d entries:\n%s", got, out.String())
	}
	harmless(t, out.String())
}

func harmless(t *testing.T, text string) {
	t.Helper()
	if i := strings.IndexAny(text, "\x1b\u009b\r\x7f\u202e"); i >= 0 {
		t.Errorf("a terminal would obey %q", text[i:min(i+10, len(text))])
	}
}

func TestFailed(t *testing.T) {
	t.Parallel()
	var text, object bytes.Buffer
	(&Options{Format: Text}).Failed(&text, "webhook", errors.New("no \x1b[2Kcluster"))
	if want := "webhook: no \\x1b[2Kcluster\n"; text.String() != want {
		t.Errorf("got %q, want %q", text.String(), want)
	}
	(&Options{Format: JSON}).Failed(&object, "webhook", errors.New("no cluster"))
	var got struct{ Level, Msg, Err, Program string }
	if err := json.Unmarshal(object.Bytes(), &got); err != nil || got.Level != "error" || got.Msg != "ended" || got.Err != "no cluster" || got.Program != "webhook" {
		t.Errorf("got %s, %v", object.String(), err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]bool{Text: true, JSON: true, "": false, "JSON": false, "yaml": false} {
		if err := (&Options{Format: format}).Validate(); (err == nil) != want {
			t.Errorf("%q: %v", format, err)
		}
	}
}
