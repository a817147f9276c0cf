package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/yaml"
)

var first = release{
	Version: "v1.2.3", Commit: "0123456789abcdef0123456789abcdef01234567", Date: time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC), Registry: "registry.example.com/podgrace",
	CommandLines: commandLines, Nodes: nodes,
}

func TestTag(t *testing.T) {
	for version, want := range map[string]bool{
		"v0.1.0": true, "v1.2.3-rc.1": true, "v10.20.30": true, "1.2.3": false, "v1.2": false, "v01.2.3": false, "v1.2.3+build": false, "v1.2.3-": false, "v1.2.3 --help": false, "": false,
	} {
		if got := tag.MatchString(version); got != want {
			t.Errorf("%q: got %v", version, got)
		}
	}
	if first.preview() || !(release{Version: "v1.2.3-rc.1"}).preview() {
		t.Error("what is before a version is known by its dash")
	}
}

func TestNames(t *testing.T) {
	var names []string
	for _, p := range commandLines {
		names = append(names, first.archive(p)+" "+p.program("podgrace"))
	}
	const want = `podgrace_v1.2.3_darwin_amd64.tar.gz podgrace
podgrace_v1.2.3_darwin_arm64.tar.gz podgrace
podgrace_v1.2.3_linux_amd64.tar.gz podgrace
podgrace_v1.2.3_linux_arm64.tar.gz podgrace
podgrace_v1.2.3_windows_amd64.zip podgrace.exe
podgrace_v1.2.3_windows_arm64.zip podgrace.exe`
	if got := strings.Join(names, "\n"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The workflow takes the Go that the product's go.mod names; whoever builds a release again has the same one for all that is in it.
func TestToolchain(t *testing.T) {
	line := regexp.MustCompile(`(?m)^toolchain (go\d+\.\d+\.\d+)$`)
	found := map[string][]string{}
	for _, file := range []string{"../go.mod", "../preview/go.mod", "go.mod"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		match := line.FindSubmatch(text)
		if match == nil {
			t.Fatalf("%s has no toolchain", file)
		}
		found[string(match[1])] = append(found[string(match[1])], file)
	}
	if len(found) != 1 {
		t.Errorf("more than one toolchain: %v", found)
	}
}

func TestLinkerFlags(t *testing.T) {
	const want = "-s -w -X github.com/podgrace/podgrace/internal/program/version.linked=v1.2.3 " +
		"-X github.com/podgrace/podgrace/internal/program/version.linkedCommit=0123456789abcdef0123456789abcdef01234567 " +
		"-X github.com/podgrace/podgrace/internal/program/version.linkedDate=2026-11-26T10:00:00Z"
	if got := first.linkerFlags(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestChecksums(t *testing.T) {
	a, b := strings.Repeat("b", 64), strings.Repeat("a", 64)
	if got, want := string(checksums(map[string]string{"b.zip": b, "a.zip": "sha256:" + a})), a+"  a.zip\n"+b+"  b.zip\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNotes(t *testing.T) {
	const changelog = "# Changelog\n\n## v1.2.3\n\n- new\n\n### more\n\n## v1.2.2\n\n- old\n"
	if got, found := first.notes(changelog); !found || got != "- new\n\n### more\n" {
		t.Errorf("got %q, %v", got, found)
	}
	if _, found := first.notes("# Changelog\n\n## v1.2.30\n"); found {
		t.Error("another version's notes are taken")
	}
}

// What is signed: each image's index, an SBOM for each platform's manifest, the chart and the checksums; and nothing by a tag, which may be moved.
func TestSigning(t *testing.T) {
	images := []made{{images[5], "sha256:index", map[platform]string{nodes[0]: "sha256:amd64", nodes[1]: "sha256:arm64"}}}
	var got []string
	for _, command := range first.signing(images, "sha256:chart") {
		got = append(got, strings.Join(command, " "))
	}
	want := []string{
		"cosign sign --yes registry.example.com/podgrace/preview@sha256:index",
		"cosign attest --yes --type=cyclonedx --predicate=podgrace_v1.2.3_image_linux_amd64.cdx.json registry.example.com/podgrace/preview@sha256:amd64",
		"cosign attest --yes --type=cyclonedx --predicate=podgrace-preview_v1.2.3_image_linux_amd64.cdx.json registry.example.com/podgrace/preview@sha256:amd64",
		"cosign attest --yes --type=cyclonedx --predicate=podgrace_v1.2.3_image_linux_arm64.cdx.json registry.example.com/podgrace/preview@sha256:arm64",
		"cosign attest --yes --type=cyclonedx --predicate=podgrace-preview_v1.2.3_image_linux_arm64.cdx.json registry.example.com/podgrace/preview@sha256:arm64",
		"cosign sign --yes registry.example.com/podgrace/charts/podgrace@sha256:chart",
		"cosign sign-blob --yes --bundle=checksums.txt.sigstore.json checksums.txt",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPage(t *testing.T) {
	before := first
	before.Version = "v1.2.3-rc.1"
	for _, test := range []struct {
		release
		draft bool
		want  []string
	}{
		{first, false, []string{"gh release create v1.2.3 --draft --verify-tag --title=v1.2.3 --notes-file=notes.md a.zip checksums.txt checksums.txt.sigstore.json"}},
		{before, false, []string{"gh release create v1.2.3-rc.1 --draft --verify-tag --title=v1.2.3-rc.1 --notes-file=notes.md --prerelease a.zip checksums.txt checksums.txt.sigstore.json"}},
		{first, true, []string{"gh release edit v1.2.3 --draft --verify-tag --title=v1.2.3 --notes-file=notes.md", "gh release upload v1.2.3 --clobber a.zip checksums.txt checksums.txt.sigstore.json"}},
	} {
		var got []string
		for _, command := range test.page([]string{"a.zip"}, test.draft) {
			got = append(got, strings.Join(command, " "))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// Nobody sees a page before all that proves its files is there: the workflow shows it in its last step, by the command that a dry run names.
func TestWorkflow(t *testing.T) {
	text, err := os.ReadFile("../.github/workflows/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Uses, Run string }
		}
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, step := range workflow.Jobs["release"].Steps {
		action, _, _ := strings.Cut(step.Uses, "@")
		got = append(got, action+step.Run)
	}
	show := strings.ReplaceAll(strings.Join(first.showing(), " "), first.Version, `"$GITHUB_REF_NAME"`)
	want := []string{"make publish", "actions/attest-build-provenance", "actions/attest-build-provenance", show}
	if len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) {
		t.Errorf("the steps are %q, want at their end %q", got, want)
	}
}

func TestPlugin(t *testing.T) {
	digests := map[string]string{}
	for i, p := range commandLines {
		digests[first.archive(p)] = strings.Repeat(string(rune('a'+i)), 64)
	}
	text, err := first.plugin(digests)
	if err != nil {
		t.Fatal(err)
	}
	var p index.Plugin
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, on := range p.Spec.Platforms {
		name, below := strings.CutPrefix(on.URI, "https://github.com/podgrace/podgrace/releases/download/v1.2.3/")
		if !below || !strings.Contains(name, "_"+on.Selector.MatchLabels["os"]+"_"+on.Selector.MatchLabels["arch"]+".") || on.Bin != on.Files[0].From {
			t.Errorf("%+v", on)
		}
		got[name] = on.Sha256
	}
	if !maps.Equal(got, digests) {
		t.Errorf("got %v, want %v", got, digests)
	}
}

func TestValues(t *testing.T) {
	text, err := os.ReadFile("../deploy/chart/podgrace/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []made
	for _, i := range images {
		all = append(all, made{image: i, Digest: "sha256:" + i.Name})
	}
	changed, err := first.values(string(text), all)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := yaml.Unmarshal([]byte(changed), &got); err != nil {
		t.Fatal(err)
	}
	at := func(section, key string) any { return got[section].(map[string]any)[key] }
	if registry := at("images", "registry"); registry != "registry.example.com/" {
		t.Errorf("registry %v", registry)
	}
	for name, section := range sections {
		if digest := at(section, "digest"); digest != "sha256:"+name {
			t.Errorf("%s: %v", section, digest)
		}
	}
	// One line for the registry and for each digest, and no other.
	before, after, differ := strings.Split(string(text), "\n"), strings.Split(changed, "\n"), 0
	for i := range before {
		if before[i] != after[i] {
			differ++
		}
	}
	if len(before) != len(after) || differ != 1+len(sections) {
		t.Errorf("%d lines differ", differ)
	}
	if _, err := first.values(changed, all); err == nil {
		t.Error("a value that is set is set again")
	}
	other := first
	other.Registry = "registry.example.com/other"
	if _, err := other.values(string(text), all); err == nil {
		t.Error("a registry that the chart's repositories are not in is taken")
	}
}

// Images that anybody builds by the Dockerfile and those of a release are the same to the manifests: programs, user, entry point.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := map[string]string{}
	for _, stage := range regexp.MustCompile(`(?ms)^FROM (\S+) AS (\S+)\n(.*?)(?:\n\n|\z)`).FindAllStringSubmatch(string(text), -1) {
		stages[stage[2]] = stages[stage[1]] + "\n" + stage[3] // of what it is from, too
	}
	for _, i := range images {
		stage := stages[i.Name]
		for _, want := range []string{"USER " + i.User, `ENTRYPOINT ["/usr/local/bin/` + i.Programs[0] + `"]`} {
			if !strings.Contains(stage, "\n"+want) {
				t.Errorf("%s: no %s in %s", i.Name, want, stage)
			}
		}
		if got := strings.Count(stage, " /usr/local/bin/"); got != len(i.Programs) {
			t.Errorf("%s: %d programs, want %q", i.Name, got, i.Programs)
		}
		for _, program := range i.Programs {
			if !strings.Contains(stage, "/out/"+program+" /usr/local/bin/"+program+"\n") && !strings.HasSuffix(stage, "/out/"+program+" /usr/local/bin/"+program) {
				t.Errorf("%s: no %s in %s", i.Name, program, stage)
			}
		}
	}
}
