package plan

import "testing"

// In an era each drill comes, those that end all replicas after its last round only.
func TestDrillAfter(t *testing.T) {
	came, names := map[string]bool{}, []string{}
	for _, d := range Drills() {
		names = append(names, d.Name)
	}
	for number := range EraRounds {
		d, is := DrillAfter(number, names)
		if last := number == EraRounds-1; !is || d.Ends != last {
			t.Errorf("round %d: %+v, %t", number, d, is)
		}
		came[d.Name] = true
	}
	for _, d := range Drills() {
		if !came[d.Name] {
			t.Errorf("%s does not come", d.Name)
		}
		if len(d.Fires) == 0 {
			t.Errorf("%s: nothing fires", d.Name)
		}
	}
	if d, is := DrillAfter(0, []string{Outage}); is {
		t.Errorf("%+v ends all replicas in an era", d)
	}
	if d, is := DrillAfter(EraRounds-1, []string{Outage, Refusals}); !is || d.Name != Outage {
		t.Errorf("%+v, %t", d, is)
	}
}
