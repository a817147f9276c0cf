package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// Limits of e2e/quarantine.txt, so that it stays an exception.
const (
	maxQuarantined = 3
	quarantineDays = 14
)

// readQuarantine reads the tests whose failure is reported and does not fail a run: a line is DATE PACKAGE TEST CAUSE, with a
// date as 2026-11-28, the package's folder in the repository, a top-level test, and the cause as far as it is known. Empty lines and
// lines with # are comments. It returns an error for more than three lines, and for a date that is older than 14 days.
func readQuarantine(file string, now time.Time) (map[testKey]string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tests := map[testKey]string{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(line, " ", 4)
		if len(fields) < 4 || strings.TrimSpace(fields[3]) == "" {
			return nil, fmt.Errorf("%s:%d: a line must be DATE PACKAGE TEST CAUSE", file, n)
		}
		date, err := time.Parse(time.DateOnly, fields[0])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: invalid date: %w", file, n, err)
		}
		if age := now.Sub(date); age > (quarantineDays+1)*24*time.Hour || age < -24*time.Hour {
			return nil, fmt.Errorf("%s:%d: %s must be at most %d days ago: find the cause of %s", file, n, fields[0], quarantineDays, fields[2])
		}
		tests[testKey{modulePath + "/" + fields[1], fields[2]}] = fields[3]
	}
	if len(tests) > maxQuarantined {
		return nil, fmt.Errorf("%s: has %d tests, at most %d are allowed", file, len(tests), maxQuarantined)
	}
	return tests, nil
}
