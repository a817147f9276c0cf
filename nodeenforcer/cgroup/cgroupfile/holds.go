package cgroupfile

import (
	"slices"
	"strings"
)

// Holds tells whether a file with these contents holds a value already. Spaces and newlines around both don't count. Of a file
// with a line for each device (io.weight: "default 100", then "8:0 200") it is enough that it has the lines of the value: what
// was said of other devices is somebody else's.
func Holds(contents, value string) bool {
	contents, value = strings.TrimSpace(contents), strings.TrimSpace(value)
	if contents == value {
		return true
	}
	if value == "" {
		return false
	}
	lines := strings.Split(contents, "\n")
	for line := range strings.SplitSeq(value, "\n") {
		if !slices.Contains(lines, line) {
			return false
		}
	}
	return true
}
