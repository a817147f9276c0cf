package pressure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryFree says whether the node has free memory, so that nobody waits for it but at a limit of cgroups: the kernel reclaims only where free
// pages fall to what it reserves, and then up to that (mm/page_alloc.c get_page_from_freelist, mm/vmscan.c balance_pgdat, Linux 6.12). Page cache
// is not free memory: a node that reads its programs again and again stalls with plenty of it.
func (s *Sensor) MemoryFree() (bool, error) {
	text, err := os.ReadFile(filepath.Join(s.ProcRoot, "zoneinfo"))
	if err != nil {
		return false, fmt.Errorf("read the free memory: %w", err)
	}
	free, reserve, err := zones(string(text))
	if err != nil {
		return false, fmt.Errorf("read the free memory: zoneinfo: %w", err)
	}
	return free >= reserveShare*reserve, nil
}

// reserveShare times the reserve is free memory: between the two, reclaim may just have freed what it needed.
const reserveShare = 2

// zones sums up all zones: their free pages, and the kernel's reserve, which is of each zone the high watermark and the most that it keeps from
// allocations for a higher zone, and no more than it has (mm/page_alloc.c calculate_totalreserve_pages, Linux 6.12).
func zones(text string) (free, reserve int64, err error) {
	var high, managed, kept int64
	end := func() { reserve += min(high+kept, managed) }
	for line := range strings.Lines(text) {
		fields := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\n,()", r) })
		if len(fields) < 2 {
			continue
		}
		values := fields[1:]
		switch {
		case fields[0] == "Node" && strings.Contains(line, "zone"):
			end()
			high, managed, kept = 0, 0, 0
			continue
		case fields[0] == "pages" && fields[1] == "free":
			values = fields[2:]
		case fields[0] != "high" && fields[0] != "managed" && fields[0] != "protection:":
			continue
		}
		for _, value := range values {
			n, parseErr := strconv.ParseInt(value, 10, 64)
			err = errors.Join(err, parseErr)
			switch fields[0] {
			case "pages":
				free += n
			case "high":
				high = n
			case "managed":
				managed = n
			default:
				kept = max(kept, n)
			}
		}
	}
	end()
	if err == nil && reserve == 0 {
		err = errors.New("it has no watermarks")
	}
	return free, reserve, err
}
