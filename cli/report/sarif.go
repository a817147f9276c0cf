package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
)

// The levels of SARIF that are used here.
const (
	levelError   = "error"
	levelWarning = "warning"
	levelNote    = "note"
)

// finding is one thing that is said of a result, as SARIF and annotations have it.
type finding struct {
	rule, level, text string
}

// findings of a result: its refusal, each warning, that its pod would be pending, what is not known, and what changes.
func findings(r *review.Result) []finding {
	var all []finding
	rule := r.Reason
	if r.Decision == review.Denied {
		all = append(all, finding{cmp.Or(rule, ruleDenied), levelError, console.OneLine(cmp.Or(r.Message, noMessage))})
		rule = "" // the refusal's, and not the warnings'
	}
	for _, w := range r.Warnings {
		all = append(all, finding{cmp.Or(rule, ruleWarning), levelWarning, console.OneLine(w)})
	}
	if r.Pending != nil {
		all = append(all, finding{r.Pending.Reason, levelWarning, console.OneLine(r.Pending.Message)})
	}
	if len(r.Unknown) > 0 {
		all = append(all, finding{ruleUnknown, levelNote, "Not known: " + console.OneLine(strings.Join(r.Unknown, "; "))})
	}
	if len(r.Patch) > 0 {
		sentences := make([]string, len(r.Patch))
		for i, o := range r.Patch {
			sentences[i] = sentence(r, o)
		}
		all = append(all, finding{ruleChanged, levelNote, "Changed: " + strings.Join(sentences, "; ")})
	}
	return all
}

// alerts are the findings that somebody has to look at. That a pod changes is what policies are for, and no alert.
func alerts(r *review.Result) []finding {
	return slices.DeleteFunc(findings(r), func(f finding) bool { return f.rule == ruleChanged })
}

// writeSARIF has a rule for each reason that occurs, and a result for each alert. What is wrong in the input is a notification
// of an invocation that did not succeed.
func writeSARIF(w io.Writer, r *review.Report, o Options) error {
	s := sarifRun{Results: []sarifResult{}, Invocations: []sarifInvocation{{Successful: len(r.Errors) == 0, Notifications: []sarifNotification{}}}}
	index, seen := map[string]int{}, map[string]int{}
	s.Tool.Driver = sarifDriver{Name: "podgrace", Version: o.Version, InformationURI: "https://github.com/podgrace/podgrace"}
	s.Tool.Driver.Rules = sarifRules(r, index)
	for i := range r.Results {
		result := &r.Results[i]
		at := sarifLocationOf(result.Source, o)
		at.Logical = []sarifLogical{{Name: console.Visible(result.Resource.String()), Kind: "resource"}}
		for _, f := range alerts(result) {
			s.Results = append(s.Results, sarifResult{
				RuleID: console.Visible(f.rule), RuleIndex: index[f.rule], Level: f.level,
				Message:      sarifMessage{subject(result) + ": " + f.text},
				Locations:    []sarifLocation{at},
				Fingerprints: map[string]string{"podgrace/v1": fingerprint(result, f, at.Physical.Artifact.URI, seen)},
			})
		}
	}
	for _, e := range r.Errors {
		s.Invocations[0].Notifications = append(s.Invocations[0].Notifications, sarifNotification{
			Level: levelError, Message: sarifMessage{console.OneLine(e.Message)}, Locations: []sarifLocation{sarifLocationOf(errorSource(e), o)},
		})
	}
	for _, remark := range Remarks(r) {
		s.Invocations[0].Notifications = append(s.Invocations[0].Notifications, sarifNotification{Level: levelNote, Message: sarifMessage{remark}, Locations: []sarifLocation{}})
	}
	if r.Summary.NoPolicies {
		s.Invocations[0].Notifications = append(s.Invocations[0].Notifications, sarifNotification{Level: levelWarning, Message: sarifMessage{noPolicies}, Locations: []sarifLocation{}})
	}
	if r.Summary.NoNodes {
		s.Invocations[0].Notifications = append(s.Invocations[0].Notifications, sarifNotification{Level: levelWarning, Message: sarifMessage{noNodes}, Locations: []sarifLocation{}})
	}
	return console.EncodeJSON(w, sarifLog{Schema: sarifSchema, Version: "2.1.0", Runs: []sarifRun{s}})
}

// sarifRules are those that occur, by name, and index where each is. A rule's level is the worst that it occurs with.
func sarifRules(r *review.Report, index map[string]int) []sarifRule {
	levels := map[string]string{}
	for i := range r.Results {
		for _, f := range alerts(&r.Results[i]) {
			if levels[f.rule] != levelError {
				levels[f.rule] = f.level
			}
		}
	}
	list := []sarifRule{}
	for _, id := range slices.Sorted(maps.Keys(levels)) {
		index[id] = len(list)
		list = append(list, sarifRule{
			ID: console.Visible(id), ShortDescription: sarifMessage{console.Visible(ruleNamed(id).Short)}, Help: sarifMessage{ruleNamed(id).Help},
			Default: sarifConfiguration{levels[id]},
		})
	}
	return list
}

func sarifLocationOf(at manifest.Source, o Options) sarifLocation {
	l := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{URI: uri(at.File, o)}}}
	if at.Line > 0 {
		l.Physical.Region = &sarifRegion{at.Line}
	}
	return l
}

// uri is relative to the working directory where the file is below it.
func uri(file string, o Options) string {
	if file == "-" {
		return stdin
	}
	u := url.URL{Path: relative(file, o.Dir)}
	if path.IsAbs(u.Path) {
		u.Scheme = "file"
	}
	return u.String()
}

// digits in a message may be a time of day, an age, or what a policy was edited to.
var digits = regexp.MustCompile(`[0-9]+`)

// fingerprint tells findings apart, and is the same when lines move and as time goes by. Alike ones are numbered in their order.
func fingerprint(r *review.Result, f finding, uri string, seen map[string]int) string {
	text := ""
	if f.level == levelWarning { // a result has several of one rule
		text = digits.ReplaceAllString(f.text, "0")
	}
	parts := []string{f.rule, uri, r.Resource.Kind, r.Resource.Namespace, r.Resource.Name, r.Operation, r.User, text}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	id := hex.EncodeToString(sum[:16])
	seen[id]++
	return fmt.Sprintf("%s:%d", id, seen[id])
}

// ofLevel are findings of one level, with the results that they are of.
func ofLevel(r *review.Report, level string) []located {
	var list []located
	for i := range r.Results {
		for _, f := range findings(&r.Results[i]) {
			if f.level == level {
				list = append(list, located{f, subject(&r.Results[i]), r.Results[i].Source})
			}
		}
	}
	return slices.Clip(list)
}

// located is a finding and where it is.
type located struct {
	finding
	subject string
	at      manifest.Source
}

// The part of SARIF 2.1.0 that a review needs (OASIS, sarif-schema-2.1.0.json, which the test holds it against).

// sarifSchema is the identity of that schema.
const sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool        sarifTool         `json:"tool"`
	Invocations []sarifInvocation `json:"invocations"`
	Results     []sarifResult     `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"version,omitempty"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID               string             `json:"id"`
	ShortDescription sarifMessage       `json:"shortDescription"`
	Help             sarifMessage       `json:"help"`
	Default          sarifConfiguration `json:"defaultConfiguration"`
}

type sarifConfiguration struct {
	Level string `json:"level"`
}

type sarifMessage struct {
	Text string `json:"text"`
}

type sarifInvocation struct {
	// Successful: all of the input could be read.
	Successful    bool                `json:"executionSuccessful"`
	Notifications []sarifNotification `json:"toolExecutionNotifications"`
}

type sarifNotification struct {
	Level     string          `json:"level"`
	Message   sarifMessage    `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifMessage    `json:"message"`
	Locations []sarifLocation `json:"locations"`
	// Fingerprints are the same for the same finding when lines move.
	Fingerprints map[string]string `json:"partialFingerprints"`
}

type sarifLocation struct {
	Physical sarifPhysical  `json:"physicalLocation"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine int `json:"startLine"`
}

type sarifLogical struct {
	Name string `json:"fullyQualifiedName"`
	Kind string `json:"kind"`
}
