// Command agent runs in a guest and does there what the host asks: scripts, and files to read and to write. It is one
// program that stays, since in an emulated machine it is the start of programs that takes long.
//
//	POST /run          a bash script; its output comes back, and its exit status in the header Exit-Status
//	PUT  /file/PATH    writes a file, with the query's mode
//	POST /read         a JSON list of paths; the contents of those that can be read come back
package main

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	listen    = ":10022"
	tokenFile = "/etc/podgrace/token"
)

func main() {
	token, err := os.ReadFile(tokenFile)
	if err == nil {
		err = http.ListenAndServe(listen, handler("Bearer "+string(token)))
	}
	fmt.Fprintln(os.Stderr, "agent:", err)
	os.Exit(1)
}

func handler(authorization string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /run", run)
	mux.HandleFunc("PUT /file/{path...}", write)
	mux.HandleFunc("POST /read", read)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(authorization)) != 1 {
			http.Error(w, "no or a wrong token", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// run gives bash the script as a file that is no file, so that its standard input stays free. When the script is done,
// or the host no longer waits for it, all that it started is killed but what has left its process group.
func run(w http.ResponseWriter, r *http.Request) {
	script, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer reader.Close()
	go func() {
		_, _ = writer.Write(script) // bash may end before it has read all
		_ = writer.Close()
	}()
	output, err := os.CreateTemp("", "podgrace-output-")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer output.Close()
	defer os.RemoveAll(output.Name())
	cmd := exec.CommandContext(r.Context(), "bash", "/dev/fd/3")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = output, output, []*os.File{reader}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = kill
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = kill() // fails where nothing is left
	text, err := os.ReadFile(output.Name())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Exit-Status", strconv.Itoa(status(cmd.ProcessState)))
	_, _ = w.Write(text)
}

// status is the exit status as a shell has it.
func status(state *os.ProcessState) int {
	if wait, ok := state.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
		return 128 + int(wait.Signal())
	}
	return state.ExitCode()
}

// write makes a file with its folders, under a temporary name first.
func write(w http.ResponseWriter, r *http.Request) {
	mode, err := strconv.ParseUint(r.FormValue("mode"), 8, 32)
	if err == nil {
		err = replace("/"+r.PathValue("path"), r.Body, fs.FileMode(mode).Perm())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func replace(path string, content io.Reader, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".podgrace-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(file.Name()) // finds nothing where all went well
	_, err = io.Copy(file, content)
	if err := errors.Join(err, file.Chmod(mode), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

func read(w http.ResponseWriter, r *http.Request) {
	var paths []string
	if err := json.NewDecoder(r.Body).Decode(&paths); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	values := map[string]string{}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil {
			values[path] = strings.TrimRight(string(text), " \n")
		}
	}
	var answer bytes.Buffer
	if err := json.NewEncoder(&answer).Encode(values); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = answer.WriteTo(w)
}
