package terminate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Ledger remembers, beyond the agent's life but not beyond the machine's, which memory.high was written.
type Ledger interface {
	Put(Entry) error
	Drop(uid types.UID) error
	All() ([]Entry, error)
}

// Entry is the memory.high of one pod.
type Entry struct {
	UID  types.UID `json:"uid"`
	Path string    `json:"path"`
	// Was and Wrote are what memory.high held before, and what was written.
	Was   string `json:"was"`
	Wrote string `json:"wrote"`
	// Then is what was written after that; empty: nothing.
	Then string `json:"then,omitempty"`
}

// Files is a Ledger of one file for each pod. The folder belongs on a tmpfs that outlives the agent, such as /run: nothing is
// synced, because cgroups don't outlive the kernel either.
type Files struct{ Dir string }

const entrySuffix = ".json"

// Put writes an entry at once or not at all.
func (f Files) Put(e Entry) error {
	text, err := json.Marshal(e)
	if err == nil {
		err = os.MkdirAll(f.Dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(f.path(e.UID)+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(f.path(e.UID)+".new", f.path(e.UID))
	}
	if err != nil {
		return fmt.Errorf("note what is written of %s: %w", e.Path, err)
	}
	return nil
}

// Drop removes an entry, if there is one.
func (f Files) Drop(uid types.UID) error {
	if err := os.Remove(f.path(uid)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("drop the note of what was written: %w", err)
	}
	return nil
}

// All returns the entries. One that can't be read is an error, beside the others.
func (f Files) All() (entries []Entry, err error) {
	list, err := os.ReadDir(f.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, file := range list {
		if !strings.HasSuffix(file.Name(), entrySuffix) {
			continue
		}
		var e Entry
		text, readErr := os.ReadFile(filepath.Join(f.Dir, file.Name()))
		if readErr == nil {
			readErr = json.Unmarshal(text, &e)
		}
		if readErr != nil {
			err = errors.Join(err, fmt.Errorf("read %s: %w", file.Name(), readErr))
			continue
		}
		entries = append(entries, e)
	}
	return entries, err
}

func (f Files) path(uid types.UID) string {
	return filepath.Join(f.Dir, filepath.Base(string(uid))+entrySuffix)
}

// Recover undoes what an agent that was killed left behind. It is for the start, before the first Ask. A pod that the API server
// has let go (terminating) keeps its limit: the cgroup goes with it.
func (t *Terminator) Recover(ctx context.Context, terminating func(types.UID) bool) error {
	entries, err := t.ledger.All()
	for _, e := range entries {
		if terminating(e.UID) {
			err = errors.Join(err, t.ledger.Drop(e.UID))
			continue
		}
		err = errors.Join(err, t.undo(ctx, e))
	}
	return err
}
