package podgrace

import (
	"context"
	"strings"

	"github.com/podgrace/podgrace/e2e/cluster"
)

const volumeLockUser = "system:serviceaccount:podgrace-system:podgrace-volumelock"

// VolumeLock is a running volume lock.
type VolumeLock = Replica

// AllowVolumeLock gives the volume lock's service account its rights, and keeps all others from writing VolumeLocks, as deploy has both.
func AllowVolumeLock(ctx context.Context, c *cluster.Cluster) error {
	return applyOfComponent(ctx, c, "volumelock", "rbac.yaml", "policies.yaml")
}

// BuildVolumeLock compiles the volume lock into a folder and returns the program's path.
func BuildVolumeLock(ctx context.Context, dir string) (string, error) {
	return build(ctx, dir, "volumelock")
}

// VolumeLockKubeconfig writes a kubeconfig of the volume lock's service account, and returns its path.
func VolumeLockKubeconfig(c *cluster.Cluster) (string, error) {
	return c.KubeconfigFor(volumeLockUser, enforcerGroups...)
}

// StartVolumeLock starts one replica on this machine, which reaches the API server by a kubeconfig and attaches volumes of some CSI drivers, and returns when it is ready. It may not lead yet.
func StartVolumeLock(ctx context.Context, c *cluster.Cluster, program, kubeconfig string, drivers []string, args ...string) (*VolumeLock, error) {
	return startReplica(ctx, c, "volumelock", program, kubeconfig, append([]string{"--drivers", strings.Join(drivers, ",")}, args...)...)
}
