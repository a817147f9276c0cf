package kind

import (
	"context"
	"fmt"
	"os"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// modulePath is the repository's module.
const modulePath = "github.com/podgrace/podgrace"

// ExportWorkTree copies the repository as it is now, with what is not committed yet.
func ExportWorkTree(ctx context.Context, dir string) error {
	return export(ctx, dir, `git ls-files -z --cached --others --exclude-standard --deduplicate | tar --create --null --ignore-failed-read --files-from=-`)
}

// ExportCommit copies the repository as a commit has it.
func ExportCommit(ctx context.Context, commit, dir string) error {
	return export(ctx, dir, `git archive "$COMMIT"`, "COMMIT="+commit)
}

// export fills dir from a command that writes an archive.
func export(ctx context.Context, dir, archive string, env ...string) error {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a folder for sources: %w", err)
	}
	shell := cluster.Command{Dir: root, Env: append(env, "DIR="+dir)}
	if _, err := shell.Run(ctx, "bash", "-o", "pipefail", "-c", archive+` | tar --extract --directory="$DIR"`); err != nil {
		return fmt.Errorf("exporting the repository: %w", err)
	}
	return nil
}

// PreviousCommit is the version to upgrade from, by its hash: PODGRACE_UPGRADE_FROM, else the last commit where the work tree has
// changes or the clone has no other, else the one before.
func PreviousCommit(ctx context.Context) (string, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return "", err
	}
	git := cluster.Command{Dir: root}
	named := os.Getenv("PODGRACE_UPGRADE_FROM")
	if named == "" {
		changes, err := git.Run(ctx, "git", "status", "--porcelain")
		if err != nil {
			return "", err
		}
		named = "HEAD"
		if _, err := git.Run(ctx, "git", "rev-parse", "--verify", "--quiet", "HEAD~1^{commit}"); err == nil && changes == "" {
			named = "HEAD~1" // a shallow clone may have one commit only
		}
	}
	return git.Run(ctx, "git", "rev-parse", "--verify", "--short", named+"^{commit}")
}
