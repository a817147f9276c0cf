package main

import (
	"crypto/tls"
	"net/http/httptest"
	"testing"
)

// A client that offers less than the flags ask for gets no connection, and any other does.
func TestTLSBounds(t *testing.T) {
	const suite = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
	for name, tc := range map[string]struct {
		min    string
		suites []string
		offer  *tls.Config
		want   bool
	}{
		"1.2":              {"VersionTLS12", nil, &tls.Config{MaxVersion: tls.VersionTLS12}, true},
		"1.1":              {"VersionTLS12", nil, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false},
		"1.3 asked for":    {"VersionTLS13", nil, &tls.Config{MaxVersion: tls.VersionTLS12}, false},
		"1.3":              {"VersionTLS13", nil, &tls.Config{}, true},
		"a suite":          {"VersionTLS12", []string{suite}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}}, true},
		"another suite":    {"VersionTLS12", []string{suite}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}}, false},
		"a suite, and 1.3": {"VersionTLS12", []string{suite}, &tls.Config{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			restrict, err := tlsBounds(tc.min, tc.suites)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewUnstartedServer(nil)
			server.TLS = &tls.Config{}
			restrict(server.TLS)
			server.StartTLS()
			defer server.Close()
			tc.offer.InsecureSkipVerify = true // whose certificate it is is another matter
			c, err := (&tls.Dialer{Config: tc.offer}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			if err == nil {
				_ = c.Close()
			}
			if got := err == nil; got != tc.want {
				t.Errorf("got %v", err)
			}
		})
	}
}
