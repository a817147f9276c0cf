package replica

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// flags are what every program has.
type flags struct{ Options }

func (f *flags) AddFlags(set *pflag.FlagSet) {
	f.Options.AddFlags(set, Usage{Namespace: "namespace of its Lease", LeaderElect: "elect one"})
}

// What is wrong is told all at once, with 2; why it ended with 1; and what it is asked, with 0.
func TestExecute(t *testing.T) {
	for name, tc := range map[string]struct {
		args     []string
		env      map[string]string
		fails    error
		code     int
		out, log string // has
		runs     bool
	}{
		"none":         {runs: true},
		"no listeners": {args: []string{"--health-port=0", "--metrics-port=0"}, runs: true},
		"help":         {args: []string{"--help"}, log: "program does this.\n\nUsage:\n  program [flags]\n\nFlags:\n      --kubeconfig"},
		"version":      {args: []string{"--version"}, out: "podgrace-program "},
		"argument":     {args: []string{"serve"}, code: 2, log: `program: unexpected argument "serve"`},
		"unknown flag": {args: []string{"--nme"}, code: 2, log: "program: unknown flag: --nme"},
		"address":      {args: []string{"--bind-address=localhost"}, code: 2, log: `--bind-address: "localhost" is not an IP address`},
		"all that is wrong": {args: []string{"--health-port=-1", "--metrics-port=65536", "--log-format=yaml"}, code: 2,
			log: "program: --health-port: -1 is not in 0..65535\n--metrics-port: 65536 is not in 0..65535\n--log-format: \"yaml\" is neither text nor json\n"},
		"memory":        {env: map[string]string{"POD_MEMORY_LIMIT": "1Gi"}, code: 2, log: `program: POD_MEMORY_LIMIT: "1Gi" is no number of bytes`},
		"fails":         {fails: errors.New("no disk"), code: 1, log: "program: no disk\n", runs: true},
		"fails as JSON": {args: []string{"--log-format=json"}, fails: errors.New("no disk"), code: 1, log: `"msg":"ended","program":"program","err":"no disk"`, runs: true},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			f, ran := &flags{DefaultOptions()}, false
			c := Command{Name: "program", Program: "podgrace-program", Does: "does this.", Flags: f, Log: &f.Log, Run: func(context.Context, io.Writer) error {
				ran = true
				return tc.fails
			}}
			var out, log bytes.Buffer
			code := c.Execute(t.Context(), tc.args, &out, &log)
			if code != tc.code || ran != tc.runs || !strings.Contains(out.String(), tc.out) || !strings.Contains(log.String(), tc.log) || tc.log == "" && log.Len() > 0 {
				t.Errorf("exit %d, ran: %t, printed %q, logged:\n%s", code, ran, out.String(), log.String())
			}
		})
	}
}

func TestNamespace(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "elsewhere")
	for arg, want := range map[string]string{"": "elsewhere", "named": "named"} {
		o := DefaultOptions()
		o.Namespace = arg
		if err := o.Complete(); err != nil || o.Namespace != want {
			t.Errorf("%q: got %q, %v", arg, o.Namespace, err)
		}
	}
	t.Setenv("POD_NAMESPACE", "")
	o := DefaultOptions()
	if err := o.Complete(); err != nil || o.Namespace != "podgrace-system" {
		t.Errorf("got %q, %v", o.Namespace, err)
	}
}
