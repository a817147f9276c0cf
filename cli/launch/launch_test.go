package launch

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/internal/program/version"
)

func TestRemark(t *testing.T) {
	for name, test := range map[string]struct {
		starter, own string
		remarks      bool
	}{
		"alike":              {"v1.2.3", "v1.2.3", false},
		"older":              {"v1.2.3", "v1.2.2", true},
		"newer":              {"v1.2.3", "v1.3.0", true},
		"started by itself":  {"", "v1.2.3", false},
		"by nobody knows":    {version.Unknown, "v1.2.3", false},
		"itself is unknown":  {"v1.2.3", version.Unknown, false},
		"a commit, a change": {"0123456789ab", "0123456789ab-dirty", true},
	} {
		by := By(func(key string) string {
			return map[string]string{"PODGRACE_COMMAND": "kubectl podgrace preview", "PODGRACE_VERSION": test.starter}[key]
		})
		remark := by.Remark(version.Info{Program: "podgrace-preview", Version: test.own})
		if (remark != "") != test.remarks || test.remarks && !strings.Contains(remark, "podgrace-preview is "+test.own+", and podgrace is "+test.starter+":") {
			t.Errorf("%s: %q", name, remark)
		}
		if by.Command != "kubectl podgrace preview" {
			t.Errorf("%s: started as %q", name, by.Command)
		}
	}
}
