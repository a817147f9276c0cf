// Package report prints a review.Report: for people (text, a table, a page), for programs (JSON), and as CI systems and code hosts read it
// (SARIF, JUnit, workflow annotations, Markdown for a comment).
//
// Names, messages and values are chosen by whoever wrote the manifests. Each format escapes them by its own rules, after
// visible has taken out what steers a terminal or commands a CI system.
package report
