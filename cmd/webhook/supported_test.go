package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
)

// An API server that is too old is refused, but never in place of an armed guard, nor of limits that fail closed.
func TestRefuseOldAPIServer(t *testing.T) {
	const old = "the API server is of Kubernetes v1.32.1"
	for name, tc := range map[string]struct {
		tooOld  string
		armed   bool
		err     error
		refused bool
		told    bool
	}{
		"new enough":            {},
		"new enough, and armed": {armed: true},
		"too old":               {tooOld: old, refused: true},
		"too old, and armed":    {tooOld: old, armed: true, told: true},
		"too old, not known":    {tooOld: old, err: errors.New("it is away"), told: true},
	} {
		var lines []string
		err := refuseOldAPIServer(tc.tooOld, func() (bool, error) { return tc.armed, tc.err }, funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
		if refused := err != nil; refused != tc.refused || refused && err.Error() != old {
			t.Errorf("%s: got %v", name, err)
		}
		if told := len(lines) == 1 && strings.Contains(lines[0], old); told != tc.told {
			t.Errorf("%s: told %q", name, lines)
		}
	}
}

// What fails closed is in the Role that the leader writes. Whether the limits fail closed then is in the webhook configuration.
func TestCheckAPIServer(t *testing.T) {
	for name, tc := range map[string]struct {
		version, armed string // the resource of a rule of the Role
		configuration  string // empty: it can't be read
		refused        bool
	}{
		"too old":            {"v1.32.1", "", failing("Ignore", "Ignore"), true},
		"too old, and armed": {"v1.32.1", "guardednodes", failing("Ignore", "Ignore"), false},
		"too old, a first installation whose limits fail closed":  {"v1.32.1", "", failing("Fail", "Fail"), true},
		"too old, and limits armed that fail open":                {"v1.32.1", "closedlimits", failing("Ignore", "Ignore"), true},
		"too old, and armed limits on pods that fail closed":      {"v1.32.1", "closedlimits", failing("Fail", "Ignore"), false},
		"too old, and armed limits on PodGroups that fail closed": {"v1.32.1", "closedlimits", failing("Ignore", "Fail"), false},
		"too old, and not known whether limits fail closed":       {"v1.32.1", "closedlimits", "", false},
		"too old, and nothing calls the webhook yet":              {"v1.32.1", "closedlimits", notFound, true},
		"too old, and the Role is gone":                           {"v1.32.1", "none", failing("Fail", "Fail"), true},
		"new enough":                                              {"v1.33.0", "", failing("Ignore", "Ignore"), false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch r.URL.Path {
			case "/version":
				_, _ = io.WriteString(w, `{"gitVersion":"`+tc.version+`"}`)
			case "/api":
				_, _ = io.WriteString(w, `{"kind":"APIVersions","versions":[]}`)
			case "/apis":
				_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"admissionregistration.k8s.io","versions":[{"groupVersion":"admissionregistration.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"admissionregistration.k8s.io/v1","version":"v1"}},{"name":"rbac.authorization.k8s.io","versions":[{"groupVersion":"rbac.authorization.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"rbac.authorization.k8s.io/v1","version":"v1"}}]}`)
			case "/apis/rbac.authorization.k8s.io/v1":
				_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"rbac.authorization.k8s.io/v1","resources":[{"name":"roles","kind":"Role","namespaced":true,"verbs":["get"]}]}`)
			case "/apis/rbac.authorization.k8s.io/v1/namespaces/podgrace-system/roles/podgrace-in-force":
				if tc.armed == "none" {
					w.WriteHeader(http.StatusNotFound)
					_, _ = io.WriteString(w, notFound)
					return
				}
				_, _ = io.WriteString(w, `{"kind":"Role","apiVersion":"rbac.authorization.k8s.io/v1","rules":[{"apiGroups":["podgrace.dev"],"resources":["`+tc.armed+`"],"verbs":["judge"]}]}`)
			case "/apis/admissionregistration.k8s.io/v1":
				_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"admissionregistration.k8s.io/v1","resources":[{"name":"validatingwebhookconfigurations","kind":"ValidatingWebhookConfiguration","namespaced":false,"verbs":["get"]}]}`)
			case "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/podgrace":
				switch tc.configuration {
				case "":
					w.WriteHeader(http.StatusForbidden)
				case notFound:
					w.WriteHeader(http.StatusNotFound)
				}
				_, _ = io.WriteString(w, tc.configuration)
			default:
				t.Errorf("%s: asked for %s", name, r.URL)
			}
		}))
		err := checkAPIServer(t.Context(), &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, "podgrace-system", funcr.New(func(string, string) {}, funcr.Options{}))
		if (err != nil) != tc.refused {
			t.Errorf("%s: got %v", name, err)
		}
		server.Close()
	}
	if err := checkAPIServer(t.Context(), &rest.Config{Host: "http://127.0.0.1:1"}, "podgrace-system", funcr.New(func(string, string) {}, funcr.Options{})); err != nil {
		t.Errorf("one that is away: %v", err)
	}
}

const notFound = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`

// failing is the webhook configuration with the failurePolicy of the entries for pods and PodGroups. Others that fail closed are no limits.
func failing(pods, podGroups string) string {
	return `{"kind":"ValidatingWebhookConfiguration","apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"podgrace"},"webhooks":[
		{"name":"delete.removal.podgrace.dev","failurePolicy":"Fail"},
		{"name":"pods.validate.podgrace.dev","failurePolicy":"` + pods + `"},{"name":"pod-groups.validate.podgrace.dev","failurePolicy":"` + podGroups + `"}]}`
}
