package agents

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"
)

// cutOff is a body whose end comes with the end of the context, as it may over TLS.
type cutOff struct {
	io.Reader
	cancel func()
}

func (c cutOff) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		c.cancel()
	}
	return n, err
}

func (cutOff) Close() error { return nil }

// answers is the RoundTripper of a scheme.
type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// An answer that looks complete proves nothing if the context ended while it was read.
func TestClientCutOffAnswer(t *testing.T) {
	for name, body := range map[string]string{"empty": "", "complete": `{"power":"Off"}`} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			base := &url.URL{Scheme: "cut", Host: "bmc"}
			next := &http.Transport{}
			next.RegisterProtocol(base.Scheme, answers(func(r *http.Request) (*http.Response, error) {
				header := http.Header{"Content-Type": {"application/json"}}
				return &http.Response{StatusCode: http.StatusOK, Header: header, Body: cutOff{bytes.NewReader([]byte(body)), cancel}, Request: r}, nil
			}))
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := (&pinned{base: base, next: next}).RoundTrip(req)
			if resp != nil {
				defer resp.Body.Close()
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's error", err)
			}
		})
	}
}
