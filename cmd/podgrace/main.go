// Command podgrace is Podgrace for a person's shell; under the name kubectl-podgrace it is "kubectl podgrace".
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Signals keep their meaning: Ctrl-C and SIGTERM end the program wherever it is. Nothing here needs an orderly end (files are
// replaced as a whole, what a cluster is asked for is one request), and a handler would only be heard between two reads: never
// where a terminal or a pipe is waited for.
func main() {
	os.Exit(command(context.Background(), newTerminal(), os.Args))
}

// errNo ends with exit code 1 and without a word: all was said.
var errNo = errors.New("no")

// errBadInput ends with exit code 2: what is wrong was said.
var errBadInput = errors.New("bad input")

// usageError is a command that can't be understood.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// command returns the exit code: 0, 1 where the answer is no or it failed, 2 where the input is bad.
func command(ctx context.Context, t terminal, args []string) int {
	name := programName(args[0])
	err := run(ctx, t, name, args)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNo):
		return 1
	case errors.Is(err, errBadInput):
		return 2
	case errors.As(err, &usage):
		for problem := range strings.SplitSeq(err.Error(), "\n") { // a line each, since they were joined
			fmt.Fprintf(t.Err, "%s: %s\n", name, problem)
		}
		return 2
	}
	fmt.Fprintf(t.Err, "%s: %v\n", name, err)
	return 1
}

// kubectlCompletes is the program that kubectl runs to complete the plugin's arguments.
const kubectlCompletes = "kubectl_complete-podgrace"

// programName is what the person typed.
func programName(path string) string {
	switch filepath.Base(path) {
	case "kubectl-podgrace", kubectlCompletes:
		return "kubectl podgrace"
	}
	return "podgrace"
}

func run(ctx context.Context, t terminal, name string, args []string) error {
	root := newRoot(t, name)
	root.SetArgs(args[1:])
	if filepath.Base(args[0]) == kubectlCompletes {
		root.SetArgs(append([]string{"__complete"}, args[1:]...))
	}
	return root.ExecuteContext(ctx)
}
