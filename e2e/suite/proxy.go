package suite

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Proxy serves a way to the API server until the test ends, and returns the kubeconfig that leads there, with the rights of a configuration. What the proxy changes on it the caller has set; requests come to the handler.
func Proxy(t testing.TB, config *rest.Config, proxy *httputil.ReverseProxy, handler http.Handler) (kubeconfig string) {
	t.Helper()
	to, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	if proxy.Transport, err = rest.TransportFor(config); err != nil {
		t.Fatal(err)
	}
	change := proxy.Rewrite
	proxy.Rewrite = func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		if change != nil {
			change(r)
		}
	}
	proxy.FlushInterval, proxy.ErrorLog = -1, log.New(io.Discard, "", 0) // watches pass at once; who ends in the midst of a request is no news
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"proxy": {Server: server.URL}}, Contexts: map[string]*clientcmdapi.Context{"proxy": {Cluster: "proxy"}}, CurrentContext: "proxy",
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}
