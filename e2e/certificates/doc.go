// Package certificates tests the self-managed certificates behind a real API server: two replicas of the real webhook with leaves
// that last seconds, while pods are created and removed without pause, each over connections of its own. What must not happen
// is that the API server refuses a certificate.
package certificates
