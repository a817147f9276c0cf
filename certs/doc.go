// Package certs gives the webhook its serving certificate and the API server the CA to check it with.
//
// Self-managed: a long-lived CA in a Secret that all replicas share, short-lived leaves in memory, both by cert-manager's
// own library; the leader writes the CA into the webhook configurations, and replaces it before it ends or when somebody
// asks (replace.go is how, without a moment in which a certificate is not trusted). Files: somebody else (cert-manager,
// usually) writes certificate, key and caBundle, and the certificate is read again when it changes.
//
// The other way round, Clients asks the API server for a certificate of its own, where it was given one.
package certs
