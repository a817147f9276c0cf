package load

import (
	"fmt"
	"net/http"
)

// readOnly lets through what reads: GET, by which lists and watches come too. It is the innermost of a client's transports, behind
// those that log in and log, so that nothing that is asked of the API server goes around it.
type readOnly struct{ next http.RoundTripper }

// RoundTrip is http.RoundTripper's.
func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		return r.next.RoundTrip(request)
	}
	if request.Body != nil {
		request.Body.Close() // as a RoundTripper must, also with an error
	}
	return nil, fmt.Errorf("%s %s was not sent: this command only reads", request.Method, request.URL.Path)
}
