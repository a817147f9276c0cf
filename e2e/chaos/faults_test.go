package main

import (
	"context"
	"errors"
	"os/exec"
	"testing"
)

// One that has just ended by itself can't be paused, whatever it is: that is no fault that was made, and the run goes on. Nor has one to go on that is gone by then.
func TestPauseOfWhatEnded(t *testing.T) {
	process := exec.CommandContext(t.Context(), "sleep", "600")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	find := func() (int, error) { return process.Process.Pid, nil }
	mend, err := pause(find)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait()
	if err := mend(t.Context()); err != nil {
		t.Errorf("it is gone, and was to go on: %v", err)
	}
	if _, err := pause(find); !errors.Is(err, errNotMade) {
		t.Errorf("it is gone, and was paused: %v", err)
	}
}

// scriptedRuntime is a kubelet and a containerd of which each starts only once what it needs is there.
type scriptedRuntime struct {
	containerd, kubelet bool // runs
	refuses             int  // how often the kubelet ends again
	started             []string
}

func exited(runs bool) error {
	if runs {
		return nil
	}
	return errors.New("it ended")
}

func (r *scriptedRuntime) ContainerdExited() error { return exited(r.containerd) }
func (r *scriptedRuntime) KubeletExited() error    { return exited(r.kubelet) }

func (r *scriptedRuntime) RestartContainerd(context.Context) error {
	r.containerd, r.started = true, append(r.started, "containerd")
	return nil
}

func (r *scriptedRuntime) RestartKubelet(context.Context) error {
	r.started = append(r.started, "kubelet")
	if r.refuses--; r.refuses >= 0 || !r.containerd {
		return errors.New("it ended again")
	}
	r.kubelet = true
	return nil
}

// What has ended is started again, containerd before the kubelet that needs it, and as often as it takes.
func TestStartEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		runtime scriptedRuntime
		ended   int
		started int
	}{
		"both run":                     {scriptedRuntime{containerd: true, kubelet: true}, 0, 0},
		"containerd ended":             {scriptedRuntime{kubelet: true}, 1, 1},
		"the kubelet ends once more":   {scriptedRuntime{containerd: true, refuses: 1}, 1, 2},
		"containerd, and then both do": {scriptedRuntime{refuses: 1}, 2, 3},
	} {
		ended, err := startEnded(t.Context(), &tc.runtime)
		if err != nil || len(ended) != tc.ended || len(tc.runtime.started) != tc.started || !tc.runtime.containerd || !tc.runtime.kubelet {
			t.Errorf("%s: %v, %v; %q ended", name, tc.runtime, err, ended)
		}
	}
}
