package version

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestAPIServerTooOld(t *testing.T) {
	for name, tc := range map[string]struct {
		status    int
		text      string
		want, err string
	}{
		"new enough": {http.StatusOK, `{"major":"1","minor":"33","gitVersion":"v1.33.0"}`, "", ""},
		"a vendor's": {http.StatusOK, `{"major":"1","minor":"34+","gitVersion":"v1.34.1-eks-113cf36"}`, "", ""},
		"too old":    {http.StatusOK, `{"major":"1","minor":"32","gitVersion":"v1.32.9-gke.1"}`, "the API server is of Kubernetes v1.32.9-gke.1, and Podgrace works with 1.33 and newer", ""},
		"no version": {http.StatusOK, `{"gitVersion":"devel"}`, "", ""},
		"garbage":    {http.StatusOK, `<html>`, "", "of which version it is"},
		"an error":   {http.StatusForbidden, `{}`, "", "of which version it is"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/version" {
				t.Errorf("%s: asked for %s", name, r.URL)
			}
			w.WriteHeader(tc.status)
			_, _ = w.Write([]byte(tc.text))
		}))
		got, err := APIServerTooOld(t.Context(), &rest.Config{Host: server.URL})
		if got != tc.want || (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		server.Close()
	}
}
