// Package page lays out what a person reads in a terminal: rows with a label in the margin and beside it what it is about, wrapped to
// the terminal's width. What was written by others is made harmless on the way.
package page
