package preview

import (
	"encoding/json"

	"github.com/podgrace/podgrace/preview/scheduler"
)

// Group is nodes of which the same is said.
type Group struct {
	Fits bool `json:"fits"`
	// Plugin, Reasons and MayPreempt as scheduler.Node has them.
	Plugin     string   `json:"plugin,omitempty"`
	Reasons    []string `json:"reasons,omitempty"`
	MayPreempt bool     `json:"mayPreempt,omitempty"`
	// Scores and their sum, where they fit.
	Scores []scheduler.Score `json:"scores,omitempty"`
	Total  int64             `json:"total,omitempty"`
	// Nodes by name.
	Nodes []string `json:"nodes"`
}

// groups are nodes in their order, those that are alike with the first of them.
func groups(nodes []scheduler.Node) []Group {
	var all []Group
	at := map[string]int{}
	for _, n := range nodes {
		name := n.Name
		n.Name = ""
		key, _ := json.Marshal(n) // it has no field that could fail
		i, ok := at[string(key)]
		if !ok {
			i = len(all)
			at[string(key)] = i
			all = append(all, Group{Fits: n.Fits, Plugin: n.Plugin, Reasons: n.Reasons, MayPreempt: n.MayPreempt, Scores: n.Scores, Total: n.Total})
		}
		all[i].Nodes = append(all[i].Nodes, name)
	}
	return all
}

// best are how many nodes have the highest score, in whatever way it came to be.
func best(all []Group) int {
	n := 0
	for _, g := range all {
		if g.Fits && g.Total == all[0].Total {
			n += len(g.Nodes)
		}
	}
	return n
}
