package ratelimit_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/time/rate"

	"github.com/podgrace/podgrace/webhook/ratelimit"
)

// Each key has a limit of its own; the limits of many others are kept no longer than there is room for them.
func TestLimiters(t *testing.T) {
	l := ratelimit.New(rate.Limit(0), 2)
	for i, want := range []bool{true, true, false, false} {
		if got := l.Allow("loop"); got != want {
			t.Errorf("%d. of a key: %t, want %t", i+1, got, want)
		}
	}
	if !l.Allow("other") {
		t.Error("one key has used up another's limit")
	}
	for i := range 5000 {
		l.Allow(fmt.Sprint(i))
	}
	if !l.Allow("loop") {
		t.Error("a limit is kept for ever")
	}
}

// A key that a request made long takes no more memory than another one.
func TestLongKeys(t *testing.T) {
	l := ratelimit.New(rate.Limit(1), 1)
	used := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	for i := range 1000 {
		l.Allow(strings.Repeat("x", 256<<10) + fmt.Sprint(i))
	}
	if took := used() - before; took > 16<<20 && took < 1<<40 {
		t.Errorf("1000 keys of 256 KiB take %d MiB", took>>20)
	}
	runtime.KeepAlive(l)
}
