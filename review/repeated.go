package review

import "github.com/podgrace/podgrace/manifest"

// Repeated is an object that is in the input at several places, each of which was judged: a cluster would have only one of them.
type Repeated struct {
	Resource Resource `json:"resource"`
	Sources  []Source `json:"sources"`
}

// RepeatedIn finds them among the results, in their order. Recorded requests are about one object as often as it was asked about.
func RepeatedIn(results []Result, documents []*manifest.Document) []Repeated {
	recorded := map[Source]bool{}
	for _, d := range documents {
		if IsRecorded(d) {
			recorded[Source{File: d.File, Line: d.Line}] = true
		}
	}
	places := map[Resource][]Source{}
	var order []Resource
	for i := range results {
		r := &results[i]
		if r.Resource.Name == "" || recorded[r.Source] {
			continue
		}
		if places[r.Resource] == nil {
			order = append(order, r.Resource)
		}
		places[r.Resource] = append(places[r.Resource], r.Source)
	}
	var repeated []Repeated
	for _, resource := range order {
		if len(places[resource]) > 1 {
			repeated = append(repeated, Repeated{resource, places[resource]})
		}
	}
	return repeated
}
