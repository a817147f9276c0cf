package plan

import (
	"strings"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// DependsOn says whether an operation must not be done because an earlier one in their order could not be: else a group would have
// more than one above it, which neither was so before nor is planned. A limit or protection that was not raised holds back the same
// one of every group below; one that was not lowered, that of every group above. Within one group nothing more is done to the limits
// and protections of that controller: memory.min is not to be above memory.max. Weights promise nothing.
func (o Operation) DependsOn(failed Operation) bool {
	same := keyOf(o.File) == keyOf(failed.File)
	switch {
	case o.Path == failed.Path && same:
		return true
	case !promises(o.File) || !promises(failed.File):
		return false
	case o.Path == failed.Path:
		return controllerOf(o.File) == controllerOf(failed.File)
	case failed.Step == Narrow:
		return same && o.Step == Narrow && strings.HasPrefix(failed.Path, o.Path+"/")
	}
	return same && strings.HasPrefix(o.Path, failed.Path+"/")
}

func promises(file string) bool { return cgroupfile.KindOf(file, 1).Role != cgroupfile.RoleNone }

func controllerOf(file string) string {
	controller, _, _ := strings.Cut(file, ".")
	return controller
}
