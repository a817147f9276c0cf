package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/cli/launch"
	"github.com/podgrace/podgrace/internal/program/version"
)

// fakeDoes is what the fake podgrace-preview does, but for telling how it was started.
const fakeDoes = "PODGRACE_TEST_PREVIEW"

// started is how the fake was started.
type started struct {
	Path, Stdin string
	Args        []string
	By          launch.Starter
	PID         int
}

// fakePreview is this test binary under the name podgrace-preview.
func fakePreview() {
	if len(os.Args) > 1 && os.Args[1] == "__complete" {
		fmt.Printf("%s\tall that was typed\nweb\tDeployment\n:4\n", strings.Join(os.Args[2:], ","))
		os.Exit(0)
	}
	switch does := os.Getenv(fakeDoes); does {
	case "answer":
		answer()
	case "fail with 1", "fail with 2":
		fmt.Fprintf(os.Stderr, "%s: a complaint\n%[1]s: another\n", version.Preview)
		os.Exit(int(does[len(does)-1] - '0'))
	case "die":
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(err)
		}
		time.Sleep(time.Hour)
	case "wait for a signal":
		fmt.Println("waiting")
		time.Sleep(time.Hour) // select {} would be a deadlock to the runtime
	case "catch a signal":
		caught := make(chan os.Signal, 1)
		signal.Notify(caught, syscall.SIGTERM)
		fmt.Println("waiting")
		<-caught
		os.Exit(3)
	default:
		stdin, _ := io.ReadAll(os.Stdin)
		told := started{Path: os.Args[0], Stdin: string(stdin), Args: os.Args[1:], By: launch.By(os.Getenv), PID: os.Getpid()}
		if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "a complaint")
		code, _ := strconv.Atoi(does)
		os.Exit(code)
	}
}

// installed puts this test binary into a new folder, under the names of programs: as itself, not as a link to what is elsewhere.
func installed(t *testing.T, names ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range names {
		if err := os.Link(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// podgrace is the program of a folder. The PATH is what the test says.
func podgrace(t *testing.T, program, path string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "PATH="+path, asProgram+"=1", "PODGRACE_COMMAND=of somebody else")
	return cmd
}

// ran is what came of a command.
func ran(t *testing.T, cmd *exec.Cmd) (code int, out, complaints string) {
	t.Helper()
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// tells is what the fake tells.
func tells(t *testing.T, out string) (s started) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	return s
}

func TestPreviewIsStarted(t *testing.T) {
	both, alone, other := installed(t, "podgrace", version.Preview), installed(t, "podgrace"), installed(t, version.Preview)
	links := t.TempDir()
	if err := os.Symlink(filepath.Join(both, "podgrace"), filepath.Join(links, "kubectl-podgrace")); err != nil {
		t.Fatal(err)
	}
	args := []string{"-f", "-", "--policy=a b", "", "--help", "--version", "-o", "json", "--", "preview", "*", "line\nbreak"}
	for name, test := range map[string]struct{ program, path, starts, command string }{
		"beside":                       {both + "/podgrace", "", both, "podgrace preview"},
		"beside, and on the PATH":      {both + "/podgrace", other, both, "podgrace preview"},
		"on the PATH":                  {alone + "/podgrace", links + ":" + other + ":" + both, other, "podgrace preview"},
		"beside what a link leads to":  {links + "/kubectl-podgrace", other, both, "kubectl podgrace preview"},
		"a folder of the PATH is gone": {alone + "/podgrace", links + "/gone:" + other, other, "podgrace preview"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := podgrace(t, test.program, test.path, append([]string{"preview"}, args...)...)
			cmd.Stdin = strings.NewReader("a manifest")
			code, out, complaints := ran(t, cmd)
			want := started{
				Path: filepath.Join(test.starts, version.Preview), Stdin: "a manifest", Args: args, PID: cmd.Process.Pid,
				By: launch.Starter{Command: test.command, Version: version.Of(version.CommandLine).Version},
			}
			if diff := cmp.Diff(want, tells(t, out)); diff != "" || code != 0 || complaints != "a complaint\n" {
				t.Errorf("exit %d, %q (-want +got):\n%s", code, complaints, diff)
			}
		})
	}
}

func TestExitCodesOfPreview(t *testing.T) {
	both := installed(t, "podgrace", version.Preview)
	for _, want := range []int{0, 1, 2, 3, 4, 77} {
		cmd := podgrace(t, both+"/podgrace", "", "preview")
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", fakeDoes, want))
		if code, _, complaints := ran(t, cmd); code != want || complaints != "a complaint\n" {
			t.Errorf("exit %d, want %d: %q", code, want, complaints)
		}
	}
}

func TestPreviewIsMissing(t *testing.T) {
	alone, other, empty := installed(t, "podgrace"), installed(t, version.Preview), t.TempDir()
	unusable := installed(t, "podgrace")
	if err := os.WriteFile(filepath.Join(unusable, version.Preview), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := installed(t, "podgrace")
	if err := os.WriteFile(filepath.Join(broken, version.Preview), []byte("\x7fELF, of another kind of machine"), 0o700); err != nil {
		t.Fatal(err)
	}
	missing := "podgrace: podgrace-preview is neither in " + alone + ` nor on the PATH: "make build" in a clone of Podgrace makes it, as bin/podgrace-preview` + "\n"
	for name, test := range map[string]struct {
		program, path, args string
		code                int
		out, complaints     string // "...": and more
	}{
		"missing":                  {alone, empty, "preview -f x.yaml", 2, "", missing},
		"no PATH":                  {alone, "", "preview", 2, "", missing},
		"its help":                 {alone, empty, "preview --help", 0, "Preview where a pod would be scheduled...", ""},
		"its help, in short":       {alone, empty, "preview -h", 0, "Preview where a pod would be scheduled...", ""},
		"help of it":               {alone, other, "help preview", 0, "Preview where a pod would be scheduled...", ""},
		"in the folder of now":     {alone, ".:" + empty, "preview", 2, "", "podgrace: podgrace-preview is not started: the PATH names its folder..."},
		"an empty part of a PATH":  {alone, empty + ":", "preview", 2, "", "podgrace: podgrace-preview is not started: the PATH names its folder..."},
		"a folder seen from here":  {alone, "../" + filepath.Base(other), "preview", 2, "", "podgrace: ../" + filepath.Base(other) + "/podgrace-preview is not started..."},
		"beside, not a program":    {unusable, other, "preview", 2, "", "podgrace: exec: \"" + unusable + "/podgrace-preview\": permission denied\n"},
		"of another kind":          {broken, other, "preview", 1, "", "podgrace: start " + broken + "/podgrace-preview: exec format error\n"},
		"completion of flags":      {alone, empty, "__complete preview --ou", 0, ":0\n", "..."},
		"completion of nothing":    {alone, empty, "__complete prev", 0, "preview\tPreview where...", "..."},
		"completion of the parent": {alone, ".", "__complete preview -f", 0, ":0\n", "..."},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := podgrace(t, test.program+"/podgrace", test.path, strings.Fields(test.args)...)
			cmd.Dir = other
			code, out, complaints := ran(t, cmd)
			if code != test.code || !says(out, test.out) || !says(complaints, test.complaints) {
				t.Errorf("exit %d, want %d: %q, %q", code, test.code, out, complaints)
			}
		})
	}
}

// says takes what ends with "..." as a beginning.
func says(text, want string) bool {
	if beginning, ok := strings.CutSuffix(want, "..."); ok {
		return strings.HasPrefix(text, beginning)
	}
	return text == want
}

func TestPreviewCompletes(t *testing.T) {
	both := installed(t, "podgrace", "kubectl_complete-podgrace", version.Preview)
	for _, args := range [][]string{{"podgrace", "__complete"}, {"kubectl_complete-podgrace"}} {
		cmd := podgrace(t, filepath.Join(both, args[0]), "", append(args[1:], "preview", "-f", "a b", "--state=x", "--output", "")...)
		code, out, _ := ran(t, cmd)
		if want := "-f,a b,--state=x,--output,\tall that was typed\nweb\tDeployment\n:4\n"; code != 0 || out != want {
			t.Errorf("%q: exit %d, got %q, want %q", args, code, out, want)
		}
	}
}

// Signals are the program's: one that it does not catch ends it, and whoever waits sees so; of one that it catches it makes an exit code.
func TestSignalsReachPreview(t *testing.T) {
	both := installed(t, "podgrace", version.Preview)
	for name, test := range map[string]struct {
		does string
		sig  syscall.Signal
		ends func(syscall.WaitStatus) bool
	}{
		"Ctrl-C":  {"wait for a signal", syscall.SIGINT, func(s syscall.WaitStatus) bool { return s.Signaled() && s.Signal() == syscall.SIGINT }},
		"SIGTERM": {"wait for a signal", syscall.SIGTERM, func(s syscall.WaitStatus) bool { return s.Signaled() && s.Signal() == syscall.SIGTERM }},
		"caught":  {"catch a signal", syscall.SIGTERM, func(s syscall.WaitStatus) bool { return s.Exited() && s.ExitStatus() == 3 }},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := podgrace(t, both+"/podgrace", "", "preview")
			cmd.Env = append(cmd.Env, fakeDoes+"="+test.does)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "waiting\n" {
				t.Fatalf("%q, %v", line, err)
			}
			if err := cmd.Process.Signal(test.sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // that it failed is what the state says
			if status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); !test.ends(status) {
				t.Errorf("ended by %v", cmd.ProcessState)
			}
		})
	}
}
