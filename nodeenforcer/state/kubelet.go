package state

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Kubelet asks the node's own kubelet what only it knows: its configuration and its statistics of disks. Both are subresources
// of nodes (nodes/configz, nodes/stats: KEP-2862), so that the enforcer needs no nodes/proxy, which would let it exec into every
// container.
type Kubelet struct {
	base   url.URL
	client *http.Client
	limit  int64 // of an answer, in bytes
}

// The timeouts of answers. Statistics take the kubelet a second on a busy node, and more than ten if it gets a tenth of a CPU. Nothing waits for them: the evictor asks aside.
const (
	configTimeout = 10 * time.Second
	statsTimeout  = 30 * time.Second
)

// NewKubelet talks to the kubelet of a node, at host:port, with the credentials of an API server's client.
//
// With a CA its serving certificate must be of it and name the node, whatever the address: those that the API server signs have the node's own names and addresses
// (pkg/kubelet/certificate/kubelet.go, 1.36.3), and never 127.0.0.1. Often it is self-signed; without a CA it is not verified. What is given away then, to whoever took the
// kubelet's port on this very node, is the token of this node's enforcer.
func NewKubelet(address, nodeName string, credentials *rest.Config, caFile string) (*Kubelet, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("the kubelet's address: %w", err)
	}
	config := rest.AnonymousClientConfig(credentials)
	config.BearerToken, config.BearerTokenFile = credentials.BearerToken, credentials.BearerTokenFile
	config.TLSClientConfig = rest.TLSClientConfig{
		Insecure: caFile == "", CAFile: caFile, NextProtos: []string{"http/1.1"},
		CertFile: credentials.CertFile, KeyFile: credentials.KeyFile, CertData: credentials.CertData, KeyData: credentials.KeyData,
	}
	if caFile != "" {
		config.ServerName = nodeName
	}
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for the kubelet: %w", err)
	}
	// The kubelet sends nobody elsewhere, and the token is for nobody else.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Kubelet{base: url.URL{Scheme: "https", Host: address}, client: client, limit: maxAnswer}, nil
}

// Config returns the kubelet's configuration, flags and drop-in files included.
func (k *Kubelet) Config(ctx context.Context) (*kubeletconfigv1beta1.KubeletConfiguration, error) {
	var answer struct {
		Config *kubeletconfigv1beta1.KubeletConfiguration `json:"kubeletconfig"`
	}
	if err := k.get(ctx, configTimeout, "/configz", &answer); err != nil {
		return nil, fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	if answer.Config == nil {
		return nil, fmt.Errorf("read the kubelet's configuration: its /configz has no kubeletconfig")
	}
	return answer.Config, nil
}

// Stats returns what the kubelet last measured.
func (k *Kubelet) Stats(ctx context.Context) (*statsv1alpha1.Summary, error) {
	var answer statsv1alpha1.Summary
	if err := k.get(ctx, statsTimeout, "/stats/summary", &answer); err != nil {
		return nil, fmt.Errorf("read the kubelet's statistics: %w", err)
	}
	return &answer, nil
}

// maxAnswer is how much of an answer is read: the statistics of 500 pods are about 3 MiB.
const maxAnswer = 64 << 20

func (k *Kubelet) get(ctx context.Context, within time.Duration, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	at := k.base
	at.Path = path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // best effort: the status says enough
		return fmt.Errorf("%s %s: %s", path, resp.Status, body)
	}
	body := &io.LimitedReader{R: resp.Body, N: k.limit}
	err = json.NewDecoder(body).Decode(into)
	if body.N == 0 {
		return fmt.Errorf("%s: the answer is larger than %d MiB", path, k.limit>>20)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
