package cgroupfile

import "testing"

func TestHolds(t *testing.T) {
	for _, test := range []struct {
		name, contents, value string
		want                  bool
	}{
		{"the same", "100\n", "100", true},
		{"spaces don't count", "max 100000\n", " max 100000\n", true},
		{"another", "100\n", "10", false},
		{"empty, as a cpuset may be", "\n", "", true},
		{"nothing wanted", "0-3\n", "", false},
		{"the line for all devices", "default 100\n8:0 200\n", "default 100", true},
		{"another one for all devices", "default 100\n8:0 200\n", "default 200", false},
		{"one device's line", "default 100\n8:0 200\n", "8:0 200", true},
		{"two lines", "8:0 rbps=1 wbps=max\n8:16 rbps=2 wbps=max\n", "8:16 rbps=2 wbps=max\n8:0 rbps=1 wbps=max", true},
		{"a part of a line", "8:0 rbps=1 wbps=max\n", "8:0 rbps=1", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Holds(test.contents, test.value); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
