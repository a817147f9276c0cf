package node

import "testing"

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   spread
	}{
		{[]float64{7}, spread{7, 7, 7}},
		{[]float64{3, 1, 2}, spread{1, 2, 3}},
		{[]float64{4, 1, 3, 2}, spread{1, 2.5, 4}},
	} {
		if got := spreadOf(test.values); got != test.want {
			t.Errorf("%v: got %+v, want %+v", test.values, got, test.want)
		}
	}
	values := []float64{2, 1}
	if spreadOf(values); values[0] != 2 {
		t.Error("it sorted its caller's values")
	}
}

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		goal  goal
		value float64
		want  string
	}{
		{nil, 5, ""}, {new(0.0), 0, "met"}, {new(0.0), 1, "NOT met"}, {new(200.0), 200, "met"}, {new(200.0), 200.1, "NOT met"},
	} {
		if got := verdict(test.goal, test.value); got != test.want {
			t.Errorf("%v: got %q, want %q", test.value, got, test.want)
		}
	}
}
