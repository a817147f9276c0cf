package fencing

import "testing"

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

func TestHeardSince(t *testing.T) {
	t.Parallel()
	const sign = "uid/boot/2026-11-20T12:00:00Z/2026-11-20T12:00:05.000000Z"
	for now, heard := range map[string]bool{
		sign: false,
		"uid/boot/2026-11-20T12:00:00Z/2026-11-20T12:00:15.000000Z":   true,
		"uid/boot/2026-11-20T12:05:00Z/2026-11-20T12:00:05.000000Z":   true,
		"uid/boot/2026-11-20T12:00:00Z/2026-11-20T11:00:05.000000Z":   true,  // its clock was set back
		"other/boot/2026-11-20T12:00:00Z/2026-11-20T12:00:05.000000Z": true,  // its Node was made anew
		"uid/boot/2026-11-20T12:00:00Z/":                              false, // its Lease was deleted
		"uid/boot//":                                                  false,
		"":                                                            true,
	} {
		if got := heardSince(sign, now); got != heard {
			t.Errorf("%q: %v", now, got)
		}
	}
}
