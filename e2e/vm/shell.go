package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// shell speaks with the program of e2e/vm/agent. Any process of the host can reach its port, hence the token.
type shell struct{ address, token string }

// ExitError says that a script in the guest failed.
type ExitError struct {
	Status int    // 128 and more: by a signal
	Output string // the end of standard output and error
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("exit status %d in the guest: %s", e.Status, e.Output)
}

// call makes a request and returns the answer's header and body.
func (s shell) call(ctx context.Context, method string, to *url.URL, size int64, body io.Reader) (http.Header, []byte, error) {
	ctx, cancel := cluster.Answered(ctx)
	defer cancel()
	to.Scheme, to.Host = "http", s.address
	request, err := http.NewRequestWithContext(ctx, method, to.String(), body)
	if err != nil {
		return nil, nil, err
	}
	request.ContentLength = size
	request.Header.Set("Authorization", "Bearer "+s.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("asking the guest: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the guest's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("the guest says %s: %s", response.Status, bytes.TrimSpace(text))
	}
	return response.Header, text, nil
}

func (s shell) run(ctx context.Context, script string) (string, error) {
	header, text, err := s.call(ctx, http.MethodPost, &url.URL{Path: "/run"}, int64(len(script)), bytes.NewReader([]byte(script)))
	if err != nil {
		return "", err
	}
	status, err := strconv.Atoi(header.Get("Exit-Status"))
	if err != nil {
		return "", fmt.Errorf("reading a script's status: %w", err)
	}
	if status != 0 {
		return string(text), &ExitError{Status: status, Output: string(cluster.Tail(text, 15))}
	}
	return string(text), nil
}

func (s shell) write(ctx context.Context, path string, content io.Reader, size int64, mode fs.FileMode) error {
	to := &url.URL{Path: "/file" + path, RawQuery: fmt.Sprintf("mode=%o", mode.Perm())}
	if _, _, err := s.call(ctx, http.MethodPut, to, size, content); err != nil {
		return fmt.Errorf("writing %s in the guest: %w", path, err)
	}
	return nil
}

func (s shell) read(ctx context.Context, paths []string) (map[string]string, error) {
	body, err := json.Marshal(paths)
	if err != nil {
		return nil, err
	}
	_, text, err := s.call(ctx, http.MethodPost, &url.URL{Path: "/read"}, int64(len(body)), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	var values map[string]string
	if err := json.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("reading files of the guest: %w", err)
	}
	return values, nil
}

// Run runs a script with bash as root in the guest, without input, and returns what it wrote to standard output and
// error. A script that fails is an *ExitError. What it leaves in the background is killed with it, and so is the script
// when ctx ends; systemd-run is for what shall stay.
func (n *Node) Run(ctx context.Context, script string) (string, error) {
	return n.machine.shell.run(ctx, script)
}

// Copy copies a file of the host into the guest, to an absolute path, with its folders.
func (n *Node) Copy(ctx context.Context, localFile, guestPath string, mode fs.FileMode) error {
	file, err := os.Open(localFile)
	if err != nil {
		return fmt.Errorf("copying into the guest: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("copying into the guest: %w", err)
	}
	return n.machine.shell.write(ctx, guestPath, file, info.Size(), mode)
}

// Write writes a file in the guest, to an absolute path, with its folders.
func (n *Node) Write(ctx context.Context, guestPath string, content []byte, mode fs.FileMode) error {
	return n.machine.shell.write(ctx, guestPath, bytes.NewReader(content), int64(len(content)), mode)
}

// Read reads small text files of the guest, such as those of cgroups and /proc, in one go. What cannot be read is not in
// the result; white space at the end of a value is taken off.
func (n *Node) Read(ctx context.Context, paths ...string) (map[string]string, error) {
	return n.machine.shell.read(ctx, paths)
}

// awaitShell returns when the guest answers. QEMU accepts connections before the guest does.
func (m *machine) awaitShell(ctx context.Context) error {
	err := cluster.Until(ctx, "the agent of guest "+m.options.name, func(ctx context.Context) (bool, error) {
		// Without an answer at first QEMU asks the guest again after ever longer times; a new connection is quicker.
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := m.shell.read(ctx, nil)
		if _, unanswered := errors.AsType[*url.Error](err); unanswered {
			return false, nil
		}
		return err == nil, err
	}, m.process)
	if err != nil {
		return m.explain(err)
	}
	return nil
}
