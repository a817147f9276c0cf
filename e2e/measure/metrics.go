package measure

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Metrics reads them where they are served.
func Metrics(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("read metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("read metrics: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", url, err)
	}
	return string(text), nil
}

var line = regexp.MustCompile(`(?m)^([^#\s{]+(?:\{[^}]*\})?) (\S+)$`)

// Series are those of a metric, or those whose labels begin so, by their names and labels.
func Series(text, prefix string) (map[string]float64, error) {
	of := map[string]float64{}
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		rest, begins := strings.CutPrefix(m[1], prefix)
		if !begins || rest != "" && rest[0] != '{' && !strings.Contains(prefix, "{") {
			continue
		}
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, fmt.Errorf("read metric %s: %w", m[1], err)
		}
		of[m[1]] = n
	}
	return of, nil
}

// Sum adds them up. A metric that has none yet is 0.
func Sum(text, prefix string) (float64, error) {
	of, err := Series(text, prefix)
	total := 0.0
	for _, n := range of {
		total += n
	}
	return total, err
}
