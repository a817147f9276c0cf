package clustertest

import (
	"errors"
	"fmt"
	"testing"
)

// recorder is a testing.TB that notes how it was ended first; it does not end the goroutine, as a real one does.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.end("fatal: " + fmt.Sprintf(format, args...))
}

func (r *recorder) Skipf(format string, args ...any) { r.end("skip: " + fmt.Sprintf(format, args...)) }

func (r *recorder) end(how string) {
	if r.ended == "" {
		r.ended = how
	}
}

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
