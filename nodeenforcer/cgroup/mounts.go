package cgroup

import (
	"path"
	"slices"
	"strings"
)

// hierarchies finds the v1 hierarchies mounted at or below mountpoint in the text of /proc/PID/mountinfo (proc(5)): by controller,
// where it is. Co-mounted controllers (cpu,cpuacct) share one. Hierarchies without a controller (name=systemd) are left out, and
// so is a unified hierarchy beside them.
func hierarchies(mountinfo, mountpoint string) map[string]hierarchy {
	found := map[string]hierarchy{}
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(kind) < 3 || kind[0] != "cgroup" {
			continue
		}
		at := unescape(mount[4])
		if at != path.Clean(mountpoint) && !strings.HasPrefix(at, path.Clean(mountpoint)+"/") {
			continue
		}
		for _, controller := range controllers(kind[2]) {
			found[controller] = hierarchy{at}
		}
	}
	return found
}

// controllers are those of a file system's options that name one.
func controllers(options string) []string {
	return slices.DeleteFunc(strings.Split(options, ","), func(option string) bool {
		return strings.Contains(option, "=") || slices.Contains([]string{"ro", "rw", "xattr", "clone_children", "noprefix", "none", "all"}, option)
	})
}

// unescape undoes the octal escapes of mountinfo.
func unescape(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}
