package manifest

// Resource is the object that a finding is about: for a workload the workload, and not its pod.
type Resource struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	// Template is which of its pod templates, if it has several.
	Template string `json:"template,omitempty"`
	// GenerateName is the beginning of the name that the API server makes for an object without one.
	GenerateName string `json:"generateName,omitempty"`
}

// Called is the name for people: that of an object whose name the API server makes is its beginning and a star.
func (r Resource) Called() string {
	name := "(unnamed)"
	switch {
	case r.Name != "":
		name = r.Name
	case r.GenerateName != "":
		name = r.GenerateName + "*"
	}
	if r.Template != "" {
		name += " (" + r.Template + ")"
	}
	return name
}

// String is kind namespace/name, for people.
func (r Resource) String() string {
	name := r.Called()
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return r.Kind + " " + name
}

// Source is where an object was read: Line counts from 1; of an element of a list, it is the element's first line. A stream's File
// is "-".
type Source struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
}
