// Package agents runs Podgrace's ways to power machines off against what others wrote: Debian's fence-agents (ClusterLabs' fence_redfish, fence_ipmilan and fence_dummy)
// and a BMC that speaks IPMI (ipmi_sim of Debian's openipmi). The suite that all ways pass by themselves is in fencing/agents/agentstest.
package agents

import (
	"errors"
	"fmt"
	"os/exec"
)

// Supported reports whether this machine has the programs.
func Supported() error {
	var missing []error
	for _, p := range []struct{ program, debian string }{
		{"fence_redfish", "fence-agents"}, {"fence_ipmilan", "fence-agents"}, {"fence_dummy", "fence-agents"}, {"ipmi_sim", "openipmi"}, {"ipmitool", "ipmitool"},
	} {
		if _, err := exec.LookPath(p.program); err != nil {
			missing = append(missing, fmt.Errorf("no %s (Debian package %s): %w", p.program, p.debian, err))
		}
	}
	return errors.Join(missing...)
}
