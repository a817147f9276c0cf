package report

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
)

// The part of the reports API that a review needs: Report of openreports.io/v1alpha1 (github.com/openreports/reports-api
// apis/openreports.io/v1alpha1), and PolicyReport of wgpolicyk8s.io/v1alpha2, which it came from and which has the same fields.

type clusterReport struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        reportMetadata `json:"metadata"`
	Summary         reportSummary  `json:"summary"`
	Results         []reportResult `json:"results"`
}

type reportMetadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels"`
}

type reportSummary struct {
	Pass  int `json:"pass"`
	Fail  int `json:"fail"`
	Warn  int `json:"warn"`
	Error int `json:"error"`
	Skip  int `json:"skip"`
}

type reportResult struct {
	Source     string                   `json:"source"`
	Policy     string                   `json:"policy"`
	Rule       string                   `json:"rule"`
	Severity   string                   `json:"severity,omitempty"`
	Result     string                   `json:"result"`
	Scored     bool                     `json:"scored"`
	Resources  []corev1.ObjectReference `json:"resources,omitempty"`
	Message    string                   `json:"message,omitempty"`
	Properties map[string]string        `json:"properties,omitempty"`
}

// reportKinds are the names of one of the two APIs.
type reportKinds struct{ apiVersion, namespaced, cluster string }

var (
	openReports   = reportKinds{"openreports.io/v1alpha1", "Report", "ClusterReport"}
	policyReports = reportKinds{"wgpolicyk8s.io/v1alpha2", "PolicyReport", "ClusterPolicyReport"}
)

// reporter is what the reports are by, as their readers filter them.
const reporter = "podgrace"

// The results that a report may have.
const (
	resultPass  = "pass"
	resultFail  = "fail"
	resultWarn  = "warn"
	resultError = "error"
)

// write prints a List, for kubectl apply, with a report for each namespace, and one for what is in none.
func (k reportKinds) write(w io.Writer, r *review.Report, _ Options) error {
	reports := map[string]*clusterReport{}
	add := func(namespace string, results ...reportResult) {
		if reports[namespace] == nil {
			reports[namespace] = k.report(namespace)
		}
		reports[namespace].add(results)
	}
	for i := range r.Results {
		add(r.Results[i].Resource.Namespace, reportResults(&r.Results[i])...)
	}
	for _, e := range r.Errors {
		add("", reportResult{
			Source: reporter, Policy: reporter, Rule: "BadInput", Severity: "medium", Result: resultError, Message: console.OneLine(e.Message),
			Properties: sourceProperties(errorSource(e)),
		})
	}
	list := struct {
		metav1.TypeMeta `json:",inline"`
		Items           []*clusterReport `json:"items"`
	}{metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, []*clusterReport{}}
	for _, namespace := range slices.Sorted(maps.Keys(reports)) {
		list.Items = append(list.Items, reports[namespace])
	}
	return console.EncodeJSON(w, list)
}

func (k reportKinds) report(namespace string) *clusterReport {
	kind := k.namespaced
	if namespace == "" {
		kind = k.cluster
	}
	return &clusterReport{
		TypeMeta: metav1.TypeMeta{APIVersion: k.apiVersion, Kind: kind},
		Metadata: reportMetadata{Name: "podgrace-review", Namespace: console.Visible(namespace), Labels: map[string]string{"app.kubernetes.io/managed-by": reporter}},
		Results:  []reportResult{},
	}
}

func (c *clusterReport) add(results []reportResult) {
	for _, r := range results {
		switch r.Result {
		case resultPass:
			c.Summary.Pass++
		case resultFail:
			c.Summary.Fail++
		case resultWarn:
			c.Summary.Warn++
		case resultError:
			c.Summary.Error++
		}
	}
	c.Results = append(c.Results, results...)
}

// reportResults are what somebody has to look at, each by itself; where there is nothing, that all policies are met.
func reportResults(r *review.Result) []reportResult {
	var all []reportResult
	for _, f := range alerts(r) {
		one := reportOf(r, f.rule, f.text)
		switch f.level {
		case levelError:
			one.Result, one.Severity = resultFail, "high"
		case levelWarning:
			one.Result, one.Severity = resultWarn, "medium"
		default: // the policies could not be evaluated with all that matters
			one.Result, one.Severity = resultError, "info"
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		one := reportOf(r, "Allowed", "")
		one.Result = resultPass
		if len(r.Patch) > 0 {
			one.Rule, one.Message = ruleChanged, console.Clip("changes "+inShort(r), maxMessage)
		}
		all = append(all, one)
	}
	return all
}

func reportOf(r *review.Result, rule, text string) reportResult {
	policies := make([]string, len(r.Policies))
	for i, p := range r.Policies {
		policies[i] = console.Visible(p)
	}
	properties := sourceProperties(r.Source)
	properties["operation"] = console.Visible(r.Operation)
	if r.User != "" {
		properties["user"] = console.Visible(r.User)
	}
	return reportResult{
		Source: reporter, Policy: cmp.Or(strings.Join(policies, ","), reporter), Rule: console.Visible(rule), Scored: true, Message: console.Clip(text, maxMessage), Properties: properties,
		Resources: []corev1.ObjectReference{{
			APIVersion: console.Visible(r.Resource.APIVersion), Kind: console.Visible(r.Resource.Kind), Namespace: console.Visible(r.Resource.Namespace), Name: console.Visible(r.Resource.Name),
		}},
	}
}

func sourceProperties(at manifest.Source) map[string]string {
	properties := map[string]string{"file": where(at.File, 0)}
	if at.Line > 0 {
		properties["line"] = strconv.Itoa(at.Line)
	}
	return properties
}
