// Package console writes what a person reads in a terminal: rows with a label in the margin and beside it what it is about, wrapped to
// the terminal's width and in its colors. What was written by others is made harmless on the way, for a terminal and for the log of a CI system.
//
//	style.go      width and colors; words.go: wrapped, shortened, counted
//	page.go       rows, tables and commands beside a margin
//	harmless.go   no text of others steers a terminal; json.go: nor does JSON
package console
