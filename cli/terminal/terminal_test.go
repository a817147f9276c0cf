package terminal

import "testing"

func TestColored(t *testing.T) {
	for name, test := range map[string]struct {
		env      map[string]string
		terminal bool
		want     bool
	}{
		"terminal":             {nil, true, true},
		"pipe":                 {nil, false, false},
		"dumb terminal":        {map[string]string{"TERM": "dumb"}, true, false},
		"unwanted":             {map[string]string{"NO_COLOR": "1"}, true, false},
		"wanted in a pipe":     {map[string]string{"CLICOLOR_FORCE": "1"}, false, true},
		"not wanted in a pipe": {map[string]string{"CLICOLOR_FORCE": "0"}, false, false},
		"both":                 {map[string]string{"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, true, false},
	} {
		if got := colored(func(key string) string { return test.env[key] }, test.terminal); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
