// Package schema holds what we ship and what we print against JSON Schemas: the examples against our own, the reports of a review against OASIS' schema of SARIF and the
// CustomResourceDefinition of OpenReports.
package schema
