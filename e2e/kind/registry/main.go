// Command registry is an image registry that keeps what is pushed to it in memory, for a cluster that can't reach one. It listens where the image registry:3 of
// docs/first-day.md does, which can't be pulled here.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	server := &http.Server{Addr: ":5000", Handler: registry.New(registry.Logger(log.New(os.Stderr, "", 0))), ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServe(); err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		os.Exit(1)
	}
}
