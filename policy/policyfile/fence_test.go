package policyfile_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// What the API server would refuse of the kinds of fencing is said before they are applied.
func TestKindsOfFencing(t *testing.T) {
	const redfish = "kind: FenceAgent\nmetadata: {name: rack-1}\nspec:\n  type: Redfish\n"
	allowed := func(blocks string) string {
		return "kind: FenceAgent\nmetadata: {name: san}\nspec:\n  type: NetworkFence\n  identity: Configured\n  networkFence: {networkFenceClassName: ceph, allowedCIDRs: [" + blocks + "]}\n"
	}
	for name, tc := range map[string]struct{ text, want string }{
		"a policy that shows":        {"kind: FencePolicy\nmetadata: {name: workers}\nspec: {mode: Show}\n", ""},
		"a typo":                     {"kind: FencePolicy\nmetadata: {name: workers}\nspec:\n  budget: {maxConcurent: 1}\n", `unknown field "spec.budget.maxConcurent"`},
		"a silence that is none":     {"kind: FencePolicy\nmetadata: {name: workers}\nspec:\n  silentFor: 10s\n", "spec.silentFor"},
		"it fences by no agent":      {"kind: FencePolicy\nmetadata: {name: workers}\nspec:\n  mode: Fence\n", "spec"},
		"an operator that is none":   {"kind: FencePolicy\nmetadata: {name: workers}\nspec:\n  nodeSelector: {matchExpressions: [{key: a, operator: Near}]}\n", "operator"},
		"an agent":                   {redfish + "  redfish: {secret: rack-1}\n  machines: [{systemUUID: 4c4c4544-0044-4a10-8052-b7c04f4b3233, address: 'https://192.0.2.11'}]\n", ""},
		"an agent without its part":  {redfish + "  machines: [{systemUUID: 4c4c4544-0044-4a10-8052-b7c04f4b3233, address: 'https://192.0.2.11'}]\n", "spec"},
		"a machine that is not told": {redfish + "  redfish: {secret: rack-1}\n  machines: [{address: 'https://192.0.2.11'}]\n", "spec.machines[0]"},
		"blocks of addresses":        {allowed("10.0.0.0/24, 10.0.0.0/16, 'fd00::/64', 10.9.0.1/32"), ""},
		"no block":                   {allowed(""), "spec.networkFence.allowedCIDRs"},
		"a block that is none":       {allowed("10.0.0.0/24, 10.0.0.0/33"), `spec.networkFence.allowedCIDRs[1]: Invalid value: "10.0.0.0/33": it must be a CIDR, such as`},
		"an address":                 {allowed("10.0.0.1"), `spec.networkFence.allowedCIDRs[0]: Invalid value: "10.0.0.1": it must be a CIDR`},
		"IPv4 written as IPv6":       {allowed("'::ffff:10.0.0.0/120'"), `spec.networkFence.allowedCIDRs[0]: Invalid value: "::ffff:10.0.0.0/120": it must be a CIDR`},
		"an address and its prefix":  {allowed("10.0.0.7/24"), "the address goes beyond the prefix length"},
		"a block that is said twice": {allowed("10.0.0.0/24, 10.0.0.0/24"), "spec.networkFence.allowedCIDRs[1]: Duplicate value"},
		"a BMC without a scheme":     {redfish + "  redfish: {secret: rack-1}\n  machines: [{systemUUID: 4c4c4544-0044-4a10-8052-b7c04f4b3233, address: 192.0.2.11}]\n", "such as https://192.0.2.7"},
		"a BMC without TLS":          {redfish + "  redfish: {secret: rack-1}\n  machines: [{systemUUID: 4c4c4544-0044-4a10-8052-b7c04f4b3233, address: 'http://192.0.2.11'}]\n", "such as https://192.0.2.7"},
		"a BMC with a password":      {redfish + "  redfish: {secret: rack-1}\n  machines: [{systemUUID: 4c4c4544-0044-4a10-8052-b7c04f4b3233, address: 'https://a:b@192.0.2.11'}]\n", "belong in the Secret"},
		"a BMC at a port of IPv6":    {redfish + "  redfish: {secret: rack-1}\n  machines: [{systemUUID: 4c4c4544-0044-4a10-8052-b7c04f4b3233, address: 'https://[2001:db8::1]:8443/'}]\n", ""},
		"a request":                  {"kind: Fence\nmetadata: {name: a}\nspec: {node: {name: n1, uid: u, bootID: b}, reason: Requested, requestedBy: ann}\n", ""},
		"a request of nobody":        {"kind: Fence\nmetadata: {name: a}\nspec: {node: {name: n1, uid: u, bootID: b}, reason: Requested}\n", "spec"},
		"a receipt of nothing":       {"kind: FenceReceipt\nmetadata: {name: a}\nspec: {class: PoweredOff}\n", "spec"},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			(&manifest.Reader{File: "f.yaml"}).Read(bytes.NewReader([]byte("apiVersion: podgrace.dev/v1alpha1\n"+tc.text)), func(d *manifest.Document, wrong *manifest.Error) bool {
				if wrong != nil || !policyfile.IsPolicy(d) {
					t.Fatalf("%+v, %v", d, wrong)
				}
				_, errs := policyfile.Check(d)
				for _, e := range errs {
					said = append(said, e.Error())
				}
				return true
			})
			if all := strings.Join(said, "\n"); (all == "") != (tc.want == "") || !strings.Contains(all, tc.want) {
				t.Errorf("it says %q, not %q", all, tc.want)
			}
		})
	}
}

// A Fence of another group is no matter of ours.
func TestFenceOfAnotherGroup(t *testing.T) {
	for version, ours := range map[string]bool{"garden.example/v1": false, "podgrace.dev/v1alpha1": true, "podgrace.dev/v2": true} {
		d := &manifest.Document{File: "f.yaml", APIVersion: version, Kind: "Fence", JSON: []byte(`{"apiVersion":"` + version + `","kind":"Fence","metadata":{"name":"a"}}`)}
		_, errs := policyfile.Check(d)
		if policyfile.IsPolicy(d) != ours || (len(errs) > 0) != ours {
			t.Errorf("%s: %v", version, errs)
		}
	}
}
