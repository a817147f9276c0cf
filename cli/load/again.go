package load

import (
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/program/version"
)

// Again are the flags with which another program that has these options reads the same policies and state: those that were set, but for the manifests (-f), which may
// have come from stdin.
func (o *Options) Again(f *pflag.FlagSet) []string {
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	New(version.CommandLine).AddFlags(known)
	var args []string
	f.Visit(func(flag *pflag.Flag) {
		if flag.Name == "filename" || known.Lookup(flag.Name) == nil {
			return
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			args = append(args, "--"+flag.Name+"="+value)
		}
	})
	return args
}

// ReadOnce are the paths of --policy and --state that can't be read a second time.
func (o *Options) ReadOnce() []string {
	return slices.DeleteFunc(slices.Concat(o.Policies, o.State), func(path string) bool { return !readOnce(path) })
}

// readOnce reports whether a path is stdin, or a pipe as a shell makes it of <(COMMAND).
func readOnce(path string) bool {
	if path == manifest.Stdin {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode()&fs.ModeNamedPipe != 0
}
