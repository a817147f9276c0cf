package explain_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/cli/scheduling"
)

func print(t *testing.T, in explain.Input, style explain.Style) string {
	t.Helper()
	var out bytes.Buffer
	if err := explain.Text(&out, explain.Explain(in), style); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Colors are all that the style adds, and are on the labels alone.
func TestColor(t *testing.T) {
	in := web(grace(0), podPolicy(t, "p", 0, gives("gone")))
	colored, plain := print(t, in, explain.Style{Width: 100, Color: true}), print(t, in, explain.Style{Width: 100})
	if diff := cmp.Diff(plain, regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(colored, "")); diff != "" {
		t.Errorf("-plain +colored:\n%s", diff)
	}
	for _, label := range []string{"\x1b[1mPriority\x1b[0m", "\x1b[1m\x1b[31mWarnings\x1b[0m", "\x1b[1m\x1b[33mUnknown\x1b[0m"} {
		said(t, colored, label)
	}
}

// A pod with many containers and many policies still fits, and it says what it leaves out.
func TestManyContainers(t *testing.T) {
	in := web(edit(func(p *corev1.Pod) {
		for i := range 20 {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i), Lifecycle: calls})
		}
	}))
	for i := range 20 {
		podPolicy(t, fmt.Sprintf("p%02d", i), 0, allows("a"))(&in)
		in.Policies[i].Spec.Match = nil
	}
	in.Namespace.Name = "kube-system" // so that none is for it
	text := print(t, in, explain.Style{Width: 100})
	said(t, text, "and 18 more", "and 18 more containers", "and 14 more that are not for it")
	if lines := strings.Count(text, "\n"); lines > screen {
		t.Errorf("%d lines:\n%s", lines, text)
	}
}

func TestJSONHasEveryList(t *testing.T) {
	var out bytes.Buffer
	if err := explain.JSON(&out, explain.Explain(explain.Input{Pod: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}})); err != nil {
		t.Fatal(err)
	}
	said(t, out.String(), `"policies": []`, `"containers": []`, `"files": []`, `"constraints": []`, `"today": []`, `"refused": []`)
}

func TestScheduling(t *testing.T) {
	fits := &scheduling.Preview{Outcome: scheduling.Fits, Fit: 1, Nodes: 2, Groups: []scheduling.Group{{Fits: true, Nodes: []string{"n1"}}}}
	running := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	pending := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-2"}}
	for name, test := range map[string]struct {
		in   explain.Input
		says string
	}{
		"nobody asked":         {explain.Input{Pod: pending, Created: true}, ""},
		"it could be anywhere": {explain.Input{Pod: pending, Created: true, Preview: fits}, "Scheduling Fits on 1 of 2 nodes, best on n1.\n"},
		"made anew":            {explain.Input{Pod: running, Created: true, Preview: fits}, "Scheduling If it were made anew: fits on 1 of 2 nodes, best on n1.\n"},
		"no program":           {explain.Input{Pod: pending, Created: true, NotPreviewed: "podgrace-preview is missing"}, "Scheduling Not previewed: podgrace-preview is missing.\n"},
	} {
		if text := print(t, test.in, explain.Style{}); !strings.Contains(text, "\n"+test.says) || strings.Contains(text, "Scheduling") != (test.says != "") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
