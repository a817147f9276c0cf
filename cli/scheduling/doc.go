// Package scheduling has the report of podgrace-preview: its types (preview.go), and how it is printed as text, JSON and a page (text.go, report.go, page.go). Reviews and explanations read it, and tell it in a
// sentence or two (says.go). The code of Kubernetes' scheduler is in the module preview alone.
package scheduling
