package pressure

import (
	"errors"
	"fmt"

	"github.com/prometheus/procfs"
	"k8s.io/utils/ptr"
)

// MemoryFree reports whether the node has free memory, so that nobody waits for it but at a limit of cgroups: the kernel reclaims only where free
// pages fall to what it reserves, and then up to that (mm/page_alloc.c get_page_from_freelist, mm/vmscan.c balance_pgdat, Linux 6.12). Page cache
// is not free memory: a node that reads its programs again and again stalls with plenty of it.
func (s *Sensor) MemoryFree() (bool, error) {
	proc, err := procfs.NewFS(s.ProcRoot)
	if err != nil {
		return false, fmt.Errorf("read the free memory: %w", err)
	}
	zones, err := proc.Zoneinfo()
	if err != nil {
		return false, fmt.Errorf("read the free memory: %w", err)
	}
	free, reserve, err := freeAndReserved(zones)
	if err != nil {
		return false, fmt.Errorf("read the free memory: zoneinfo: %w", err)
	}
	return free >= reserveShare*reserve, nil
}

// reserveShare times the reserve is free memory: between the two, reclaim may just have freed what it needed.
const reserveShare = 2

// freeAndReserved sums up the free pages of all zones, and the kernel's reserve, which is of each zone the high watermark and the most that it keeps
// from allocations for a higher zone, and no more than it has (mm/page_alloc.c calculate_totalreserve_pages, Linux 6.12).
func freeAndReserved(zones []procfs.Zoneinfo) (free, reserve int64, err error) {
	for _, z := range zones {
		if ptr.Deref(z.Managed, 0) == 0 {
			continue // without memory: the kernel prints no statistics of it
		}
		if z.NrFreePages == nil || z.High == nil {
			return 0, 0, fmt.Errorf("zone %s of node %s has no free pages or no watermarks that can be read", z.Zone, z.Node)
		}
		var kept int64
		for _, n := range z.Protection {
			kept = max(kept, ptr.Deref(n, 0))
		}
		free += *z.NrFreePages
		reserve += min(*z.High+kept, *z.Managed)
	}
	if reserve == 0 {
		return 0, 0, errors.New("it has no watermarks")
	}
	return free, reserve, nil
}
