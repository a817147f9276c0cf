package state

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"
)

type asked func(*http.Request)

func (a asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a(r)
	return nil, errors.New("no answer")
}

// A kubelet that gets a tenth of a CPU takes more than ten seconds for its statistics. Its configuration is not waited for so long.
func TestTimeoutsOfTheKubelet(t *testing.T) {
	left := map[string]time.Duration{}
	k := &Kubelet{base: url.URL{Scheme: "https", Host: "127.0.0.1:1"}, client: &http.Client{Transport: asked(func(r *http.Request) {
		until, _ := r.Context().Deadline()
		left[r.URL.Path] = time.Until(until).Round(10 * time.Second)
	})}}
	_, err := k.Config(t.Context())
	_, statsErr := k.Stats(t.Context())
	if err == nil || statsErr == nil || left["/configz"] != configTimeout || left["/stats/summary"] != statsTimeout {
		t.Errorf("%v, %v, %v", left, err, statsErr)
	}
}
