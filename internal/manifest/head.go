package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// head is what an object says of itself, and what is wrong with it: the first thing.
type head struct {
	apiVersion, kind, namespace, name, generateName string
	// has an apiVersion or kind, even an empty one.
	typed bool
	// named: it has metadata.
	named bool
	wrong *problem
}

// problem is what is wrong at a line of the file.
type problem struct {
	line    int
	message string
}

func (p *problem) Error() string { return fmt.Sprintf("line %d: %s", p.line, p.message) }

func (h *head) fail(line int, format string, args ...any) {
	if h.wrong == nil {
		h.wrong = &problem{line, fmt.Sprintf(format, args...)}
	}
}

// typeOf returns where a member that holds the object's type is kept.
func (h *head) typeOf(key string) *string {
	if key == "apiVersion" {
		return &h.apiVersion
	}
	return &h.kind
}

// nameOf returns where a member of metadata is kept; nil for most.
func (h *head) nameOf(key string) *string {
	switch key {
	case "name":
		return &h.name
	case "namespace":
		return &h.namespace
	case "generateName":
		return &h.generateName
	}
	return nil
}

// check says what is missing.
func (h *head) check(line int) {
	switch {
	case h.apiVersion == "" && h.kind == "":
		h.fail(line, "no apiVersion and no kind: not an object of Kubernetes")
	case h.apiVersion == "":
		h.fail(line, "no apiVersion (kind is %s)", h.kind)
	case h.kind == "":
		h.fail(line, "no kind (apiVersion is %s)", h.apiVersion)
	}
}

// inherit gives an item of a typed list its type: in a PodList as the API server sends it, the items have none. Source:
// k8s.io/apimachinery v0.36.3 pkg/apis/meta/v1/unstructured/helpers.go, decodeToList.
func (h *head) inherit(list *head, raw []byte) []byte {
	kind, ok := list.itemKind()
	if h.typed || !ok || list.apiVersion == "" {
		return raw
	}
	h.apiVersion, h.kind = list.apiVersion, kind
	added := append([]byte(`{"apiVersion":`), text(h.apiVersion)...)
	added = append(append(added, `,"kind":`...), text(h.kind)...)
	if members := bytes.TrimSpace(raw[1:]); string(members) == "}" {
		return append(added, '}')
	}
	return append(append(added, ','), raw[1:]...)
}

// itemKind of a PodList is Pod; a List has none.
func (h *head) itemKind() (string, bool) {
	if h == nil {
		return "", false
	}
	kind, ok := strings.CutSuffix(h.kind, "List")
	return kind, ok && kind != ""
}

// isList reports whether an object without an array of items is a list nevertheless: an empty one.
func (h *head) isList() bool { return strings.HasSuffix(h.kind, "List") }

// give hands an object on, or what is wrong with it.
func (h *head) give(out *Reader, line int, raw []byte) {
	if !out.wants(h.kind) {
		return
	}
	if h.check(line); h.wrong != nil {
		h.blame(out, "%s"+manifestsIn(h, raw))
		return
	}
	if len(out.Kinds) == 0 && encrypted(raw) {
		out.manifest()
		out.Encrypted = append(out.Encrypted, line)
		return
	}
	out.document(&Document{Line: line, JSON: raw, APIVersion: h.apiVersion, Kind: h.kind, Namespace: h.namespace, Name: h.name, GenerateName: h.generateName})
}

// manifestsIn is a hint for an object, or a list, that has manifests in it: jsonnet writes maps and lists of them.
func manifestsIn(h *head, raw []byte) string {
	if !h.typed && !h.named && bytes.Contains(raw, []byte(apiVersion)) {
		return " (manifests are in it: jsonnet writes them as documents with -y)"
	}
	return ""
}

// encrypted reports whether SOPS has encrypted values of the object: it adds a field that the API server does not know, with a code that proves the
// values (https://github.com/getsops/sops, stores/stores.go Metadata).
func encrypted(raw []byte) bool {
	var by struct {
		SOPS struct {
			MAC string `json:"mac"`
		} `json:"sops"`
	}
	return bytes.Contains(raw, []byte(`"sops"`)) && json.Unmarshal(raw, &by) == nil && by.SOPS.MAC != ""
}

// blame reports what is wrong. An object that lacks its apiVersion or kind, and metadata as well, may belong to another program: the configuration of
// Grafana has an apiVersion, and that of Drone a kind.
func (h *head) blame(out *Reader, format string) {
	if !h.named && (h.apiVersion == "" || h.kind == "") {
		out.foreign(h.wrong.line, format, h.wrong.message)
		return
	}
	out.manifest()
	out.fail(h.wrong.line, format, h.wrong.message)
}

// giveList ends a list, whose items are given already.
func (h *head) giveList(out *Reader, line int) {
	if h.check(line); h.wrong != nil && len(out.Kinds) == 0 {
		h.blame(out, "%s (a list; its items were read)")
		return
	}
	out.manifest()
	out.listed(h)
}

// text is a JSON string.
func text(s string) []byte {
	quoted, _ := json.Marshal(s) // a string never fails
	return quoted
}
