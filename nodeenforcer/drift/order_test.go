package drift

import "testing"

func TestDependsOn(t *testing.T) {
	op := func(step Step, path, file string) Operation {
		return Operation{Where: Where{Path: path}, File: file, Step: step}
	}
	for name, tc := range map[string]struct {
		op, failed Operation
		want       bool
	}{
		"raised below":                    {op(Widen, "/k/b/p", "memory.min"), op(Widen, "/k", "memory.min"), true},
		"another promise below":           {op(Widen, "/k/b", "memory.max"), op(Widen, "/k", "memory.min"), false},
		"another controller's":            {op(Widen, "/k/b", "pids.max"), op(Widen, "/k", "memory.max"), false},
		"raised beside":                   {op(Widen, "/k/bb", "memory.max"), op(Widen, "/k/b", "memory.max"), false},
		"lowered above":                   {op(Narrow, "/k", "memory.max"), op(Narrow, "/k/b/p", "memory.max"), true},
		"lowered beside":                  {op(Narrow, "/k/b/p2", "memory.max"), op(Narrow, "/k/b/p", "memory.max"), false},
		"another promise above":           {op(Narrow, "/k", "memory.low"), op(Narrow, "/k/b", "memory.max"), false},
		"lowered below a set that is not": {op(Narrow, "/k/b", "cpuset.cpus"), op(Widen, "/k", "cpuset.cpus"), true},
		"quota and period are one":        {op(Widen, "/k/b", "cpu.cfs_quota_us"), op(Widen, "/k/b", "cpu.cfs_period_us"), true},
		"quota below a period":            {op(Widen, "/k/b/p", "cpu.cfs_quota_us"), op(Widen, "/k/b", "cpu.cfs_period_us"), true},
		"the same group's":                {op(Widen, "/k", "memory.min"), op(Widen, "/k", "memory.max"), true},
		"the same group's of another":     {op(Widen, "/k", "pids.max"), op(Widen, "/k", "memory.max"), false},
		"a weight below":                  {op(Widen, "/k/b", "cpu.weight"), op(Widen, "/k", "cpu.weight"), false},
		"a weight beside a limit":         {op(Widen, "/k", "cpu.weight"), op(Widen, "/k", "cpu.max"), false},
		"a limit beside a weight":         {op(Widen, "/k", "cpu.max"), op(Widen, "/k", "cpu.weight"), false},
		"the same weight again":           {op(Widen, "/k", "cpu.weight"), op(Widen, "/k", "cpu.weight"), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.op.DependsOn(tc.failed); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
