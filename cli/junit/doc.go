// Package junit writes JUnit XML as Jenkins' xunit plugin admits it (junit-10.xsd), the strictest of the usual readers: it has no
// attribute for file and line of a test case, so that these belong into its text.
package junit
