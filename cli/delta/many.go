package delta

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
)

// Subject says how many of each kind there are, and where: "3 Deployments, 1 Job in shop".
func Subject(objects []manifest.Resource) string {
	var what, where []string
	counts := map[string]int{}
	for _, o := range objects {
		counts[o.Kind]++
		what = add(what, o.Kind)
		where = add(where, o.Namespace)
	}
	for i, kind := range what {
		what[i] = fmt.Sprintf("%d %s", counts[kind], several(kind, counts[kind]))
	}
	return strings.Join(what, ", ") + places(where)
}

func add(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// several is a kind, in the plural but for one.
func several(kind string, n int) string {
	switch {
	case n == 1:
		return kind
	case strings.HasSuffix(kind, "s"):
		return kind + "es"
	}
	return kind + "s"
}

// places says in which namespaces.
func places(namespaces []string) string {
	namespaces = slices.DeleteFunc(slices.Clone(namespaces), func(n string) bool { return n == "" })
	switch len(namespaces) {
	case 0:
		return ""
	case 1, 2, 3:
		return " in " + strings.Join(namespaces, ", ")
	}
	return fmt.Sprintf(" in %d namespaces", len(namespaces))
}

// Names of the first objects, as many as are asked for, and how many there are besides.
func Names(objects []manifest.Resource, most int) string {
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = Shown(o.Called())
	}
	return console.Some(names, most, ", ")
}
