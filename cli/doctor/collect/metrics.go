package collect

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/cli/doctor"
)

// sample is a line of the metrics by which an API server counts its calls of webhooks (k8s.io/apiserver pkg/admission/metrics, 0.36.3).
var sample = regexp.MustCompile(`^apiserver_admission_webhook_(request_total|fail_open_count|rejection_count)\{(.*)\} ([0-9.e+]+)$`)

var label = regexp.MustCompile(`(\w+)="([^"]*)"`)

// calls reads what an API server has counted of Podgrace's webhooks. The rest of its metrics, some MiB, is not kept.
func calls(from io.Reader) (doctor.Calls, error) {
	c := doctor.Calls{Answered: map[string]int{}, Failed: map[string]int{}}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m := sample.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		labels := map[string]string{}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			labels[l[1]] = l[2]
		}
		n, err := strconv.ParseFloat(m[3], 64)
		if err != nil || !strings.HasSuffix(labels["name"], ".podgrace.dev") {
			continue
		}
		switch {
		case m[1] == "request_total":
			c.Answered[labels["name"]] += int(n)
		case m[1] == "fail_open_count", labels["error_type"] == "calling_webhook_error":
			c.Failed[labels["name"]] += int(n)
		}
	}
	if err := lines.Err(); err != nil {
		return c, fmt.Errorf("read the metrics: %w", err)
	}
	return c, nil
}
