package limits_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/defaulting/limits"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// limitOf is which limit a reason of the webhook is about.
var limitOf = map[string]limits.Limit{
	"PriorityClassNotAllowed": limits.AllowedClasses, "ZeroGracePeriod": limits.ZeroGrace, "SleepTooLong": limits.GraceBounds, "GracePeriodOutOfBounds": limits.GraceBounds,
}

// What is compiled refuses no pod that the webhook lets go; of limits that are compiled for all policies it refuses all that the webhook does; and
// where all are, in the same words.
func TestAgreesWithTheWebhook(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range podsEach {
			w.request = w.drawRequest(t)
			agrees(t, w, seen)
		}
	})
	for _, kind := range []string{"let go", "an error", "in words", "partly", "beyond", "a probe", "excepted", "apart", "at once"} {
		if seen[kind] == 0 {
			t.Errorf("no case of %q: %v", kind, seen)
		}
	}
	t.Log(seen)
}

func agrees(t *rapid.T, w world, seen map[string]int) {
	reasons, words, fails := w.validate()
	var may rights
	denials := w.judge(t, &may)
	if may.asked == 0 && w.compiled.Policy != nil {
		seen["at once"]++
	}
	var left []limits.Limit
	for _, v := range w.compiled.Verdicts {
		for _, l := range v.Left {
			switch apart := strings.Contains(l.Of, "namespaces with too many exceptions"); {
			case apart && strings.Contains(l.Of, "("+w.request.Namespace.Name+")"):
				seen["apart"]++
				left = append(left, l.Limit)
			case l.Of == "" || !apart && isBeyond(w.request.Pod):
				left = append(left, l.Limit)
			}
		}
	}
	if len(left) > 0 && isBeyond(w.request.Pod) {
		seen["beyond"]++
	}
	refused := slices.DeleteFunc(reasons, func(r string) bool { _, ok := limitOf[r]; return !ok })
	if len(denials) > 0 && len(refused) == 0 {
		t.Fatalf("unsound: the webhook lets the pod go, the API server says %+v\n%s", denials, show(w))
	}
	for _, r := range refused {
		if !slices.Contains(left, limitOf[r]) && len(denials) == 0 {
			t.Fatalf("the webhook refuses by %s, the API server does not\n%s", r, show(w))
		}
	}
	if w.excepted() {
		seen["excepted"]++
	}
	switch {
	case len(denials) == 0:
		seen["let go"]++
	case fails: // a condition: the API server has words of its own for that, or the general ones
		seen["an error"]++
		if m := denials[0].Message; len(left) == 0 && m != words && !strings.Contains(m, "resulted in error") && !strings.HasPrefix(m, "a limit of a PodPolicy does not let") {
			t.Fatalf("words: %s\n%s", m, show(w))
		}
	case len(left) == 0:
		seen["in words"]++
		if strings.HasPrefix(words, "terminationGracePeriodSeconds of ") {
			seen["a probe"]++
		}
		if denials[0].Message != words {
			t.Fatalf("the words differ:\nwebhook    %s\nAPI server %s\n%s", words, denials[0].Message, show(w))
		}
	default:
		seen["partly"]++
	}
}

// isBeyond reports whether the pod has more than the API server looks at.
func isBeyond(pod *corev1.Pod) bool {
	all := slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers)
	return len(all) > limits.MaxItems || len(pod.OwnerReferences) > limits.MaxItems || slices.ContainsFunc(all, func(c corev1.Container) bool {
		if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Exec == nil {
			return false
		}
		command := strings.Join(c.Lifecycle.PreStop.Exec.Command, graceperiod.Separator)
		return utf8.RuneCountInString(command) > limits.MaxCommand || graceperiod.AtLeast(c.Lifecycle.PreStop) > 0 && !plain.MatchString(command)
	})
}

// plain are the commands whose sleep the API server reads.
var plain = regexp.MustCompile(graceperiod.SleepsFirst)

// Without the right of the webhook's account, which ends with its namespace, nothing is refused.
func TestEndsWithTheNamespace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.request = w.drawRequest(t)
		if denials := w.judge(t, holds(false)); len(denials) > 0 {
			t.Fatalf("%+v", denials)
		}
	})
}
