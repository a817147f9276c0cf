package agents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/agents"
	"github.com/podgrace/podgrace/fencing/agents/agentstest"
)

// The test program is a fence agent as well, by this name. It gets no environment, so what it is to do is asked of the test at the address that it has as parameter ip.
const scripted = "fence_scripted"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == scripted {
		fenceAgent()
	}
	os.Exit(m.Run())
}

// deed is what a scripted fence agent does.
type deed struct {
	Output string
	Exit   int
	Hang   bool // with a child that holds the output open
	Flood  bool // says it a thousand times
	Abort  bool // ends by a signal
	Leave  bool // ends, and leaves such a child behind
}

func fenceAgent() {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		select {} // until it is killed
	}
	input, err := io.ReadAll(os.Stdin)
	if err != nil || len(os.Args) > 1 {
		os.Exit(70)
	}
	address := ""
	for line := range strings.Lines(string(input)) {
		if value, ok := strings.CutPrefix(line, "ip="); ok {
			address = strings.TrimSpace(value)
		}
	}
	environment := strings.Join(os.Environ(), " ")
	resp, err := http.Post("http://"+address+"/?environment="+strconv.Itoa(len(os.Environ()))+"&names="+strings.ReplaceAll(environment, " ", ","), "text/plain", bytes.NewReader(input))
	if err != nil {
		os.Exit(71)
	}
	var d deed
	if err := json.NewDecoder(resp.Body).Decode(&d); err != nil {
		os.Exit(72)
	}
	fmt.Print(d.Output)
	if d.Hang || d.Leave {
		child := exec.Command("/proc/self/exe", "child")
		child.Args[0] = os.Args[0]
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			os.Exit(73)
		}
		if _, err := http.Get("http://" + address + "/child?pid=" + strconv.Itoa(child.Process.Pid)); err != nil {
			os.Exit(74)
		}
	}
	switch {
	case d.Hang:
		select {}
	case d.Flood:
		fmt.Print(strings.Repeat(d.Output, 1<<10))
	case d.Abort:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	os.Exit(d.Exit)
}

// scriptedAgent is an agent that runs the scripted program, which does what do says; child is told of each child that it starts.
func scriptedAgent(
	t *testing.T, parameters map[string]string, secret map[string][]byte, do func(parameters map[string]string) deed, child func(pid int),
) (fencing.Agent, v1alpha1.FenceMachine) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/child" {
			pid, err := strconv.Atoi(r.FormValue("pid"))
			if err != nil {
				t.Error(err)
			}
			child(pid)
			return
		}
		if got := r.URL.Query().Get("names"); r.URL.Query().Get("environment") != "2" || !strings.HasPrefix(got, "PATH=") || !strings.HasSuffix(got, ",LC_ALL=C.UTF-8") {
			t.Errorf("its environment is %s", got)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		given := map[string]string{}
		for line := range strings.Lines(string(body)) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			given[key] = value
		}
		if err := json.NewEncoder(w).Encode(do(given)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(program, filepath.Join(dir, scripted)); err != nil {
		t.Fatal(err)
	}
	fenceAgent := &v1alpha1.FenceAgent{Spec: v1alpha1.FenceAgentSpec{
		Type: v1alpha1.AgentExec, Identity: v1alpha1.IdentityConfigured, Exec: &v1alpha1.ExecAgent{Program: scripted, Parameters: parameters, Secret: "secret"},
	}}
	agent, err := agents.New(fenceAgent, agents.Options{
		ProgramDirs: []string{dir}, Credentials: func(context.Context, string) (map[string][]byte, error) { return secret, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return agent, v1alpha1.FenceMachine{SystemUUID: agentstest.UUID, Address: server.Listener.Addr().String()}
}

// obey is what a fence agent of ClusterLabs does, which knows on and off alone.
func obey(m *agentstest.Machine, p map[string]string) deed {
	if p["password"] != agentstest.Password {
		return deed{Exit: 1, Output: fmt.Sprintf("Failed: unable to log in with %s, %q", p["password"], p["password"])}
	}
	switch p["action"] {
	case "off":
		_ = m.Off() // never fails
		return deed{Output: "Success: Powered OFF\n"}
	case "monitor":
		return deed{}
	case "status":
		switch m.State() {
		case "On":
			return deed{}
		case "Off":
			return deed{Exit: 2}
		}
		return deed{Exit: 1}
	}
	return deed{Exit: 1, Output: "no such action"}
}

var execFaults = map[agentstest.Fault]deed{
	agentstest.Silent:      {Hang: true},
	agentstest.Rubbish:     {Exit: 2, Output: "usage: \x00\xff"}, // whatever it is asked
	agentstest.ServerError: {Exit: 1},
	agentstest.Truncated:   {Abort: true, Output: "Status: O"},
	agentstest.Huge:        {Flood: true, Output: strings.Repeat("Status: OFF\n", 100), Exit: 77},
}

func TestExec(t *testing.T) {
	agentstest.Run(t, agentstest.Backend{
		Faults: agentstest.Faults,
		New: func(t *testing.T, s *agentstest.Setup) (fencing.Agent, v1alpha1.FenceMachine) {
			return scriptedAgent(t, nil, map[string][]byte{"password": []byte(s.Password + "\n")}, func(p map[string]string) deed {
				if d, faulty := execFaults[s.Fault]; faulty {
					return d
				}
				return obey(s.Machine, p)
			}, func(int) { s.Reached() })
		},
	})
}

// always is a program that ends in one way for each action.
func always(t *testing.T, ends map[string]deed) (fencing.Agent, v1alpha1.FenceMachine) {
	return scriptedAgent(t, nil, map[string][]byte{"password": []byte(agentstest.Password)}, func(p map[string]string) deed { return ends[p["action"]] }, nil)
}

func TestExecStatus(t *testing.T) {
	tests := map[string]struct {
		status, monitor deed
		want            fencing.Power
		fails           string
	}{
		"on":                          {deed{}, deed{Exit: 1}, fencing.PowerOn, ""},
		"off":                         {deed{Exit: 2}, deed{}, fencing.PowerOff, ""},
		"off, but it ends so always":  {deed{Exit: 2}, deed{Exit: 2}, fencing.PowerUnknown, "fence_scripted monitor at"},
		"off, but it monitors no one": {deed{Exit: 2}, deed{Exit: 1, Output: "Unable to connect"}, fencing.PowerUnknown, "exit status 1: Unable to connect"},
		"off, by a signal":            {deed{Abort: true}, deed{}, fencing.PowerUnknown, "signal: killed"},
		"unreachable":                 {deed{Exit: 1, Output: "Failed:\n  timed out\n"}, deed{}, fencing.PowerUnknown, "exit status 1: Failed: timed out"},
		"something else":              {deed{Exit: 3}, deed{}, fencing.PowerUnknown, "exit status 3"},
		"a shell without the program": {deed{Exit: 127}, deed{}, fencing.PowerUnknown, "exit status 127"},
		"minus two":                   {deed{Exit: 254}, deed{}, fencing.PowerUnknown, "exit status 254"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			agent, m := always(t, map[string]deed{"status": test.status, "monitor": test.monitor})
			read, err := agent.Power(t.Context(), m)
			if read.Power != test.want || (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%+v, %v; want power %v and an error with %q", read, err, test.want, test.fails)
			}
		})
	}
	agent, m := always(t, map[string]deed{"off": {Exit: 2}})
	if err := agent.Off(t.Context(), m); err == nil || !strings.Contains(err.Error(), "exit status 2") {
		t.Errorf("off that ends with 2: %v", err)
	}
}

func TestExecLeavesNothingBehind(t *testing.T) {
	// As in a container, of which the fencer is the first process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]deed{"it ends": {Leave: true}, "it hangs": {Hang: true}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			children := make(chan int, 1)
			agent, m := scriptedAgent(t, nil, nil, func(map[string]string) deed { return d }, func(pid int) {
				children <- pid
				if d.Hang {
					cancel()
				}
			})
			if err := agent.Off(ctx, m); (err != nil) != d.Hang {
				t.Error(err)
			}
			pid := <-children
			if state := stateOf(pid); state != 0 {
				t.Errorf("child %d is there yet, in state %c", pid, state)
			}
		})
	}
}

// stateOf is the state of a process, as Z for one that nobody waits for; 0: there is none.
func stateOf(pid int) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return stat[bytes.LastIndexByte(stat, ')')+2]
}

func TestExecParameters(t *testing.T) {
	var given map[string]string
	agent, m := scriptedAgent(t,
		map[string]string{"lanplus": "1", "plug": "all", "ip": "192.0.2.1", "login": "agent"},
		map[string][]byte{"login": []byte("secret\n"), "password": []byte(`a=b#"c'`)},
		func(p map[string]string) deed { given = p; return deed{} }, nil)
	m.Parameters = map[string]string{"plug": "7", "login": "machine"}
	if err := agent.Off(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"action": "off", "lanplus": "1", "plug": "7", "ip": m.Address, "login": "secret", "password": `a=b#"c'`}
	if diff := cmp.Diff(want, given); diff != "" {
		t.Error(diff)
	}
}

func TestExecRefusesParameters(t *testing.T) {
	for words, test := range map[string]struct {
		machine map[string]string
		secret  map[string][]byte
	}{
		"value of parameter plug has more than one line":     {machine: map[string]string{"plug": "1\naction=on"}},
		"value of parameter password has more than one line": {secret: map[string][]byte{"password": []byte("a\r\nb")}},
		"value of parameter plug begins or ends":             {machine: map[string]string{"plug": " 1"}},
		"value of parameter password begins or ends":         {secret: map[string][]byte{"password": []byte("secret ")}},
		"value of parameter password is in quotes":           {secret: map[string][]byte{"password": []byte(`"s"`)}},
		"parameter action is not to be given":                {machine: map[string]string{"action": "on"}},
		"parameter option is not to be given":                {secret: map[string][]byte{"option": []byte("reboot")}},
		`"a=on\naction" is no parameter's name`:              {machine: map[string]string{"a=on\naction": "on"}},
		`"#" is no parameter's name`:                         {machine: map[string]string{"#": "x"}},
		`"" is no parameter's name`:                          {machine: map[string]string{"": "x"}},
	} {
		agent, m := scriptedAgent(t, nil, test.secret, func(p map[string]string) deed {
			t.Errorf("it was run with %q", p)
			return deed{}
		}, nil)
		m.Parameters = test.machine
		if err := agent.Off(t.Context(), m); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v; want an error with %q", err, words)
		}
	}
}

// ClusterLabs' fencing.py repeats a line with a parameter that it does not know, password or not.
func TestExecErrorsHaveNoSecrets(t *testing.T) {
	for name, output := range map[string]string{
		"in the middle": fmt.Sprintf("Parse error: Ignoring unknown option 'pasword=%s'\n", agentstest.Password),
		"quoted":        fmt.Sprintf("Executing: /usr/bin/ipmitool -P %q -P '%s'\n", agentstest.Password, strings.ReplaceAll(agentstest.Password, "'", `'"'"'`)),
		"cut in two":    strings.Repeat(agentstest.Password, 16<<10/len(agentstest.Password)+1), // maxOutput
	} {
		agent, m := always(t, map[string]deed{"off": {Exit: 1, Output: output}})
		err := agent.Off(t.Context(), m)
		if err == nil || !strings.Contains(err.Error(), "[secret]") {
			t.Errorf("%s: %v", name, err)
		}
		agentstest.NoSecrets(t, err)
	}
}

func TestExecConfiguration(t *testing.T) {
	for words, spec := range map[string]v1alpha1.FenceAgentSpec{
		"is no fence agent":               {Exec: &v1alpha1.ExecAgent{Program: "../bin/sh"}, Identity: v1alpha1.IdentityConfigured},
		"its identity must be Configured": {Exec: &v1alpha1.ExecAgent{Program: scripted}, Identity: v1alpha1.IdentityVerified},
		`type "Exec" without its section`: {},
	} {
		spec.Type = v1alpha1.AgentExec
		if _, err := agents.New(&v1alpha1.FenceAgent{Spec: spec}, agents.Options{}); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v; want an error with %q", err, words)
		}
	}
	agent, err := agents.New(&v1alpha1.FenceAgent{Spec: v1alpha1.FenceAgentSpec{
		Type: v1alpha1.AgentExec, Identity: v1alpha1.IdentityConfigured, Exec: &v1alpha1.ExecAgent{Program: "fence_no_such"},
	}}, agents.Options{ProgramDirs: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if read, err := agent.Power(t.Context(), v1alpha1.FenceMachine{}); err == nil || !strings.Contains(err.Error(), "the fencer's image must have it") {
		t.Errorf("%+v, %v", read, err)
	}
}

func TestManual(t *testing.T) {
	agent, err := agents.New(&v1alpha1.FenceAgent{Spec: v1alpha1.FenceAgentSpec{Type: v1alpha1.AgentManual}}, agents.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Off(t.Context(), v1alpha1.FenceMachine{}); err != nil {
		t.Error(err)
	}
	if read, err := agent.Power(t.Context(), v1alpha1.FenceMachine{}); read.Power != fencing.PowerUnknown || err != nil {
		t.Errorf("%+v, %v", read, err)
	}
}
