package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// The programs, as they call themselves.
const (
	Webhook      = "podgrace-webhook"
	NodeEnforcer = "podgrace-nodeenforcer"
	CommandLine  = "podgrace"
	Preview      = "podgrace-preview"
	Fencer       = "podgrace-fencer"
	VolumeLock   = "podgrace-volumelock"
)

// What the build gave: -ldflags "-X github.com/podgrace/podgrace/internal/program/version.linked=v1.2.3". A release also names its commit and that one's date (RFC 3339).
var linked, linkedCommit, linkedDate string

// Unknown is the version of a program that was built without one: by go run, or with -buildvcs=false.
const Unknown = "unknown"

// Info is what a program says of itself.
type Info struct {
	// Program is its name.
	Program string
	// Version is a tag, what git describe or Go makes of a commit, or "unknown".
	Version string
	// Commit is what it was built from and Date when that was committed, as RFC 3339; empty where nobody wrote them into the program.
	Commit, Date string
	// Go is the version of the toolchain, Platform GOOS/GOARCH.
	Go, Platform string
}

// Of is what a program has to say.
func Of(program string) Info {
	build, _ := debug.ReadBuildInfo() // nil in a program that was built without modules
	commit, date := linkedCommit, linkedDate
	if commit == "" && build != nil {
		s := settings(build)
		commit, date = s["vcs.revision"], s["vcs.time"]
	}
	return Info{
		Program: program, Version: choose(linked, build), Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// settings are those of a build by their keys.
func settings(build *debug.BuildInfo) map[string]string {
	settings := map[string]string{}
	for _, s := range build.Settings {
		settings[s.Key] = s.Value
	}
	return settings
}

// choose takes the version that was linked, else that of the module, which Go makes of the tag or the commit, else the commit.
func choose(linked string, build *debug.BuildInfo) string {
	if linked != "" || build == nil {
		return cmp.Or(linked, Unknown)
	}
	if v := build.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	of := settings(build)
	commit := of["vcs.revision"]
	commit = commit[:min(len(commit), 12)] // as long as in a pseudo-version
	if commit != "" && of["vcs.modified"] == "true" {
		commit += "-dirty"
	}
	return cmp.Or(commit, Unknown)
}

// String is the line that --version prints.
func (i Info) String() string {
	if i.Commit != "" {
		return fmt.Sprintf("%s %s (commit %s of %s, %s, %s)", i.Program, i.Version, i.Commit, cmp.Or(i.Date, Unknown), i.Go, i.Platform)
	}
	return fmt.Sprintf("%s %s (%s, %s)", i.Program, i.Version, i.Go, i.Platform)
}

// UserAgent is for requests to the API server, whose audit log has it. What stands before the slash is also the field manager of a
// write that names none (k8s.io/apiserver pkg/endpoints/handlers/create.go, managerOrUserAgent, 0.36.3).
func (i Info) UserAgent() string {
	return fmt.Sprintf("%s/%s (%s)", i.Program, i.Version, i.Platform)
}

// Pairs are keys and values for the first line of a log.
func (i Info) Pairs() []any {
	return []any{"program", i.Program, "version", i.Version, "go", i.Go, "platform", i.Platform}
}
