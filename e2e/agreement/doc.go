// Package agreement proves that a review offline says what a real API server with Podgrace's webhook does: the same
// patches, warnings and refusals, for the examples, for removals of pods that are there, and for recorded AdmissionReviews.
package agreement
