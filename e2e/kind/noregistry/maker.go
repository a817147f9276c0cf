package noregistry

import "context"

// Maker makes images.
type Maker struct {
	Docker Docker
	// Dir is the run's own folder; Debian has Debian's root file system, Programs Kubernetes' programs, and Kind is the source of kind's
	// module.
	Dir, Debian, Programs, Kind string
	// Logf notes a step.
	Logf func(format string, args ...any)
}

// Docker is a daemon.
type Docker interface {
	// HasImage reports whether the daemon has an image.
	HasImage(ctx context.Context, reference string) bool
	// ImportArchive makes an image of what tar archives, with instructions of a Dockerfile.
	ImportArchive(ctx context.Context, reference string, instructions []string, tarArgs ...string) error
	// Run runs a docker command and returns its output.
	Run(ctx context.Context, args ...string) (string, error)
}
