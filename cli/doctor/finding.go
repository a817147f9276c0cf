package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Severity of a finding.
type Severity string

// The severities, the worst first.
const (
	// Error: something does not work, or will not.
	Error Severity = "error"
	// Warning: it works, but not as meant, or not when it matters.
	Warning Severity = "warning"
	// Note is worth knowing, or is to be set when installing.
	Note Severity = "note"
)

// Severities are all of them, the worst first.
func Severities() []Severity { return []Severity{Error, Warning, Note} }

// Finding is what a check has found.
type Finding struct {
	// Check is the check's id, which stays the same.
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// About is the object or the part of the cluster.
	About string `json:"about"`
	// Message says what would not work, and why.
	Message string `json:"message"`
	// Remedy says what to do; empty: nothing, or what Values and Commands say.
	Remedy string `json:"remedy,omitempty"`
	// Values of the chart, as --set takes them.
	Values []string `json:"values,omitempty"`
	// StringValues are values of the chart that are texts, though they look like something else, as --set-string takes them.
	StringValues []string `json:"stringValues,omitempty"`
	// Actors are users to be named in allowedActors of policies.
	Actors []string `json:"actors,omitempty"`
	// Commands to type.
	Commands []string `json:"commands,omitempty"`
}

// flags are Values and StringValues as helm takes them, for a shell.
func (f Finding) flags() (flags []string) {
	for _, v := range f.Values {
		flags = append(flags, "--set "+v)
	}
	for _, v := range f.StringValues {
		flags = append(flags, "--set-string '"+v+"'") // a backslash keeps a dot
	}
	return flags
}

// NotLooked is a check that could not look.
type NotLooked struct {
	Check string `json:"check"`
	// Source that could not be read, and why.
	Source Source `json:"source"`
	Why    string `json:"why"`
}

// sorted orders findings: the most severe first, those of a severity as their checks ran, and those of a check by what they are about.
func sorted(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(slices.Index(Severities(), a.Severity)-slices.Index(Severities(), b.Severity), order(a.Check)-order(b.Check), strings.Compare(a.About, b.About))
	})
	return all
}

// remark is a finding that may be true of several objects.
type remark struct {
	severity        Severity
	message, remedy string
}

// sortedRemarks are the keys, in the order of their messages.
func sortedRemarks(said map[remark][]string) []remark {
	return slices.SortedFunc(maps.Keys(said), func(a, b remark) int { return strings.Compare(a.message, b.message) })
}
