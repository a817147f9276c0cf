package scheduling

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
)

// Kind of a report of previews.
const Kind = "SchedulingPreview"

// Report is the previews of one question.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Scheduler is who was asked.
	Scheduler string `json:"scheduler"`
	// Config is the file of the scheduler's configuration; empty: it is the default one.
	Config string `json:"config,omitempty"`
	// Remark is how much the cluster's scheduler may differ from it; empty: it is of the same release.
	Remark string `json:"remark,omitempty"`
	// Previews in the order of the input.
	Previews []Preview `json:"previews"`
}

// NewReport returns a report on previews by a scheduler, with a remark on how much it may differ from the cluster's.
func NewReport(scheduler, remark string, previews []Preview) *Report {
	return &Report{APIVersion: v1alpha1.GroupVersion.String(), Kind: Kind, Scheduler: scheduler, Remark: remark, Previews: previews}
}

// By is who was asked, in a sentence.
func (r *Report) By() string {
	with := "its default profile"
	if r.Config != "" {
		with = "the configuration of " + r.Config
	}
	return strings.TrimRight(fmt.Sprintf("Judged by %s with %s. Nothing was written. %s", r.Scheduler, with, r.Remark), " ")
}

// JSON prints the report for programs.
func JSON(w io.Writer, r *Report) error {
	if err := console.EncodeJSON(w, r); err != nil {
		return fmt.Errorf("print the preview: %w", err)
	}
	return nil
}

// The exit codes of a preview.
const (
	ExitFits     = 0
	ExitBadInput = 2
	ExitPreempts = 3
	ExitNowhere  = 4
)

// ExitCode is that of the pod that is worst off.
func (r *Report) ExitCode() int {
	code := ExitFits
	for _, p := range r.Previews {
		code = max(code, exitCodes[p.Outcome])
		if r := p.Rollout; r != nil && (r.First.Pending > 0 || r.Second != nil && r.Second.Pending > 0) {
			code = ExitNowhere
		}
	}
	if code != ExitNowhere && slices.ContainsFunc(r.Previews, func(p Preview) bool { return p.Outcome == NotKnown }) {
		return ExitBadInput
	}
	return code
}

var exitCodes = map[Outcome]int{
	Fits: ExitFits, Preempts: ExitPreempts, Nowhere: ExitNowhere, Gated: ExitNowhere, Refused: ExitNowhere,
}
