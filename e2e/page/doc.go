// Package page has the tests of the pages in a real browser, those of `podgrace review -o html` and `podgrace preview -o html`: what
// they show, their filters and their links; that nothing of what others wrote runs in them; and that they load nothing.
package page
