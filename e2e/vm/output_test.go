package vm

import (
	"strings"
	"testing"
)

func TestOutput(t *testing.T) {
	for _, test := range []struct {
		name, text, want string
		code             int
		exited           bool
	}{
		{"passed", "ok\n\npodgrace-guest-exit word 0\n", "ok\n\n", 0, true},
		{"failed, without a last newline", "oh\npodgrace-guest-exit word 2\n", "oh\n", 2, true},
		{"never ended", "ok\nand th", "ok\n", -1, false},
		{"another's marker is output", "podgrace-guest-exit guess 0\n", "podgrace-guest-exit guess 0\n", -1, false},
		{"nothing comes after the end", "podgrace-guest-exit word 1\nmore\npodgrace-guest-exit word 0\n", "", 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, size := range []int{1, 3, len(test.text)} {
				var got strings.Builder
				o := newOutput(&got, "word")
				for rest := test.text; rest != ""; rest = rest[min(size, len(rest)):] {
					if _, err := o.Write([]byte(rest[:min(size, len(rest))])); err != nil {
						t.Fatal(err)
					}
				}
				if got.String() != test.want || o.code != test.code || o.exited != test.exited {
					t.Errorf("by %d bytes: got %q, code %d, %t", size, got.String(), o.code, o.exited)
				}
			}
		})
	}
	o := newOutput(&strings.Builder{}, "word")
	if _, err := o.Write([]byte("podgrace-guest-exit word many\n")); err == nil {
		t.Error("a code that is no number was taken")
	}
}
