package main

import (
	"debug/buildinfo"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// Of what is not in the cache there is no SBOM, rather than one that depends on what a proxy answers, and none is asked.
func TestBillOfTheCacheAlone(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the proxy was asked for %s", r.URL)
		http.NotFound(w, r)
	}))
	defer proxy.Close()
	for name, value := range map[string]string{"GOMODCACHE": t.TempDir(), "GOPROXY": proxy.URL, "GOPRIVATE": "github.com/*"} {
		t.Setenv(name, value)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := slices.Sorted(slices.Values(os.Environ()))
	_, err = first.bill(program, newOnce())
	if err == nil || !strings.Contains(err.Error(), "module download failed: sigs.k8s.io/yaml@") || strings.Contains(err.Error(), "podgrace@") {
		t.Errorf("got %v", err)
	}
	if after := slices.Sorted(slices.Values(os.Environ())); !slices.Equal(before, after) {
		t.Errorf("another environment afterwards: %q, before %q", after, before)
	}
}

func TestUnread(t *testing.T) {
	own := first.own(&buildinfo.BuildInfo{Main: debug.Module{Path: "example.com/preview", Version: "(devel)"}, Deps: []*debug.Module{
		{Path: "example.com/product", Version: "v0.0.0", Replace: &debug.Module{Path: "..", Version: "(devel)"}},
		{Path: "example.com/other", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.0.1"}},
	}})
	if want := []string{"example.com/preview@v1.2.3", "..@(devel)"}; !slices.Equal(own, want) {
		t.Errorf("own modules are %q, want %q", own, want)
	}
	for said, want := range map[string]string{
		`{"level":"warn","message":"module download failed","module":"example.com/fork@v1.0.1","reason":"lookup disabled"}`:   "module download failed: example.com/fork@v1.0.1: lookup disabled",
		`{"level":"warn","message":"module hash mismatch","module":"example.com/a@v1.0.0"}`:                                   "module hash mismatch: example.com/a@v1.0.0: ",
		`{"level":"warn","message":"something new","module":"example.com/a@v1.0.0"}`:                                          "something new: example.com/a@v1.0.0: ",
		`{"level":"warn","message":"no licenses detected","module":"example.com/a@v1.0.0"}`:                                   "",
		`{"level":"debug","message":"module downloaded","module":"example.com/a@v1.0.0"}`:                                     "",
		`{"level":"warn","message":"can't resolve module license","module":"std@go1.26.8","reason":"module not in cache"}`:    "",
		`{"level":"warn","message":"module download failed","module":"example.com/preview@v1.2.3","reason":"x"}`:              "",
		`{"level":"warn","message":"module download failed","module":"..@(devel)","reason":"malformed"}` + "\n" + `{"level":`: "unexpected EOF",
	} {
		if err := unread(strings.NewReader(said), own); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: got %v, want %q", said, err, want)
		}
	}
}
