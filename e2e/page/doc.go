// Package page has the tests of a review's page, `podgrace review -o html`, in a real browser: what it shows, its filters and its
// links; that nothing of a report runs in it; and that it loads nothing.
package page
