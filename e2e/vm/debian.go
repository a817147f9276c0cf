package vm

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// DebianRoot returns the folder with the root file system of Debian's packages from which the guest's image is made, for
// other images of a node: to be copied, not changed. It is made once, in minutes.
func DebianRoot(ctx context.Context, progress io.Writer) (string, error) {
	b, err := newBuilder("", progress)
	if err != nil {
		return "", err
	}
	unlock, err := cluster.Lock(ctx, filepath.Join(b.cache, "vm.lock"), progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	base, err := b.base(ctx)
	if err != nil {
		return "", fmt.Errorf("making Debian's root file system: %w", err)
	}
	return filepath.Join(base, "root"), nil
}
