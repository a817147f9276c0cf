package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ask makes a request with the right token and returns body and exit status.
func ask(t *testing.T, server *httptest.Server, method, path, body string) (text, status string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer secret")
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s, %v", method, path, response.Status, answer, err)
	}
	return string(answer), response.Header.Get("Exit-Status")
}

func start(t *testing.T) *httptest.Server {
	server := httptest.NewServer(handler("Bearer secret"))
	t.Cleanup(server.Close)
	return server
}

// What a script leaves neither holds up the answer nor stays: a pipe ends when the last one who can write to it does.
func TestRunEndsWhatItStarted(t *testing.T) {
	server, pipe := start(t), filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := os.ReadFile(pipe)
		ended <- err
	}()
	ask(t, server, http.MethodPost, "/run", "exec 4>"+pipe+"; sleep 600 &")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestToken(t *testing.T) {
	server := start(t)
	for _, authorization := range []string{"", "secret", "Bearer secre", "Bearer secret "} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/run", strings.NewReader("true"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header["Authorization"] = []string{authorization + "x"}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %s", authorization, response.Status)
		}
	}
}
