package fencing

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

func TestSelfFenceOf(t *testing.T) {
	tests := map[string]struct {
		says string
		want string // in what is wrong; empty: it can be used
	}{
		"armed":             {`{"nodeUID":"u","bootID":"b","patience":"2m","timeout":"30s","watchdog":"i6300ESB timer"}`, ""},
		"off":               {`{"bootID":"b","off":"12s"}`, "is not armed"},
		"armed, and off":    {`{"nodeUID":"u","bootID":"b","patience":"2m","timeout":"30s","off":"12s"}`, "is not armed"},
		"of another Node":   {`{"nodeUID":"v","bootID":"b","patience":"2m","timeout":"30s"}`, "another Node"},
		"of no Node":        {`{"bootID":"b","patience":"2m","timeout":"30s"}`, "another Node"},
		"of another boot":   {`{"bootID":"a","patience":"2m","timeout":"30s"}`, "another boot"},
		"of no boot":        {`{"patience":"2m","timeout":"30s"}`, "another boot"},
		"without a timeout": {`{"nodeUID":"u","bootID":"b","patience":"2m"}`, "which nobody means"},
		"negative":          {`{"nodeUID":"u","bootID":"b","patience":"-2m","timeout":"30s"}`, "which nobody means"},
		"for ever":          {`{"nodeUID":"u","bootID":"b","patience":"2000h","timeout":"30s"}`, "which nobody means"},
		"no JSON":           {`yes`, "can't be read"},
		"a number":          {`{"bootID":"b","patience":120,"timeout":30}`, "can't be read"},
		"a novel":           {`{"nodeUID":"u","bootID":"b","watchdog":"` + strings.Repeat("x", maxSelfFence) + `"}`, "is longer than"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{v1alpha1.AnnotationSelfFence: test.says}}}
			n.Status.NodeInfo.BootID = "b"
			got, why := selfFenceOf(n)
			if (got == nil) != (test.want != "") || !strings.Contains(why, test.want) {
				t.Errorf("%+v, %q", got, why)
			}
		})
	}
	if s, why := selfFenceOf(&corev1.Node{}); s != nil || why != "" {
		t.Errorf("without it: %+v, %q", s, why)
	}
}

func FuzzSelfFence(f *testing.F) {
	f.Add(`{"nodeUID":"u","bootID":"b","patience":"2m","timeout":"30s"}`)
	f.Add(`{"bootID":"b","off":"1"}`)
	f.Fuzz(func(t *testing.T, text string) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{v1alpha1.AnnotationSelfFence: text}}}
		n.Status.NodeInfo.BootID = "b"
		s, _ := selfFenceOf(n)
		if s == nil {
			return
		}
		if after := resetAfter(s); s.BootID != "b" || s.Off != "" || after < s.Patience.Duration+3*s.Timeout.Duration || after > 10*time.Hour {
			t.Errorf("%+v: %s", s, after)
		}
	})
}

// A clock that is a twelfth slow has the machine fed for longer, and one that is a twelfth fast has the fencer wait for less.
func TestClocksThatAreSlewed(t *testing.T) {
	s := &v1alpha1.SelfFence{Patience: metav1.Duration{Duration: 2 * time.Minute}, Timeout: metav1.Duration{Duration: 30 * time.Second}}
	alive := (2*time.Minute + 3*30*time.Second) * 12 / 11
	if waits := resetAfter(s) * 12 / 13; waits < alive {
		t.Errorf("the fencer waits for %s, and the machine lives for %s", waits, alive)
	}
}

func TestUnfit(t *testing.T) {
	armed := &v1alpha1.SelfFence{BootID: "b", Pausable: true}
	never := &v1alpha1.FenceAgentSpec{Watchdog: &v1alpha1.WatchdogAgent{NeverPaused: true}}
	for name, test := range map[string]struct {
		node  Node
		agent *v1alpha1.FenceAgentSpec
		want  bool
	}{
		"a machine of its own":               {Node{SelfFence: &v1alpha1.SelfFence{}}, &v1alpha1.FenceAgentSpec{}, false},
		"a virtual one":                      {Node{SelfFence: armed}, &v1alpha1.FenceAgentSpec{}, true},
		"a virtual one that is never paused": {Node{SelfFence: armed}, never, false},
		"nothing is said":                    {Node{}, never, true},
		"nonsense is said":                   {Node{NoSelfFence: "nonsense"}, never, true},
	} {
		if why := unfit(&test.node, test.agent); (why != "") != test.want {
			t.Errorf("%s: %q", name, why)
		}
	}
}
