// Package webhook answers the API server's AdmissionReviews. A handler decodes the object, looks up what the decision
// depends on (Lookup), lets package defaulting decide, and writes the answer. It decides nothing itself.
//
// Mutation and /validate-pods fail open: where something that is needed is not there (informers not synced, a namespace
// that can't be read), the pod is allowed, and a warning says what was missed.
package webhook
