package preview

import (
	"fmt"
	"io"
	"slices"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/console"
	"github.com/podgrace/podgrace/preview/scheduler"
)

// Report is the previews of one question.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Scheduler is who was asked.
	Scheduler string `json:"scheduler"`
	// Previews in the order of the input.
	Previews []Preview `json:"previews"`
}

// NewReport tells previews.
func NewReport(previews []Preview) *Report {
	return &Report{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SchedulingPreview", Scheduler: scheduler.Version, Previews: previews}
}

// By is who was asked, in a sentence.
func (r *Report) By() string {
	return fmt.Sprintf("Judged by %s with its default profile. Nothing was written.", r.Scheduler)
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

var exitCodes = map[scheduler.Outcome]int{
	scheduler.Fits: ExitFits, scheduler.Preempts: ExitPreempts, scheduler.Nowhere: ExitNowhere, scheduler.Gated: ExitNowhere, Refused: ExitNowhere,
}
