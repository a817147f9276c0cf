package attacks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// request is one of a walk.
type request struct {
	attempt     string // what it tries; empty: it only prepares
	who         string
	method      string
	path        string
	query       url.Values
	contentType string
	body        []byte
	dry         bool
	// about are the names of what it may remove: "namespace/pod", "namespace/" for a collection, "node/name".
	about []string
}

func (r request) String() string {
	text := fmt.Sprintf("%s: %s %s", r.who, r.method, r.path)
	if len(r.query) > 0 {
		text += "?" + r.query.Encode()
	}
	if len(r.body) > 0 {
		text += fmt.Sprintf(" (%s) %.400q", r.contentType, r.body)
	}
	return text
}

// Content types.
const (
	asJSON      = "application/json"
	asProtobuf  = "application/vnd.kubernetes.protobuf"
	asMerge     = "application/merge-patch+json"
	asStrategic = "application/strategic-merge-patch+json"
	asJSONPatch = "application/json-patch+json"
	asApply     = "application/apply-patch+yaml"
)

// outcome of a request, as far as it matters here.
type outcome string

const (
	refused outcome = "refused" // by Podgrace
	let     outcome = "let go"
	dry     outcome = "let go dry"
)

// send sends a request and returns what became of it, and the beginning of the answer where it was no success.
func send(ctx context.Context, kube *http.Client, host string, r request) (outcome, string) {
	target := strings.TrimSuffix(host, "/") + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return "no request", err.Error()
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	response, err := kube.Do(req)
	if err != nil {
		return "no answer", err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "no answer", err.Error()
	}
	switch {
	case response.StatusCode < 300 && r.dry:
		return dry, ""
	case response.StatusCode < 300:
		return let, ""
	}
	var status struct{ Message string }
	if json.Unmarshal(body, &status) != nil {
		status.Message = string(body)
	}
	if response.StatusCode == http.StatusForbidden && strings.Contains(status.Message, ".podgrace.dev") && strings.Contains(status.Message, "denied") {
		return refused, status.Message
	}
	return outcome(fmt.Sprint(response.StatusCode)), status.Message
}

// record is what was sent, for the list that a finding is printed with, and for the counts.
type record struct {
	mu     sync.Mutex
	n      int
	last   []sent
	counts map[string]map[outcome]int // by attempt
}

func newRecord() record { return record{counts: map[string]map[outcome]int{}} }

type sent struct {
	n       int
	request request
	outcome outcome
	says    string
}

// remembered is how many requests are kept: those of many rounds.
const remembered = 20_000

func (r *record) add(q request, o outcome, says string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if len(r.last) >= 2*remembered {
		r.last = append(r.last[:0], r.last[remembered:]...)
	}
	r.last = append(r.last, sent{r.n, q, o, says})
	if r.counts[q.attempt] == nil {
		r.counts[q.attempt] = map[outcome]int{}
	}
	r.counts[q.attempt][o]++
}

// concerning lists the last requests that may have to do with these objects, oldest first.
func (r *record) concerning(names []string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	const most = 60
	var lines []string
	for i := len(r.last) - 1; i >= 0 && len(lines) < most; i-- {
		if s := r.last[i]; concerns(s.request.about, names) {
			lines = append(lines, fmt.Sprintf("%7d %s\n        -> %s %.200s", s.n, s.request, s.outcome, s.says))
		}
	}
	var text strings.Builder
	for _, line := range slices.Backward(lines) {
		fmt.Fprintln(&text, line)
	}
	return text.String()
}

func concerns(about, names []string) bool {
	for _, a := range about {
		for _, n := range names {
			if a == n || strings.HasSuffix(a, "/") && strings.HasPrefix(n, a) {
				return true
			}
		}
	}
	return false
}
