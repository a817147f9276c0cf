package state

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/renameio/v2"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// checkpointVersion is of the format of Checkpoint.
const checkpointVersion = 1

// Checkpoint is the last known state of a node, for a start without an API server.
type Checkpoint struct {
	// Saved is when it was written. It is for people: nothing is decided by it.
	Saved  time.Time                                  `json:"saved"`
	Node   *corev1.Node                               `json:"node"`
	Policy *v1alpha1.NodePolicy                       `json:"policy,omitempty"`
	Pods   []*corev1.Pod                              `json:"pods"`
	Config *kubeletconfigv1beta1.KubeletConfiguration `json:"kubeletConfig,omitempty"`
}

// sealed is a checkpoint as it is stored: the sum is over the very bytes of the content.
type sealed struct {
	Version int             `json:"version"`
	SHA256  string          `json:"sha256"`
	Content json.RawMessage `json:"content"`
}

// ErrNoCheckpoint means that there is none yet.
var ErrNoCheckpoint = errors.New("there is no checkpoint")

// SaveCheckpoint replaces the file atomically: a reader sees the old one or the new one, also after a crash.
func SaveCheckpoint(file string, c *Checkpoint) (err error) {
	// Only root may read it: the pods' specs are in it. Their environments, which can hold secrets, are not (slimPod).
	to, err := renameio.NewPendingFile(file, renameio.WithPermissions(0o600))
	if err != nil {
		return fmt.Errorf("save the checkpoint: %w", err)
	}
	defer func() { _ = to.Cleanup() }() // of no effect once it replaced the file
	if err := writeCheckpoint(to.File, c); err != nil {
		return fmt.Errorf("save the checkpoint: %w", err)
	}
	if err := to.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("save the checkpoint: %w", err)
	}
	return nil
}

// writeCheckpoint writes one pod after the other: all of them at once would be in memory twice, encoded and not. The sum comes before
// what it is of, and is filled in at last.
func writeCheckpoint(to io.WriteSeeker, c *Checkpoint) error {
	out := bufio.NewWriter(to)
	head := fmt.Sprintf(`{"version":%d,"sha256":"`, checkpointVersion)
	_, _ = fmt.Fprintf(out, `%s%064d","content":`, head, 0) // a failure stays until Flush
	hash := sha256.New()
	if err := c.encode(io.MultiWriter(hash, out)); err != nil {
		return err
	}
	_ = out.WriteByte('}')
	if err := out.Flush(); err != nil {
		return err
	}
	if _, err := to.Seek(int64(len(head)), io.SeekStart); err != nil {
		return err
	}
	_, err := io.WriteString(to, hex.EncodeToString(hash.Sum(nil)))
	return err
}

// encode writes the checkpoint as encoding/json does, but for the order: the pods are last.
func (c *Checkpoint) encode(to io.Writer) error {
	rest := *c
	rest.Pods = nil
	text, err := json.Marshal(&struct {
		*Checkpoint
		Pods []*corev1.Pod `json:"pods,omitempty"` // hides the other
	}{Checkpoint: &rest})
	if err != nil {
		return fmt.Errorf("encode the checkpoint: %w", err)
	}
	separator := `,"pods":[`
	if _, err := to.Write(text[:len(text)-1]); err != nil {
		return err
	}
	for _, pod := range c.Pods {
		text, err := json.Marshal(pod)
		if err != nil {
			return fmt.Errorf("encode the checkpoint: %w", err)
		}
		if _, err := fmt.Fprintf(to, "%s%s", separator, text); err != nil {
			return err
		}
		separator = ","
	}
	if len(c.Pods) == 0 {
		_, err = io.WriteString(to, separator)
	}
	if err == nil {
		_, err = io.WriteString(to, "]}")
	}
	return err
}

// LoadCheckpoint reads it. A file that is damaged or of another version is an error: a node's limits must not be planned from it.
func LoadCheckpoint(file string) (*Checkpoint, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoCheckpoint
	}
	if err != nil {
		return nil, fmt.Errorf("read the checkpoint: %w", err)
	}
	var s sealed
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read the checkpoint %s: it is damaged: %w", file, err)
	}
	if s.Version != checkpointVersion {
		return nil, fmt.Errorf("read the checkpoint %s: it is of version %d, this program reads %d", file, s.Version, checkpointVersion)
	}
	if s.SHA256 != sum(s.Content) {
		return nil, fmt.Errorf("read the checkpoint %s: it is damaged: its checksum does not match", file)
	}
	var c Checkpoint
	if err := json.Unmarshal(s.Content, &c); err != nil {
		return nil, fmt.Errorf("read the checkpoint %s: %w", file, err)
	}
	if c.Node == nil {
		return nil, fmt.Errorf("read the checkpoint %s: it names no node", file)
	}
	for _, p := range c.Pods {
		if p != nil {
			slimPod(p) // an earlier enforcer kept more
		}
	}
	return &c, nil
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

// Saver keeps a state for a start without an API server.
type Saver interface {
	Save(State) error
}

// SaveEvery is how often the checkpoint is written at most.
const SaveEvery = 10 * time.Second

// Saving writes the checkpoint when the plan changes: soon, but not for each of the many changes of a pod that starts.
type Saving struct {
	pending *State // to be saved; nil: the checkpoint is up to date
	last    State  // the last one that was pending
	tried   time.Time
	failed  bool
}

// Offer takes a state; changed reports whether its plan differs from the last one's. Only a state from the API server is saved.
func (s *Saving) Offer(state State, changed bool) {
	if !state.Live || state.PolicyUnknown {
		return
	}
	// The plan has neither the mode nor the thresholds.
	changed = changed || s.pending != nil || !apiequality.Semantic.DeepEqual(s.last.Policy, state.Policy) || !apiequality.Semantic.DeepEqual(s.last.Config, state.Config)
	if changed {
		s.pending, s.last = &state, state
	}
}

// Due has a value when it is time to save; nil, which blocks, if nothing is pending.
func (s *Saving) Due(c clock.Clock) <-chan time.Time {
	if s.pending == nil {
		return nil
	}
	return c.After(SaveEvery - c.Since(s.tried))
}

// Save writes the pending state if it is due, or if this is the last chance to. A failed write is retried.
func (s *Saving) Save(to Source, c clock.PassiveClock, last bool, log logr.Logger) {
	saver, ok := to.(Saver)
	if !ok {
		s.pending = nil
	}
	if s.pending == nil || !last && !s.tried.IsZero() && c.Since(s.tried) < SaveEvery {
		return
	}
	s.tried = c.Now()
	err := saver.Save(*s.pending)
	if err == nil {
		s.pending = nil
	} else if !s.failed {
		log.Error(err, "failed to save checkpoint, the previous one stays")
	}
	s.failed = err != nil
}
