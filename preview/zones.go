package preview

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/preview/scheduler"
)

// Zone is where domains of the key kubernetes.io/hostname are.
type Zone struct {
	// Name is the value of topology.kubernetes.io/zone.
	Name string `json:"name"`
	// Hostnames are those of its nodes (the label, which need not be the node's name), by name.
	Hostnames []string `json:"hostnames"`
}

// zonesOf are the zones of nodes, by name. What has no zone or no hostname is in none.
func zonesOf(nodes []*corev1.Node) []Zone {
	hosts := map[string][]string{}
	for _, n := range nodes {
		zone, host := n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelHostname]
		if zone != "" && host != "" {
			hosts[zone] = append(hosts[zone], host)
		}
	}
	var zones []Zone
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		slices.Sort(hosts[name])
		zones = append(zones, Zone{name, slices.Compact(hosts[name])})
	}
	return zones
}

// byHostname reports whether a constraint spreads over hosts, of which a reader wants to know the zones.
func byHostname(spread []scheduler.Spread) bool {
	return slices.ContainsFunc(spread, func(s scheduler.Spread) bool { return s.TopologyKey == corev1.LabelHostname })
}
