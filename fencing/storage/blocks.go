package storage

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
)

// maxBlocks is how many addresses of one node a NetworkFence may have.
const maxBlocks = 16

// Block returns the block that contains only this address, in CIDR notation. It is empty if the text is not an IP address.
func Block(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	return blockOf(ip)
}

func blockOf(ip netip.Addr) string {
	ip = ip.Unmap()
	return netip.PrefixFrom(ip, ip.BitLen()).String()
}

// Blocks returns the addresses of one node as blocks, sorted. If they can't be fenced, why is the predicate of a sentence whose subject is the agent.
func Blocks(addresses []string) (blocks []string, why string) {
	if len(addresses) == 0 {
		return nil, "goes by the addresses that a node had while it was healthy, and this fencer did not see it healthy by this boot, or it had no InternalIP, or not always the same"
	}
	for _, text := range addresses {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" || !ip.Unmap().IsGlobalUnicast() {
			return nil, fmt.Sprintf("can't fence the node's address %q: it is none of a single machine", text)
		}
		blocks = append(blocks, blockOf(ip))
	}
	slices.Sort(blocks)
	if blocks = slices.Compact(blocks); len(blocks) > maxBlocks {
		return nil, fmt.Sprintf("can't fence a node of %d addresses, which is more than %d", len(blocks), maxBlocks)
	}
	return blocks, ""
}

// NotAllowed returns which block an agent may not fence because it lies in none of the agent's allowedCIDRs, as the predicate of a sentence. It is empty if the agent may
// fence all of them.
func NotAllowed(x *v1alpha1.NetworkFenceAgent, blocks []string) string {
	if len(x.AllowedCIDRs) == 0 {
		return ""
	}
	var allowed []netip.Prefix
	for _, text := range x.AllowedCIDRs {
		if p, err := netip.ParsePrefix(text); err == nil { // a block that can't be read allows nothing
			allowed = append(allowed, unmapped(p))
		}
	}
	for _, block := range blocks {
		fenced, ok := parse(block)
		if !ok || !slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Bits() <= fenced.Bits() && p.Contains(fenced.Addr()) }) {
			return fmt.Sprintf("may not fence %s, which lies in none of its allowedCIDRs (%s)", block, console.Some(x.AllowedCIDRs, 8, ", "))
		}
	}
	return ""
}

// Overlap reports whether two lists of blocks have an address in common. A block that can't be read overlaps with everything.
func Overlap(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			p, okP := parse(x)
			q, okQ := parse(y)
			if !okP || !okQ || p.Overlaps(q) {
				return true
			}
		}
	}
	return false
}

// mappedBits is the length of the prefix of IPv4 addresses that are written as IPv6 (::ffff:0:0/96).
const mappedBits = 96

// parse reads a block. A block of IPv4 addresses that are written as IPv6 is the block of these IPv4 addresses: drivers read blocks by package net, which makes no difference
// between the two.
func parse(text string) (p netip.Prefix, ok bool) {
	p, err := netip.ParsePrefix(text)
	p = unmapped(p)
	// A block of IPv6 addresses that contains all IPv4 addresses can't be told apart from any other block.
	mapped := p.Addr().Is6() && p.Contains(netip.AddrFrom16([16]byte{10: 0xff, 11: 0xff}))
	return p, err == nil && !mapped
}

func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= mappedBits {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p
}
