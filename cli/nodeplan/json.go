package nodeplan

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// NodePlan is a node's plan for programs.
type NodePlan struct {
	APIVersion string    `json:"apiVersion"` // podgrace.dev/v1alpha1
	Kind       string    `json:"kind"`       // NodePlan
	Node       string    `json:"node,omitempty"`
	Policy     string    `json:"policy,omitempty"`
	Mode       string    `json:"mode"`
	Cgroups    []Cgroup  `json:"cgroups"`
	Processes  []Process `json:"processes"`
	Daemons    []Daemon  `json:"daemons,omitempty"`
	Notes      []Note    `json:"notes,omitempty"`
}

// Cgroup is one cgroup of it.
type Cgroup struct {
	Path      string `json:"path"`
	Level     string `json:"level"` // reserved, kubepods, qos, pod or container
	QOS       string `json:"qosClass,omitempty"`
	Pod       string `json:"pod,omitempty"` // namespace/name
	Container string `json:"container,omitempty"`
	// Files as they should be, as the kernel prints them.
	Files map[string]string `json:"files"`
	// Drift is what files hold that is something else.
	Drift map[string]string `json:"drift"`
	// Statistics are the kernel's, of a cgroup that is there; offline there are none.
	Statistics *cgroup.Statistics `json:"statistics,omitempty"`
	// Missing: it is planned and not there.
	Missing bool `json:"missing,omitempty"`
}

// Process says what the processes of a container should have. Sandboxes are not among them.
type Process struct {
	Pod         string `json:"pod"`
	Container   string `json:"container"`
	OOMScoreAdj int    `json:"oomScoreAdj"`
	// Drift is what the first process that differs has.
	Drift string `json:"drift,omitempty"`
}

// Daemon says where the kubelet has itself and the host's processes, by its configuration.
type Daemon struct {
	Name        string `json:"name"`             // kubelet or host
	Cgroup      string `json:"cgroup,omitempty"` // empty: where it was started
	OOMScoreAdj *int   `json:"oomScoreAdj,omitempty"`
}

// Note is something that the reader should know.
type Note struct {
	Pod     string `json:"pod,omitempty"`
	Message string `json:"message"`
}

// JSON prints it.
func JSON(w io.Writer, in Input) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(newNodePlan(in)); err != nil {
		return fmt.Errorf("print the plan: %w", err)
	}
	return nil
}

func newNodePlan(in Input) NodePlan {
	drift, processes := map[string]map[string]string{}, map[string]string{}
	for _, d := range in.Drift {
		if drift[d.Path] == nil {
			drift[d.Path] = map[string]string{}
		}
		drift[d.Path][d.File] = d.Have
	}
	for _, d := range in.ProcessDrift {
		if processes[d.Path] == "" { // the first process's: what it starts has its own
			processes[d.Path] = d.Have
		}
	}
	missing := map[string]bool{}
	for _, m := range in.Missing {
		missing[m.Path] = true
	}
	out := NodePlan{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodePlan", Node: in.Node, Policy: in.Policy, Mode: string(in.Mode),
		Cgroups: []Cgroup{}, Processes: []Process{},
	}
	for _, g := range in.Tree.Groups {
		out.Cgroups = append(out.Cgroups, Cgroup{
			Path: g.Path, Level: string(g.Level), QOS: string(g.QOS), Pod: podName(g), Container: g.Container,
			Files: wanted(g), Drift: orEmpty(drift[g.Path]), Missing: missing[g.Path],
		})
		if s, ok := in.Counted[g.Path]; ok {
			out.Cgroups[len(out.Cgroups)-1].Statistics = &s
		}
	}
	for _, p := range in.Tree.Processes {
		out.Processes = append(out.Processes, Process{Pod: p.Pod.String(), Container: p.Container, OOMScoreAdj: p.OOMScoreAdj, Drift: processes[p.Path]})
	}
	for _, d := range in.Tree.Daemons {
		out.Daemons = append(out.Daemons, Daemon{Name: d.Name, Cgroup: d.Path, OOMScoreAdj: d.OOMScoreAdj})
	}
	for _, n := range in.Tree.Notes {
		note := Note{Message: n.Message}
		if n.Pod.Name != "" {
			note.Pod = n.Pod.String()
		}
		out.Notes = append(out.Notes, note)
	}
	return out
}

func podName(g plan.Group) string {
	if g.Pod.Name == "" {
		return ""
	}
	return g.Pod.String()
}

func wanted(g plan.Group) map[string]string {
	files := make(map[string]string, len(g.Files))
	for name, v := range g.Files {
		files[name] = v.Want
	}
	return files
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
