package agents

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/fencing"
)

func TestScrubbedErrorIsWhatItWas(t *testing.T) {
	inner := fmt.Errorf("hunter2: %w", errors.Join(fencing.ErrWrongMachine, context.DeadlineExceeded))
	err := newScrubber("hunter2").wrap(inner, "power off hunter2's machine")
	if got := err.Error(); strings.Contains(got, "hunter2") || !strings.HasPrefix(got, "power off [secret]'s machine: [secret]: ") {
		t.Errorf("%q", got)
	}
	if !errors.Is(err, fencing.ErrWrongMachine) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("%v is not what it was", err)
	}
	if errors.Unwrap(err) != nil {
		t.Error("it hands out the text as it was")
	}
	if newScrubber("x").wrap(nil, "y") != nil {
		t.Error("no error became one")
	}
}

// However a secret is shown and wherever a text is cut, nothing of it is left. The alphabets differ, so that what is left is told.
func TestScrubberLeavesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[a-e"'\\%&+/<>$ ]{0,12}[a-e]`).Draw(t, "secret")
		forms := []string{secret, fmt.Sprintf("%q", secret), url.QueryEscape(secret), url.PathEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret))}
		var text strings.Builder
		for range rapid.IntRange(1, 5).Draw(t, "times") {
			text.WriteString(rapid.StringMatching(`[X-Z]{0,5}`).Draw(t, "between"))
			text.WriteString(rapid.SampledFrom(forms).Draw(t, "form"))
		}
		whole := text.String()
		cut := whole[:rapid.IntRange(0, len(whole)).Draw(t, "cut")]
		left := strings.Map(func(r rune) rune {
			if strings.ContainsRune(`XYZ"`, r) {
				return -1
			}
			return r
		}, strings.ReplaceAll(newScrubber(secret).text(cut, true), scrubbed, ""))
		if left != "" {
			t.Fatalf("%q of secret %q cut out of %q leaves %q", cut, secret, whole, left)
		}
	})
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"podgrace.dev/v1alpha1","kind":"FenceAnswer","uid":"u","power":"Off","state":"stopped","systemUUID":"x"}`))
	f.Add([]byte(`{"apiVersion":"podgrace.dev/v1alpha1","kind":"FenceAnswer","uid":"u","power":"On","power":"Off"}`))
	f.Add([]byte(`{"apiVersion":"podgrace.dev/v1alpha1","kind":"FenceAnswer","uid":"u","Power":"Off"}`))
	f.Add([]byte(`{"apiVersion":"podgrace.dev/v1alpha1","kind":"FenceAnswer","uid":"u","power":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		answer, err := parseAnswer(body, "u")
		if err != nil {
			if answer != (FenceAnswer{}) {
				t.Errorf("an answer %+v with error %v", answer, err)
			}
			return
		}
		if answer.UID != "u" || answer.Kind != KindFenceAnswer {
			t.Errorf("%q is taken for an answer: %+v", body, answer)
		}
		if answer.Power == "Off" && !strings.Contains(string(body), `"Off"`) && !strings.Contains(string(body), `\u`) {
			t.Errorf("%q is read as off", body)
		}
	})
}

func FuzzShort(f *testing.F) {
	f.Add("PoweringOff", 64)
	f.Add("\xff\u00fc\u202e", 3)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if most < 3 || most > 1024 {
			return
		}
		if got := short(text, most); len(got) > most || strings.ContainsAny(got, "\n\x00\x1b") {
			t.Errorf("short(%q, %d) = %q", text, most, got)
		}
	})
}
