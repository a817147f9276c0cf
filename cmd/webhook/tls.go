package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// tlsVersions are what --tls-min-version takes, by the names that Kubernetes' own programs have for them.
var tlsVersions = map[string]uint16{"VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13}

// tlsBounds returns what restricts the TLS of the port for reviews. No suites: those that Go takes for safe. The suites of TLS 1.3 are fixed, so that a list
// can name those of 1.2 only.
func tlsBounds(minVersion string, suites []string) (func(*tls.Config), error) {
	version, ok := tlsVersions[minVersion]
	if !ok {
		return nil, fmt.Errorf("--tls-min-version: %q is none of %q", minVersion, slices.Sorted(maps.Keys(tlsVersions)))
	}
	if len(suites) > 0 && version > tls.VersionTLS12 {
		return nil, errors.New("--tls-cipher-suites are of TLS 1.2: with --tls-min-version=VersionTLS13 none of them is used")
	}
	known := map[string]uint16{}
	for _, suite := range tls.CipherSuites() {
		if slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
			known[suite.Name] = suite.ID
		}
	}
	var ids []uint16
	for _, suite := range suites {
		id, ok := known[suite]
		if !ok {
			return nil, fmt.Errorf("--tls-cipher-suites: %q is none of %q", suite, slices.Sorted(maps.Keys(known)))
		}
		ids = append(ids, id)
	}
	return func(c *tls.Config) { c.MinVersion, c.CipherSuites = version, ids }, nil
}
