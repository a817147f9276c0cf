package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/internal/program/version"
)

// parse is what a command line makes of the options, or what is said of it.
func parse(t *testing.T, args ...string) (*options, error) {
	t.Helper()
	o := defaultOptions()
	c := command(o)
	c.Run = func(context.Context, io.Writer) error { return nil }
	var log bytes.Buffer
	if c.Execute(t.Context(), args, io.Discard, &log) != 0 {
		return o, errors.New(log.String())
	}
	return o, nil
}

func TestOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string // in the error; empty: valid
	}{
		"none":                  {nil, ""},
		"argument":              {[]string{"serve"}, `unexpected argument "serve"`},
		"address":               {[]string{"--bind-address=localhost"}, "is not an IP address"},
		"port":                  {[]string{"--port=0"}, "--port: 0 is not in 1..65535"},
		"shutdown delay":        {[]string{"--shutdown-delay=-1s"}, "--shutdown-delay: -1s is negative"},
		"no health, no metrics": {[]string{"--health-port=0", "--metrics-port=0"}, ""},
		"mode":                  {[]string{"--cert-mode=acme"}, `"acme" is neither self-managed nor files`},
		"files without folder":  {[]string{"--cert-mode=files"}, "needs --cert-dir"},
		"folder without files":  {[]string{"--cert-dir=/x"}, "--cert-dir is for --cert-mode=files"},
		"clients":               {[]string{"--client-ca-file=/x", "--client-allowed-names=a,b"}, ""},
		"clients without CA":    {[]string{"--client-allowed-names=a"}, "--client-allowed-names needs --client-ca-file"},
		"client without name":   {[]string{"--client-ca-file=/x", "--client-allowed-names=a,"}, "--client-allowed-names: a name is empty"},
		"excluded namespaces":   {[]string{"--exclude-namespaces=calico-system,openshift-*", "--exclude-namespaces=shop"}, ""},
		"all of them excluded":  {[]string{"--exclude-namespaces=*"}, `--exclude-namespaces: "*" is neither the name of a namespace nor`},
		"short leaves":          {[]string{"--leaf-duration=1m", "--ca-settle=10s", "--ca-duration=1h"}, ""},
		"leaves too short":      {[]string{"--leaf-duration=1s"}, "--leaf-duration: 1s is less than 10s"},
		"CA too short":          {[]string{"--ca-duration=24h"}, "--ca-duration: 24h0m0s is less than"},
		"unknown flag":          {[]string{"--polcy=x"}, "unknown flag"},
		"no time for requests":  {[]string{"--api-server-request-timeout=0s"}, "--api-server-request-timeout: 0s is no time"},
		"TLS":                   {[]string{"--tls-min-version=VersionTLS12", "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, ""},
		"old TLS":               {[]string{"--tls-min-version=VersionTLS11"}, `"VersionTLS11" is none of ["VersionTLS12" "VersionTLS13"]`},
		"unsafe suite":          {[]string{"--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA"}, `"TLS_RSA_WITH_RC4_128_SHA" is none of`},
		"suite of TLS 1.3":      {[]string{"--tls-cipher-suites=TLS_AES_128_GCM_SHA256"}, `"TLS_AES_128_GCM_SHA256" is none of`},
		"suites of no use":      {[]string{"--tls-min-version=VersionTLS13", "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, "none of them is used"},
		"log format":            {[]string{"--log-format=yaml"}, `--log-format: "yaml" is neither text nor json`},
		"sample":                {[]string{"--decision-log-allowed-percent=100", "--metrics-namespaces=0"}, ""},
		"sample of more":        {[]string{"--decision-log-allowed-percent=101"}, "--decision-log-allowed-percent: 101 is not in 0..100"},
		"namespaces":            {[]string{"--metrics-namespaces=-1"}, "--metrics-namespaces: -1 is not in 0..10000"},
		"all that is wrong":     {[]string{"--port=-1", "--cert-mode=x"}, "--cert-mode"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, tc.args...)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestNamesOfTheCertificate(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "elsewhere")
	o, err := parse(t)
	if err != nil || o.Namespace != "elsewhere" || o.dnsNames[0] != "podgrace-webhook.elsewhere.svc" {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestExitCodes(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone.kubeconfig")
	for name, tc := range map[string]struct {
		args     []string
		code     int
		out, log string // what is printed, and what is logged at the end
	}{
		"help":          {[]string{"--help"}, 0, "", "--version"},
		"version":       {[]string{"--version"}, 0, version.Of("podgrace-webhook").String() + "\n", ""},
		"bad flag":      {[]string{"--port=x"}, 2, "", "webhook: invalid argument"},
		"bad options":   {[]string{"--port=0"}, 2, "", "webhook: --port: 0 is not in 1..65535\n"},
		"no kubeconfig": {[]string{"--kubeconfig", gone}, 1, "", "webhook: configure the API server's client"},
		"as JSON":       {[]string{"--log-format=json", "--kubeconfig", gone}, 1, "", `"msg":"ended","program":"webhook","err":"configure the API server's client`},
	} {
		t.Run(name, func(t *testing.T) {
			var out, log bytes.Buffer
			if code := command(defaultOptions()).Execute(t.Context(), tc.args, &out, &log); code != tc.code || out.String() != tc.out || !strings.Contains(log.String(), tc.log) || tc.log == "" && log.Len() > 0 {
				t.Errorf("exit %d, printed %q, logged:\n%s", code, out.String(), log.String())
			}
		})
	}
}

// kubeconfig of a server that nobody is.
func kubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The first line of the log says what is starting: also of one that can't.
func TestLogBeginsWithTheVersion(t *testing.T) {
	var out, log bytes.Buffer
	command(defaultOptions()).Execute(t.Context(), []string{"--kubeconfig", filepath.Join(t.TempDir(), "gone.kubeconfig")}, &out, &log)
	first, _, _ := strings.Cut(log.String(), "\n")
	if want := fmt.Sprintf(`"starting" program="podgrace-webhook" version=%q`, version.Of("").Version); !strings.Contains(first, want) {
		t.Errorf("it begins with %s, want %s", first, want)
	}
}

// A policy file that is wrong stops the start, with file and line: better than to run without it.
func TestBadPolicyFileStopsTheStart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "p.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: podgrace.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec:\n  weigth: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parse(t, "--kubeconfig", kubeconfig(t), "--policy", file, "--metrics-port=0", "--health-port=0")
	if err != nil {
		t.Fatal(err)
	}
	err = run(t.Context(), o, t.Output())
	if err == nil || !strings.Contains(err.Error(), file+`:5: unknown field "spec.weigth"`) {
		t.Errorf("got %v", err)
	}
}

// Without CAs to ask for nobody could be let in, and nobody must be let in unasked: it does not start.
func TestBadClientCAStopsTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parse(t, "--kubeconfig", kubeconfig(t), "--client-ca-file", file, "--metrics-port=0", "--health-port=0")
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), o, t.Output()); err == nil || !strings.Contains(err.Error(), "--client-ca-file: read the CAs of clients: missing content") {
		t.Errorf("got %v", err)
	}
}

// A replica whose clock was put back since it signed its certificate is sent no reviews, and started again. One whose certificate
// another's clock dates is not: a new start would mend nothing.
func TestChecksOfTheCertificate(t *testing.T) {
	signed, key, err := cert.GenerateSelfSignedCertKey("webhook", nil, nil) // it began an hour ago
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(signed, key)
	if err != nil {
		t.Fatal(err)
	}
	source := fixed{certificate: &pair}
	failing := func(checks map[string]healthz.Checker) []string {
		return slices.Sorted(func(yield func(string) bool) {
			for name, check := range checks {
				if check(nil) != nil && !yield(name) {
					return
				}
			}
		})
	}
	for name, tc := range map[string]struct {
		mode        string
		at          time.Time
		live, ready []string
	}{
		"in its time":                   {certModeSelfManaged, pair.Leaf.NotBefore, nil, nil},
		"before it":                     {certModeSelfManaged, pair.Leaf.NotBefore.Add(-time.Second), []string{"clock"}, []string{"clock"}},
		"before it, of cert-manager":    {certModeFiles, pair.Leaf.NotBefore.Add(-time.Second), nil, nil},
		"after its end":                 {certModeSelfManaged, pair.Leaf.NotAfter.Add(time.Second), nil, []string{"certificate"}},
		"after its end, cert-manager's": {certModeFiles, pair.Leaf.NotAfter.Add(time.Second), nil, []string{"certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			live, ready := ofCertificate(&options{certMode: tc.mode}, source, func() time.Time { return tc.at })
			if got := failing(live); !slices.Equal(got, tc.live) {
				t.Errorf("live: %q, want %q", got, tc.live)
			}
			if got := failing(ready); !slices.Equal(got, tc.ready) {
				t.Errorf("ready: %q, want %q", got, tc.ready)
			}
			if len(live) < 1 || len(ready) < 1 {
				t.Errorf("nothing is checked: %v, %v", live, ready)
			}
		})
	}
}

// fixed is a source that never changes.
type fixed struct {
	certs.Source
	certificate *tls.Certificate
	err         error
}

func (f fixed) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.certificate, f.err
}

// A server without a certificate is not called, and not ready; then its own check says how it is.
func TestServerIsCalledOnceCertified(t *testing.T) {
	called, broken := 0, errors.New("nobody listens")
	server := func(*http.Request) error { called++; return broken }
	none := errors.New("none yet")
	if err := onceCertified(fixed{err: none}, server)(nil); !errors.Is(err, none) || called != 0 {
		t.Errorf("without a certificate: %v, called %d times", err, called)
	}
	if err := onceCertified(fixed{certificate: &tls.Certificate{}}, server)(nil); !errors.Is(err, broken) || called != 1 {
		t.Errorf("with one: %v, called %d times", err, called)
	}
}
