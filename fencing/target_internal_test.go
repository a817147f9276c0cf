package fencing

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestSameUUID(t *testing.T) {
	t.Parallel()
	const uuid = "4c4c4544-0051-3910-8057-b4c04f4d3732"
	for _, tt := range []struct {
		name, a, b string
		same       bool
	}{
		{"as it is", uuid, uuid, true},
		{"in capitals, without hyphens", uuid, "4C4C4544005139108057B4C04F4D3732", true},
		{"in braces", uuid, "{4c4c4544-0051-3910-8057-b4c04f4d3732}", true},
		{"the first three fields in the other order", uuid, "44454c4c-5100-1039-8057-b4c04f4d3732", true},
		{"the first field alone in the other order", uuid, "44454c4c-0051-3910-8057-b4c04f4d3732", false},
		{"all of it in the other order", uuid, "32374d4f-c0b4-5780-1039-510044454c4c", false},
		{"another one", uuid, "4c4c4544-0051-3910-8057-b4c04f4d3733", false},
		{"another one that ends alike", uuid, "4c4c4545-0051-3910-8057-b4c04f4d3732", false},
		{"none", "", "", false},
		{"zeros", "00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000", false},
		{"a vendor's placeholder", "03000200-0400-0500-0006-000700080009", "03000200-0400-0500-0006-000700080009", false},
		{"the placeholder in the other order", "00020003-0004-0005-0006-000700080009", "00020003-0004-0005-0006-000700080009", false},
		{"no UUID, but the same", "IBM,0212345", "ibm,0212345", true},
		{"no UUID, and another", "IBM,0212345", "IBM,0212346", false},
	} {
		if got := sameUUID(tt.a, tt.b); got != tt.same {
			t.Errorf("%s: %q and %q: %v", tt.name, tt.a, tt.b, got)
		}
		if sameUUID(tt.a, tt.b) != sameUUID(tt.b, tt.a) {
			t.Errorf("%s: it depends on the order", tt.name)
		}
	}
}

func TestSameMachine(t *testing.T) {
	const (
		id      = "00112233-4455-6677-8899-aabbccddeeff"
		swapped = "33221100-5544-7766-8899-aabbccddeeff"
	)
	tests := map[string]struct {
		a, b          string
		same, swapped bool
	}{
		"equal":                      {a: id, b: id, same: true},
		"in capitals":                {a: id, b: strings.ToUpper(id), same: true},
		"blanks around it":           {a: id, b: " " + id + "\n", same: true},
		"without dashes":             {a: id, b: strings.ReplaceAll(id, "-", ""), same: true},
		"SMBIOS' byte order":         {a: id, b: swapped, same: true, swapped: true},
		"only the first field":       {a: id, b: "33221100-4455-6677-8899-aabbccddeeff"},
		"the last bytes turned":      {a: id, b: "00112233-4455-6677-9988-aabbccddeeff"},
		"another":                    {a: id, b: "00112233-4455-6677-8899-aabbccddeefe"},
		"one is unknown":             {a: id},
		"both are unknown":           {},
		"blanks":                     {a: " ", b: " "},
		"none was set":               {a: uuid.Nil.String(), b: uuid.Nil.String()},
		"all ones":                   {a: uuid.Max.String(), b: uuid.Max.String()},
		"as the firmware came":       {a: "03000200-0400-0500-0006-000700080009", b: "03000200-0400-0500-0006-000700080009"},
		"as it came, turned around":  {a: "00020003-0004-0005-0006-000700080009", b: "03000200-0400-0500-0006-000700080009"},
		"serial numbers":             {a: "IBM,02AB", b: "ibm,02ab", same: true},
		"other serial numbers":       {a: "IBM,02AB", b: "IBM,02AC"},
		"a UUID and a serial number": {a: id, b: "IBM,02AC"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, pair := range [][2]string{{test.a, test.b}, {test.b, test.a}} {
				if same, swapped := SameMachine(pair[0], pair[1]); same != test.same || swapped != test.swapped {
					t.Errorf("SameMachine(%q, %q) = %v, %v, want %v, %v", pair[0], pair[1], same, swapped, test.same, test.swapped)
				}
			}
		})
	}
}

func TestMachineKeyOfBothByteOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		if a, b := MachineKey(id.String()), MachineKey(swap(id).String()); a != b {
			t.Fatalf("keys of %s and of its other byte order are %q and %q", id, a, b)
		}
		if swap(swap(id)) != id {
			t.Fatalf("%s turned around twice is %s", id, swap(swap(id)))
		}
	})
}
