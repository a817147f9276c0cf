package review

import (
	"strings"
	"testing"
)

// What is split between two writes counts once.
func TestCounter(t *testing.T) {
	text := strings.Repeat(`{"decision": "Allowed"},`, 7)
	for size := 1; size <= len(text); size++ {
		var c counter
		for i := 0; i < len(text); i += size {
			_, _ = c.Write([]byte(text[i:min(i+size, len(text))]))
		}
		if c.results != 7 {
			t.Fatalf("in pieces of %d: %d results", size, c.results)
		}
	}
}
