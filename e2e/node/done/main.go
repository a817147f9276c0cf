// Command done is a workload that ends at once: with the number of its arguments as exit code.
package main

import "os"

func main() { os.Exit(len(os.Args) - 1) }
