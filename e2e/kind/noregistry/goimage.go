package noregistry

import (
	"context"
	"path/filepath"
	"runtime"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// Go returns a base image for the Dockerfile, made of this machine's Go and the node image's Debian. It is made where the daemon does not
// have it.
func (m Maker) Go(ctx context.Context) (reference string, err error) {
	reference = "localhost/podgrace/go:" + runtime.Version()
	if m.Docker.HasImage(ctx, reference) {
		return reference, nil
	}
	goroot, err := cluster.Run(ctx, "go", "env", "GOROOT")
	if err != nil {
		return "", err
	}
	name := filepath.Base(goroot)
	return reference, m.Docker.ImportArchive(ctx, reference, []string{"ENV PATH=/usr/local/go/bin:/usr/bin:/bin", "ENV GOTOOLCHAIN=local"},
		"--exclude="+name+"/test", "--transform=s,^"+name+"/,usr/local/go/,S",
		"--directory="+m.Debian, ".", "--directory=/", "etc/ssl/certs/ca-certificates.crt", "--directory="+filepath.Dir(goroot), name)
}
