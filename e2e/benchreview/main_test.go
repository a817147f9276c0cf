package main

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

func TestParse(t *testing.T) {
	for args, wrong := range map[string]bool{"": false, "-sizes=1,2 -rounds=1": false, "-sizes=0": true, "-sizes=a": true, "-rounds=0": true} {
		if _, err := parse(strings.Fields(args)); (err != nil) != wrong {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestWrite(t *testing.T) {
	n, err := write(t.TempDir(), 250)
	if err != nil || n < 250*1000 {
		t.Errorf("%d bytes, %v", n, err)
	}
}
