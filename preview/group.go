package preview

import (
	"encoding/json"

	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/preview/scheduler"
)

// groups are nodes in their order, those that are alike with the first of them.
func groups(nodes []scheduler.Node) []scheduling.Group {
	var all []scheduling.Group
	at := map[string]int{}
	for _, n := range nodes {
		name := n.Name
		n.Name = ""
		key, _ := json.Marshal(n) // it has no field that could fail
		i, ok := at[string(key)]
		if !ok {
			i = len(all)
			at[string(key)] = i
			all = append(all, scheduling.Group{Fits: n.Fits, Plugin: n.Plugin, Reasons: n.Reasons, MayPreempt: n.MayPreempt, Scores: n.Scores, Total: n.Total})
		}
		all[i].Nodes = append(all[i].Nodes, name)
	}
	return all
}
