// Package webhook answers the API server's AdmissionReviews. Package intake reads them within bounds; a handler decodes the object, has the facts looked up that
// the decision depends on (package lookup), lets package defaulting or guard decide, and answer.go makes a response of the decision. It decides nothing itself.
//
// Mutation and /validate-pods fail open: where a fact is missing (informers not synced, a namespace that can't be read), the pod is allowed, and a warning
// says what was not done. Removals fail closed.
//
// What the leader alone does is in package controllers, and how PolicyExceptions are read in package exceptions.
package webhook
