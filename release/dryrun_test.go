package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/yaml"
)

// As many platforms as there are kinds of archives and images: where nothing is cached each takes minutes of a processor. TestCompiles has the others, and the
// workflow makes all.
var dryRun = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}}

// A whole release without a network: what users are given is what it should be, and pushed it is the same.
func TestDryRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs for three platforms")
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	o := options{version: "v1.2.3", registry: strings.TrimPrefix(server.URL, "http://") + "/podgrace", out: filepath.Join(t.TempDir(), "dist")}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	w := &workshop{root: root, out: o.out}
	if w.release, err = read(t.Context(), root, o); err != nil {
		t.Fatal(err)
	}
	w.CommandLines = dryRun
	if err := w.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.deliver(t.Context(), false); err != nil {
		t.Fatal(err)
	}

	t.Run("checksums", w.testChecksums)
	t.Run("archives", w.testArchives)
	t.Run("the same again", w.testSameAgain)
	t.Run("SBOMs", w.testBills)
	t.Run("krew", w.testKrew)
	t.Run("images", w.testImages)
	t.Run("manifests", w.testManifests)
	t.Run("push", w.testPush)
}

func (w *workshop) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.out, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Each file of the release is in checksums.txt, with its digest.
func (w *workshop) testChecksums(t *testing.T) {
	listed := map[string]string{}
	for line := range strings.Lines(string(w.read(t, checksumsFile))) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		listed[name] = sum
	}
	entries, err := os.ReadDir(w.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() || slices.Contains([]string{mark, checksumsFile, imagesFile, notesFile}, e.Name()) {
			continue
		}
		if listed[e.Name()] != digest(w.read(t, e.Name())) {
			t.Errorf("%s: %q", e.Name(), listed[e.Name()])
		}
		delete(listed, e.Name())
	}
	if len(listed) > 0 {
		t.Errorf("not there: %v", listed)
	}
}

// opened are an archive's files.
func (w *workshop) opened(t *testing.T, name string) map[string][]byte {
	t.Helper()
	data, files := w.read(t, name), map[string][]byte{}
	if strings.HasSuffix(name, ".zip") {
		from, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range from.File {
			one, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			if files[f.Name], err = io.ReadAll(one); err != nil {
				t.Fatal(err)
			}
		}
		return files
	}
	plain, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return untarred(t, plain)
}

func untarred(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	from, files := tar.NewReader(r), map[string][]byte{}
	for {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || header.Gname != "" {
			t.Errorf("%s belongs to %d (%s)", header.Name, header.Uid, header.Uname)
		}
		if files[header.Name], err = io.ReadAll(from); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *workshop) testArchives(t *testing.T) {
	for _, p := range w.CommandLines {
		files := w.opened(t, w.archive(p))
		program := files[p.program("podgrace")]
		if len(files) != 3 || len(files["LICENSE"]) == 0 || len(files["README.md"]) == 0 || len(program) == 0 {
			t.Errorf("%s has %d files", p, len(files))
		}
		if p != (platform{runtime.GOOS, runtime.GOARCH}) {
			continue
		}
		file := filepath.Join(t.TempDir(), "podgrace")
		if err := os.WriteFile(file, program, 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), file, "version").CombinedOutput()
		if want := "podgrace v1.2.3 (commit " + w.Commit + " of " + w.Date.Format("2006-01-02T15:04:05Z") + ", "; err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("podgrace version: %v, %s, want %s", err, out, want)
		}
	}
}

// The command line of one platform, linked, packed and described once more, elsewhere.
func (w *workshop) testSameAgain(t *testing.T) {
	p := platform{"linux", "arm64"}
	to := filepath.Join(t.TempDir(), "podgrace")
	if err := w.compile(t.Context(), "podgrace", p, to); err != nil {
		t.Fatal(err)
	}
	again := &workshop{release: w.release, root: w.root, programs: map[platform]map[string]string{p: {"podgrace": to}}}
	files, err := again.packed(p)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := archive(&text, again.archive(p), files, again.Date); err != nil {
		t.Fatal(err)
	}
	bom, err := again.bill(to, newOnce())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text.Bytes(), w.read(t, w.archive(p))) || !bytes.Equal(bom, w.read(t, w.archive(p)+".cdx.json")) {
		t.Error("another archive or SBOM of the same commit")
	}
	// The chart is packed by Helm.
	before := w.read(t, w.chartFile())
	other := &workshop{release: w.release, root: w.root, out: t.TempDir(), scratch: t.TempDir(), digests: map[string]string{}, images: w.images}
	if err := other.chart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, other.read(t, w.chartFile())) {
		t.Error("another chart of the same commit")
	}
}

func (w *workshop) testBills(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(w.out, "*.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	if want := len(w.CommandLines) + 6*len(w.Nodes); len(files) != want {
		t.Errorf("%d SBOMs, want %d: %q", len(files), want, files)
	}
	for _, file := range files {
		var bom cdx.BOM
		if err := cdx.NewBOMDecoder(bytes.NewReader(w.read(t, filepath.Base(file))), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
			t.Fatal(err)
		}
		if bom.BOMFormat != "CycloneDX" || bom.SpecVersion != cdx.SpecVersion1_6 || bom.Metadata.Component.Version != "v1.2.3" {
			t.Errorf("%s: %s %s of %s", file, bom.BOMFormat, bom.SpecVersion, bom.Metadata.Component.Version)
		}
		i := slices.IndexFunc(*bom.Components, func(c cdx.Component) bool { return c.Name == "k8s.io/api" })
		if i < 0 {
			t.Errorf("%s has no k8s.io/api", file)
			continue
		}
		if api := (*bom.Components)[i]; api.Version == "" || api.Evidence == nil || api.Evidence.Licenses == nil || (*api.Evidence.Licenses)[0].License.ID != "Apache-2.0" {
			t.Errorf("%s: %s of %s without its licence", file, api.Name, api.Version)
		}
	}
}

// The manifest passes krew's own checks, and krew installs what it names.
func (w *workshop) testKrew(t *testing.T) {
	manifest := filepath.Join(w.out, "podgrace.yaml")
	if out, err := output(t.Context(), ".", "go", "tool", "validate-krew-manifest", "-skip-install", "-manifest", manifest); err != nil {
		t.Fatal(err, out)
	}
	var p index.Plugin
	if err := yaml.UnmarshalStrict(w.read(t, "podgrace.yaml"), &p); err != nil {
		t.Fatal(err)
	}
	for _, on := range p.Spec.Platforms {
		archive := filepath.Base(on.URI)
		if on.Sha256 != digest(w.read(t, archive)) {
			t.Errorf("another digest of %s", archive)
		}
		if files := w.opened(t, archive); files[on.Bin] == nil {
			t.Errorf("no %s in %s", on.Bin, archive)
		}
		if on.Selector.MatchLabels["os"] == "windows" {
			continue // krew copies there what it links elsewhere
		}
		home := t.TempDir()
		install := exec.CommandContext(t.Context(), "go", "tool", "krew", "install", "--manifest="+manifest, "--archive="+filepath.Join(w.out, archive))
		install.Env = append(os.Environ(), "KREW_ROOT="+home, "KREW_OS="+on.Selector.MatchLabels["os"], "KREW_ARCH="+on.Selector.MatchLabels["arch"], "KREW_NO_UPGRADE_CHECK=1")
		if out, err := install.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", archive, err, out)
		} else if _, err := os.Stat(filepath.Join(home, "bin", "kubectl-podgrace")); err != nil {
			t.Error(err)
		}
	}
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// Each image has, for each platform, programs of that platform that need no library, and says of which commit it is.
func (w *workshop) testImages(t *testing.T) {
	for _, i := range w.images {
		index, err := layout.ImageIndexFromPath(filepath.Join(w.out, "images", i.Name))
		if err != nil {
			t.Fatal(err)
		}
		for p, digest := range i.Platforms {
			hash, err := v1.NewHash(digest)
			if err != nil {
				t.Fatal(err)
			}
			one, err := index.Image(hash)
			if err != nil {
				t.Fatal(err)
			}
			config, err := one.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if config.OS != p.OS || config.Architecture != p.Arch || config.Config.User != i.User || config.Config.Labels["org.opencontainers.image.revision"] != w.Commit {
				t.Errorf("%s for %s: %+v", i.Name, p, config)
			}
			content := mutate.Extract(one)
			files := untarred(t, content)
			content.Close()
			if !bytes.Contains(files["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")) {
				t.Errorf("%s for %s trusts nobody", i.Name, p)
			}
			for _, program := range i.Programs {
				header, err := elf.NewFile(bytes.NewReader(files["usr/local/bin/"+program]))
				if err != nil {
					t.Errorf("%s in %s for %s: %v", program, i.Name, p, err)
					continue
				}
				if libraries, err := header.ImportedLibraries(); header.Machine != machines[p.Arch] || err != nil || len(libraries) > 0 {
					t.Errorf("%s in %s for %s is for %s and needs %q, %v", program, i.Name, p, header.Machine, libraries, err)
				}
			}
		}
	}
}

// Chart and install.yaml name the images by their digests, and no other image.
func (w *workshop) testManifests(t *testing.T) {
	rendered, err := output(t.Context(), filepath.Join(w.root, "e2e", "deploy"), "go", "tool", "helm", "template", "podgrace", filepath.Join(w.out, w.chartFile()), "--namespace=podgrace-system", "--set=nodeEnforcer.enabled=true,fencer.enabled=true,volumeLock.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	for from, test := range map[string]struct {
		text  string
		names []string
	}{
		"chart":        {rendered, []string{"webhook", "nodeenforcer", "fencer", "volumelock"}},
		"install.yaml": {string(w.read(t, "install.yaml")), []string{"webhook"}},
	} {
		found := map[string]bool{}
		for line := range strings.Lines(test.text) {
			if image, is := strings.CutPrefix(strings.TrimLeft(line, " -"), "image: "); is {
				found[strings.Trim(strings.TrimSpace(image), `"`)] = true
			}
		}
		for _, i := range w.images {
			want, has := w.reference(i.Name)+"@"+i.Digest, slices.Contains(test.names, i.Name)
			if found[want] != has {
				t.Errorf("%s: %s: %v", from, want, found[want])
			}
			delete(found, want)
		}
		if len(found) > 0 {
			t.Errorf("%s also has %v", from, found)
		}
	}
}

// What a registry has afterwards is what the chart asks for.
func (w *workshop) testPush(t *testing.T) {
	if err := w.push(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, i := range w.images {
		if got, err := digestOf(t.Context(), w.reference(i.Name)+":v1.2.3"); err != nil || got != i.Digest {
			t.Errorf("%s: got %s, %v, want %s", i.Name, got, err, i.Digest)
		}
		for p, digest := range i.Platforms {
			ref, err := name.NewDigest(w.reference(i.Name) + "@" + digest)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := remote.Image(ref, remote.WithContext(t.Context())); err != nil {
				t.Errorf("%s for %s: %v", i.Name, p, err)
			}
		}
	}
	if _, err := digestOf(t.Context(), w.chartReference()+":1.2.3"); err != nil {
		t.Error(err)
	}
}

// A chart that is pushed again is the same to the registry, whenever its file was written: a signature is for its digest.
func TestChart(t *testing.T) {
	if testing.Short() {
		t.Skip("links Helm")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	for range 2 {
		server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
		defer server.Close()
		r := first
		r.Registry = strings.TrimPrefix(server.URL, "http://") + "/podgrace"
		w := &workshop{release: r, root: root, out: t.TempDir(), scratch: t.TempDir(), digests: map[string]string{}}
		// The registry's name is in the chart, and each of these has another port.
		of := *w
		of.Registry = first.Registry
		if err := of.chart(t.Context()); err != nil {
			t.Fatal(err)
		}
		written := first.Date.AddDate(0, 0, len(digests))
		if err := os.Chtimes(filepath.Join(w.out, w.chartFile()), written, written); err != nil {
			t.Fatal(err)
		}
		if err := w.push(t.Context()); err != nil {
			t.Fatal(err)
		}
		digest, err := digestOf(t.Context(), w.chartReference()+":"+w.chartVersion())
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("two charts: %q", digests)
	}
}

// What somebody else has put into a folder stays.
func TestClear(t *testing.T) {
	w := &workshop{out: t.TempDir()}
	if err := w.clear(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.out, "old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.clear(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(w.out, "old")); err == nil {
		t.Error("what an earlier run has made is there still")
	}
	w.out = t.TempDir()
	if err := os.WriteFile(filepath.Join(w.out, "somebody's"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.clear(); err == nil {
		t.Error("somebody's file was removed")
	}
}
