package delta

import "testing"

func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "a|b": "a&#124;b", "<b>": "&#60;b&#62;", "https://x": "https&#58;//x", "www.x": "www&#46;x", "@who #1": "&#64;who &#35;1",
	} {
		if got := Markdown(text); got != want {
			t.Errorf("Markdown(%q) = %q, want %q", text, got, want)
		}
	}
}
