package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeyaml "sigs.k8s.io/yaml"
)

// word is what YAML 1.1, which kubectl reads, has for a word without quotes: a value of JSON; empty for a text. Source:
// go.yaml.in/yaml/v2 v2.4.4 resolve.go.
func word(s string) string {
	switch s {
	case "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON":
		return "true"
	case "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF":
		return "false"
	case "", "~", "null", "Null", "NULL":
		return "null"
	}
	return ""
}

// scalar is a text, or another value as JSON.
func scalar(n *yaml.Node) (value string, isText bool, err error) {
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		return tagged(n)
	case n.Style&^yaml.FlowStyle != 0: // quoted, or a block
		return n.Value, true, nil
	}
	if json := word(n.Value); json != "" {
		return json, false, nil
	}
	if !numeric(n.Value) {
		return n.Value, true, nil
	}
	if decimal(n.Value) {
		return n.Value, false, nil
	}
	json, err := kubectl("- " + n.Value)
	if err != nil {
		return "", false, notJSON(n)
	}
	if json[0] == '"' {
		return n.Value, true, nil
	}
	return json, false, nil
}

// tagged is a value with a tag. Those of YAML's own types are kubectl's matter; others say nothing.
func tagged(n *yaml.Node) (value string, isText bool, err error) {
	switch n.Tag {
	case "!!null", "!!bool", "!!int", "!!float", "!!str", "!!timestamp", "!!binary":
	default:
		return n.Value, true, nil
	}
	value, err = kubectl("- " + n.Tag + " " + strconv.QuoteToASCII(n.Value))
	if err != nil {
		return "", false, notJSON(n)
	}
	if value[0] != '"' {
		return value, false, nil
	}
	var s string
	if err := json.Unmarshal([]byte(value), &s); err != nil {
		return "", false, fmt.Errorf("a value that is no text: %w", err)
	}
	return s, true, nil
}

func notJSON(n *yaml.Node) error {
	shown := n.Value
	if len(shown) > 40 {
		shown = strings.ToValidUTF8(shown[:40], "") + "..."
	}
	if n.Style&yaml.TaggedStyle != 0 {
		return fmt.Errorf("%q is no %s", shown, n.Tag)
	}
	return fmt.Errorf("%s is a number that JSON does not have", shown)
}

// numeric says whether a word may be a number: it begins so, and has nothing else in it. Times are texts.
func numeric(s string) bool {
	if strings.IndexByte("0123456789+-.", s[0]) < 0 {
		return false
	}
	for i := range len(s) {
		if strings.IndexByte("0123456789abcdefABCDEFxXoOinIN_+-.", s[i]) < 0 {
			return false
		}
	}
	return true
}

// decimal says whether the number is an integer as JSON writes it; it is kept as it is, however large.
func decimal(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || digits[0] == '0' && s != "0" {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return true
}

// kubectl is the JSON of the only element of a YAML list.
func kubectl(list string) (string, error) {
	raw, err := kubeyaml.YAMLToJSON([]byte(list))
	if err != nil {
		return "", err
	}
	return string(raw[1 : len(raw)-1]), nil
}

// keyText is a scalar as the name of a member: numbers and booleans become texts, as for kubectl.
func keyText(n *yaml.Node) (string, error) {
	value, isText, err := scalar(n)
	switch {
	case isText || err != nil && n.Style&yaml.TaggedStyle != 0:
		return value, err
	case err != nil: // .inf is no number of JSON, but a name
		value = n.Value
	case value == "null":
		return "", errors.New("null as a key")
	case value == "true", value == "false":
		return value, nil
	}
	if _, err := strconv.ParseInt(value, 10, 64); err == nil {
		return value, nil
	}
	raw, err := kubeyaml.YAMLToJSON([]byte(value + ": 0"))
	if err != nil {
		return "", fmt.Errorf("%s as a key", n.Value)
	}
	var object map[string]int
	if err := json.Unmarshal(raw, &object); err != nil {
		return "", fmt.Errorf("%s as a key: %w", n.Value, err)
	}
	for key := range object {
		return key, nil
	}
	return value, nil
}
