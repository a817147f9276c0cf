// Package memory tells the garbage collector of the container's memory limit, for the programs that run in a cluster.
package memory

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
)

// Variable is the environment's for the memory limit of the container, which the manifests set (resourceFieldRef).
const Variable = "POD_MEMORY_LIMIT"

// Limit of the container, in bytes; 0: not known.
func Limit() (int64, error) {
	text := os.Getenv(Variable)
	if text == "" {
		return 0, nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit <= 0 {
		return 0, fmt.Errorf("%s: %q is no number of bytes", Variable, text)
	}
	return limit, nil
}

// Bound has the garbage collector work harder before the kernel ends the process: of what the API server sends most is garbage a moment later. Whoever sets GOMEMLIMIT decides by himself.
func Bound(limit int64) {
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 10 * 9) // the rest is for what is no heap
	}
}
