package certs

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// SecretName is the Secret that holds the self-managed CA.
const SecretName = "podgrace-webhook-ca"

// The annotations of the Secret. An administrator writes the first, the leader the others.
const (
	// AnnotationReplace asks for another CA: any text that it did not have before.
	AnnotationReplace = "podgrace.dev/replace-ca"
	// AnnotationHandled is the last such text that was taken up.
	AnnotationHandled = "podgrace.dev/replace-ca-handled"
	// AnnotationPhase is the Phase, for people; nothing reads it.
	AnnotationPhase = "podgrace.dev/ca-phase"
	// AnnotationSince is when what the phase waits for was in place (RFC 3339); absent until it is.
	AnnotationSince = "podgrace.dev/ca-phase-since"
	// AnnotationSettled is the SHA-256 of the CA that every API server had when it began to sign.
	AnnotationSettled = "podgrace.dev/ca-settled"
)

// The keys of the Secret beside those of cert-manager's library: tls.crt, tls.key and ca.crt, all of the current CA.
const (
	keyCA       = "ca.crt"
	keyNext     = "next.crt"
	keyNextKey  = "next.key"
	keyPrevious = "previous.crt"
)

// readState reads the Secret. It fails where there is no current CA. Anything else that cannot be read counts as absent,
// which at worst makes a phase wait again.
func readState(secret *corev1.Secret) (State, error) {
	current, err := parsePair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return State{}, err
	}
	s := State{
		Current:  current,
		Previous: without(parseAuthorities(secret.Data[keyPrevious]), []Authority{current.Authority}),
		Settled:  secret.Annotations[AnnotationSettled],
		Request:  secret.Annotations[AnnotationReplace],
		Handled:  secret.Annotations[AnnotationHandled],
	}
	if len(s.Previous) == 0 {
		s.Previous = nil
	}
	if since, err := time.Parse(time.RFC3339Nano, secret.Annotations[AnnotationSince]); err == nil {
		s.Since = since
	}
	if len(secret.Data[keyNext]) > 0 || len(secret.Data[keyNextKey]) > 0 {
		next, err := parsePair(secret.Data[keyNext], secret.Data[keyNextKey])
		s.NextBroken = err != nil || next.ID == current.ID
		if !s.NextBroken {
			s.Next = &next
		}
	}
	return s, nil
}

// writeState returns a copy of the Secret with the state in it. What is not part of the state, stays.
func writeState(secret *corev1.Secret, s State) *corev1.Secret {
	secret = secret.DeepCopy()
	data := map[string]string{
		corev1.TLSCertKey: s.Current.PEM, keyCA: s.Current.PEM, corev1.TLSPrivateKeyKey: s.Current.Key,
		keyPrevious: string(bundle(s.Previous)), keyNext: "", keyNextKey: "",
	}
	if s.Next != nil {
		data[keyNext], data[keyNextKey] = s.Next.PEM, s.Next.Key
	}
	annotations := map[string]string{
		AnnotationPhase: string(s.Phase()), AnnotationSettled: s.Settled, AnnotationHandled: s.Handled, AnnotationSince: "",
	}
	if !s.Since.IsZero() {
		annotations[AnnotationSince] = s.Since.UTC().Format(time.RFC3339Nano)
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	for k, v := range data {
		secret.Data[k] = []byte(v)
	}
	maps.Copy(secret.Annotations, annotations)
	maps.DeleteFunc(secret.Data, func(_ string, v []byte) bool { return len(v) == 0 })
	maps.DeleteFunc(secret.Annotations, func(k, v string) bool { _, ours := annotations[k]; return ours && v == "" })
	return secret
}
