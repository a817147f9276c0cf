package manifest

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// member of a mapping. Line is that of its key in the document, if it is no merged one.
type member struct {
	key    string
	value  *yaml.Node
	line   int
	merged bool
}

// members of a mapping with what is merged into it. A later one wins over a merged one and a merged one over an earlier one, which is
// not what YAML says but what kubectl does. Source: go.yaml.in/yaml/v2 v2.4.4 decode.go, mapping and merge.
func (c *converter) members(n *yaml.Node) ([]member, error) {
	all := memberSet{list: make([]member, 0, len(n.Content)/2)}
	err := c.collect(n, &all, false)
	return all.list, err
}

func (c *converter) collect(n *yaml.Node, all *memberSet, merged bool) error {
	own := keySet{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if err := c.count(key); err != nil {
			return err
		}
		if isMerge(key) {
			if err := c.merge(value, all); err != nil {
				return err
			}
			continue
		}
		name, err := c.key(key)
		if err != nil {
			return err
		}
		if !own.add(name) {
			return c.wrong(key, "key %q is in this object twice", name)
		}
		all.set(member{key: name, value: value, line: key.Line, merged: merged})
	}
	return nil
}

// merge adds the members of a mapping, or of several, the first of which wins.
func (c *converter) merge(n *yaml.Node, all *memberSet) error {
	if n.Kind == yaml.SequenceNode {
		for _, one := range slices.Backward(n.Content) {
			if one.Kind == yaml.SequenceNode {
				return c.wrong(one, "<< merges an object or a list of objects")
			}
			if err := c.merge(one, all); err != nil {
				return err
			}
		}
		return nil
	}
	from := n
	if n.Kind == yaml.AliasNode {
		leave, err := c.enter(n)
		if err != nil {
			return err
		}
		defer leave()
		from = n.Alias
	}
	if from.Kind != yaml.MappingNode {
		return c.wrong(n, "<< merges an object or a list of objects")
	}
	if c.depth++; c.depth >= maxDepth {
		return c.wrong(n, "nested deeper than %d", maxDepth)
	}
	defer func() { c.depth-- }()
	return c.collect(from, all, true)
}

func isMerge(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "<<" && (n.Style == 0 || n.Tag == "!!merge")
}

// key is a member's name: JSON has only texts.
func (c *converter) key(n *yaml.Node) (string, error) {
	at := n
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		return "", c.wrong(at, "a key that is %s (a template that was not rendered?)", describe(n))
	}
	name, err := keyText(n)
	if err != nil {
		return "", c.wrong(at, "%v", err)
	}
	return name, nil
}

// memberSet has each key once, in the order of their first appearance.
type memberSet struct {
	list []member
	at   map[string]int
}

// few members are searched for one after the other: a map would cost more.
const few = 12

func (s *memberSet) set(m member) {
	if i := s.index(m.key); i >= 0 {
		s.list[i] = m
		return
	}
	if s.at != nil {
		s.at[m.key] = len(s.list)
	}
	s.list = append(s.list, m)
}

func (s *memberSet) index(key string) int {
	if len(s.list) <= few {
		return slices.IndexFunc(s.list, func(m member) bool { return m.key == key })
	}
	if s.at == nil {
		s.at = make(map[string]int, 2*len(s.list))
		for i, m := range s.list {
			s.at[m.key] = i
		}
	}
	if i, ok := s.at[key]; ok {
		return i
	}
	return -1
}

func find(members []member, key string) (*yaml.Node, bool) {
	for _, m := range members {
		if m.key == key {
			return m.value, true
		}
	}
	return nil, false
}

// keySet are the keys of one object.
type keySet struct {
	list []string
	all  map[string]bool
}

// add is false for a key that is there already.
func (s *keySet) add(key string) bool {
	if s.all == nil {
		if slices.Contains(s.list, key) {
			return false
		}
		if s.list = append(s.list, key); len(s.list) > few {
			s.all = make(map[string]bool, 2*len(s.list))
			for _, k := range s.list {
				s.all[k] = true
			}
		}
		return true
	}
	if s.all[key] {
		return false
	}
	s.all[key] = true
	return true
}
