// Package certs gives the webhook its serving certificate and the API server the CA to check it with.
//
// Self-managed: a long-lived CA in a Secret that all replicas share, short-lived leaves in memory, both by cert-manager's
// own library; the leader writes the CA into the webhook configurations. Files: somebody else (cert-manager, usually)
// writes certificate, key and caBundle, and the certificate is read again when it changes.
package certs
