package input

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// chartFile makes a folder a Helm chart.
const chartFile = "Chart.yaml"

func isChart(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, chartFile))
	return err == nil && info.Mode().IsRegular()
}

// isLibrary reports whether a chart has templates for other charts only, so that helm renders none of it.
func isLibrary(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, chartFile))
	if err != nil {
		return false
	}
	var chart struct {
		Type string `json:"type"`
	}
	return yaml.Unmarshal(text, &chart) == nil && chart.Type == "library"
}

// helmError is where the error begins in what helm writes beside it, which may be lines of its log.
var helmError = regexp.MustCompile(`(?m)^Error: `)

// maxComplaint in bytes is how much is told of what helm complains about.
const maxComplaint = 2000

// renderChart runs the helm on the PATH, which renders a chart with its own values, without a cluster.
func (r *Reader) renderChart(dir string) ([]byte, error) {
	helm, err := exec.LookPath("helm")
	if err != nil {
		return nil, errors.New("to render this chart, helm must be on the PATH")
	}
	args := []string{"template"}
	if r.Namespace != "" {
		args = append(args, "--namespace="+r.Namespace)
	}
	var out, complaint bytes.Buffer
	cmd := exec.Command(helm, append(args, "--", absolute(dir))...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(complaint.String())
		if at := helmError.FindStringIndex(said); at != nil {
			said = said[at[0]:]
		}
		return nil, fmt.Errorf("helm template: %w: %s", err, said[:min(len(said), maxComplaint)])
	}
	return out.Bytes(), nil
}

// chartSource is what helm writes before each manifest: the template that it is of, below a folder of the chart's name.
var chartSource = regexp.MustCompile(`(?m)^---\n# Source: [^/\n]+/(.+)\n`)

// template is what came of one file of a chart.
type template struct {
	file string
	text []byte
}

// templates takes apart what helm wrote.
func templates(dir string, text []byte) []template {
	var all []template
	file, from := chartFile, 0
	add := func(end int) {
		if len(bytes.TrimSpace(text[from:end])) > 0 {
			all = append(all, template{filepath.Join(dir, filepath.FromSlash(path.Clean("/"+file))), text[from:end]})
		}
	}
	for _, m := range chartSource.FindAllSubmatchIndex(text, -1) {
		add(m[0])
		file, from = string(text[m[2]:m[3]]), m[0]
	}
	add(len(text))
	return all
}
