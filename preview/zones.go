package preview

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/cli/scheduling"
)

// zonesOf are the zones of nodes, by name. What has no zone or no hostname is in none.
func zonesOf(nodes []*corev1.Node) []scheduling.Zone {
	hosts := map[string][]string{}
	for _, n := range nodes {
		zone, host := n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelHostname]
		if zone != "" && host != "" {
			hosts[zone] = append(hosts[zone], host)
		}
	}
	var zones []scheduling.Zone
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		slices.Sort(hosts[name])
		zones = append(zones, scheduling.Zone{Name: name, Hostnames: slices.Compact(hosts[name])})
	}
	return zones
}

// byHostname reports whether a constraint spreads over hosts, of which a reader wants to know the zones.
func byHostname(spread []scheduling.Spread) bool {
	return slices.ContainsFunc(spread, func(s scheduling.Spread) bool { return s.TopologyKey == corev1.LabelHostname })
}
