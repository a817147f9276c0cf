package input

import "slices"

// Listed is the kind of objects that a list was of, by the list's own type: a ServiceList is one of Services. A List says nothing.
type Listed struct{ APIVersion, Kind string }

// listed remembers each kind once.
func (s *sink) listed(h *head) {
	s.lists++
	if kind, ok := h.itemKind(); ok {
		s.kinds = appendOnce(s.kinds, Listed{h.apiVersion, kind})
	}
}

func appendOnce(list []Listed, more ...Listed) []Listed {
	for _, l := range more {
		if !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	return list
}
