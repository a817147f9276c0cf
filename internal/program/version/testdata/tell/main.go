// Command tell says its version, for a test of how it is linked.
package main

import (
	"fmt"

	"github.com/podgrace/podgrace/internal/program/version"
)

func main() { fmt.Println(version.Of("tell").Version) }
