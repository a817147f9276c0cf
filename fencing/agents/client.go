package agents

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
)

const (
	// maxAnswer is how much of an answer is read, after it was unpacked. A ComputerSystem takes some 10 KiB.
	maxAnswer = 1 << 20
	maxHeader = 64 << 10
)

// baseURL is the URL at which a machine or a service is spoken to.
func baseURL(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("the address is no URL") // whose error would repeat what may be a password in it
	case base.Scheme != "https" || base.Hostname() == "" || base.Opaque != "":
		return nil, errors.New("the address must be an https URL with a host")
	case base.User != nil:
		return nil, errors.New("the address must have no user or password: they belong in the Secret")
	case base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("the address must have no query or fragment")
	}
	return base, nil
}

// shown is an address as errors tell it. One that can't be used is not told: what is wrong with it may be that a password stands in it.
func shown(address string) string {
	base, err := baseURL(address)
	if err != nil {
		return "its address"
	}
	return short(base.String(), 100)
}

// tlsConfig verifies by the authorities in ca.crt of the Secret or, if it has none, by the system's.
func (s secret) tlsConfig(insecure bool) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure}
	if pem := s.values["ca.crt"]; len(pem) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca.crt of Secret %s has no certificate", s.name)
		}
	}
	return config, nil
}

// pinned speaks to one host by HTTPS. Whoever answers names addresses itself (Redfish's links and actions, redirects), and credentials go with each request: so what
// leads elsewhere is refused here, below all libraries.
type pinned struct {
	base    *url.URL
	mayPost func(path string) bool
	next    *http.Transport
}

// newClient makes a client for one host and one call of an agent. No proxy: what a BMC is asked does not depend on a third machine, nor on the environment. Its
// connection is kept for the requests of the call, since a BMC takes long to agree on keys, and no longer: who makes a client closes its idle connections.
func newClient(base *url.URL, config *tls.Config, mayPost func(path string) bool) *http.Client {
	return &http.Client{
		Transport: &pinned{base: base, mayPost: mayPost, next: &http.Transport{TLSClientConfig: config, MaxResponseHeaderBytes: maxHeader}},
	}
}

// CloseIdleConnections is what http.Client's calls.
func (p *pinned) CloseIdleConnections() { p.next.CloseIdleConnections() }

// RoundTrip is one request and its answer, read to its end: gofish stops at the end of a JSON value, and would not notice that more was to come, or that nothing came after.
func (p *pinned) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := p.permits(req); err != nil {
		return nil, err
	}
	resp, err := p.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return nil, fmt.Errorf("it answers %s to %s, and redirects are not followed", resp.Status, req.URL.Path)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxAnswer))
	if err == nil {
		// When the context ends, the TLS connection sends close_notify before it closes. A server that ends its answer in between makes a cut-off body look complete.
		err = req.Context().Err()
	}
	if err != nil {
		return nil, fmt.Errorf("read its answer to %s: %w", req.URL.Path, err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if req.Method == http.MethodGet && resp.StatusCode == http.StatusOK {
		err = isJSON(resp.Header, body)
	}
	if err != nil {
		return nil, fmt.Errorf("its answer to %s: %w", req.URL.Path, err)
	}
	return resp, nil
}

// isJSON keeps out the page of a proxy or a login, which says 200 as well, and what is JSON only in its beginning.
func isJSON(header http.Header, body []byte) error {
	kind := header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
		return fmt.Errorf("%q instead of application/json", kind)
	}
	if !json.Valid(body) {
		return fmt.Errorf("%d bytes that are not one JSON value", len(body))
	}
	return nil
}

func (p *pinned) permits(req *http.Request) error {
	switch {
	case req.URL.Scheme != p.base.Scheme || req.URL.Host != p.base.Host || req.URL.User != nil || req.Host != "" && req.Host != p.base.Host:
		return fmt.Errorf("it leads to %s, another host than %s", req.URL.Redacted(), p.base.Host)
	case req.Method == http.MethodGet:
		return nil
	case req.Method != http.MethodPost || !p.mayPost(req.URL.Path):
		return fmt.Errorf("it leads to %s %s, where nothing is to be sent", req.Method, req.URL.Path)
	}
	return nil
}
