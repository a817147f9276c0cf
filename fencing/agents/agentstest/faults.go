package agentstest

import (
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Fault is something that is wrong with whoever answers.
type Fault string

// What can be wrong with whoever answers, by HTTP or, as far as that goes, as a program.
const (
	None        Fault = ""
	Silent      Fault = "hangs"
	Rubbish     Fault = "answers rubbish"
	ServerError Fault = "fails"
	Truncated   Fault = "breaks off"
	Huge        Fault = "answers without end"
)

// Faults are all of them.
var Faults = []Fault{Silent, Rubbish, ServerError, Truncated, Huge}

// HTTPFaults are those that only a server can have.
var HTTPFaults = []Fault{Drip, Bomb, LoginPage, Redirected, RedirectedAway, TwoValues}

// Faults of servers.
const (
	Drip           Fault = "answers a byte at a time"
	Bomb           Fault = "answers little that unpacks to much"
	LoginPage      Fault = "answers with a page to log in"
	Redirected     Fault = "redirects to itself"
	RedirectedAway Fault = "redirects to another host"
	TwoValues      Fault = "answers two values"
)

// Intercept is a handler of a server with a fault, for BMC.Before and Service.Before. elsewhere is another host's URL; reached is called with each request.
func (f Fault) Intercept(elsewhere string, reached func()) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		reached()
		if f == None {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body) // until it was read, net/http does not notice that who asks has hung up
		w.Header().Set("Content-Type", "application/json")
		switch f {
		case Silent:
			flush(w)
			<-r.Context().Done()
		case Rubbish:
			fmt.Fprint(w, "\x00\xff{{ PowerState: Off")
		case ServerError:
			http.Error(w, "{}", http.StatusInternalServerError)
		case Truncated:
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"PowerState":"Off","power":"Off"}`)
		case Huge:
			endless(w, r, strings.Repeat(" ", 1<<16))
		case Drip:
			endless(w, r, " ")
		case Bomb:
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			_, _ = io.Copy(packed, io.LimitReader(blanks{}, 1<<24)) // who asks may hang up, as it should
			_ = packed.Close()
		case LoginPage:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<html><body>"PowerState": "Off"</body></html>`)
		case Redirected:
			http.Redirect(w, r, r.URL.Path+"/", http.StatusPermanentRedirect)
		case RedirectedAway:
			http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
		case TwoValues:
			fmt.Fprint(w, `{"Systems":{"@odata.id":"/redfish/v1/Systems"}} {"PowerState":"Off"}`)
		}
		return true
	}
}

// endless writes until nobody reads.
func endless(w http.ResponseWriter, r *http.Request, text string) {
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
		flush(w)
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() } // of a test server: it can

// blanks are a file of blanks without end.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// Serve serves a handler by TLS on the loopback address until the test ends.
func Serve(t testing.TB, handler http.Handler) (url string, ca []byte) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that hang up are what is tested
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
