package clustertest

import (
	"errors"
	"fmt"
	"testing"
)

// recorder is a testing.TB that notes how it was ended.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper()                           {}
func (r *recorder) Fatalf(format string, args ...any) { r.ended = "fatal: " + fmt.Sprintf(format, args...) }
func (r *recorder) Skipf(format string, args ...any)  { r.ended = "skip: " + fmt.Sprintf(format, args...) }

func TestRequire(t *testing.T) {
	reason := errors.New("not root")
	tests := []struct {
		name, all string
		err       error
		want      string
	}{
		{"fit", "1", nil, ""},
		{"unfit", "", reason, "skip: the node tier cannot run here: not root"},
		{"unfit where all must run", "1", reason, "fatal: REQUIRE_ALL=1, but the node tier cannot run here: not root"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("REQUIRE_ALL", test.all)
			r := &recorder{}
			Require(r, "node", test.err)
			if r.ended != test.want {
				t.Errorf("got %q", r.ended)
			}
		})
	}
}
