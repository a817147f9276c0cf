package reviews

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"time"
)

// timeoutParameter is what the API server adds to a webhook's URL.
const timeoutParameter = "?timeout=5s"

// NewClient speaks as the API server does to a webhook behind a Service: HTTP/1.1, connections kept
// (k8s.io/apiserver/pkg/util/webhook/client.go hookClientConfig, 0.36.3). It trusts what is in a bundle of certificates.
func NewClient(trusted []byte) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(trusted)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool, NextProtos: []string{"http/1.1"}},
		MaxIdleConnsPerHost: 1000, // no connection is made twice, whatever the concurrency
		// A server that hangs voids the run instead of holding it up.
		ResponseHeaderTimeout: 10 * time.Second,
	}}
}

// Ask sends one review to a webhook's URL and puts the answer into a buffer.
func Ask(ctx context.Context, client *http.Client, url string, body []byte, answer *bytes.Buffer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+timeoutParameter, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	defer response.Body.Close()
	answer.Reset()
	if _, err := io.Copy(answer, response.Body); err != nil {
		return fmt.Errorf("read the answer of %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s: %s", url, response.Status, answer)
	}
	return nil
}
