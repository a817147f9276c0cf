package firstday

import "testing"

func TestLacks(t *testing.T) {
	for shown, want := range map[string]string{"a ... c\n": "", "c ... a\n": "a", "a b\n": "", "d\n": "d", "b\na\n": ""} {
		if got := (Part{Output: shown}).Lacks("a  b\n c"); got != want {
			t.Errorf("%q: %q, want %q", shown, got, want)
		}
	}
}

func TestParts(t *testing.T) {
	all, err := Parts("1", "2", "3", "4", "5", "6", "7")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, p := range all {
		if p.Commands == "" {
			t.Errorf("%s has a part without commands", p.Title)
		}
		if p.Output != "" {
			shown++
		}
	}
	if shown < 3 {
		t.Errorf("%d of %d parts show what is printed", shown, len(all))
	}
	if _, err := Parts("8"); err == nil {
		t.Error("a section that is not there was found")
	}
}
