package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// workshop is where a release is made: the edge to files and commands.
type workshop struct {
	release
	root, out string
	scratch   string // within out, which is on a disk with room

	programs map[platform]map[string]string // built, as files by their names
	digests  map[string]string              // SHA-256 of the files in out, hexadecimal
	images   []made
	licences *once
	draft    bool // the release has a page already, which an earlier run has left as a draft
}

// mark is a file by which a folder is known as one that this command has made, and may replace.
const mark = ".release"

// make makes everything that needs no network.
func (w *workshop) make(ctx context.Context) error {
	if err := w.clear(); err != nil {
		return err
	}
	w.scratch = filepath.Join(w.out, ".scratch")
	defer os.RemoveAll(w.scratch)
	w.programs, w.digests, w.licences = map[platform]map[string]string{}, map[string]string{}, newOnce()
	for _, step := range []func(context.Context) error{w.build, w.archives, w.containers, w.chart, w.install, w.plugins} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(w.out, checksumsFile), checksums(w.digests), 0o644); err != nil {
		return err
	}
	digests := map[string]string{}
	for _, i := range w.images {
		digests[w.reference(i.Name)] = i.Digest
	}
	return os.WriteFile(filepath.Join(w.out, imagesFile), checksums(digests), 0o644)
}

// clear empties what an earlier run has made, and nothing else.
func (w *workshop) clear() error {
	entries, err := os.ReadDir(w.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(w.out, mark)); err != nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty, and no earlier run has made it", w.out)
	}
	if err := os.RemoveAll(w.out); err != nil {
		return err
	}
	if err := os.MkdirAll(w.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.out, mark), nil, 0o644)
}

// write puts a file into the release.
func (w *workshop) write(name string, data []byte) error {
	sum := sha256.Sum256(data)
	w.digests[name] = hex.EncodeToString(sum[:])
	return os.WriteFile(filepath.Join(w.out, name), data, 0o644)
}

// build builds the programs of the release's platforms, each once.
func (w *workshop) build(ctx context.Context) error {
	wanted := map[platform][]string{}
	for _, p := range w.CommandLines {
		wanted[p] = []string{"podgrace"}
	}
	for _, p := range w.Nodes {
		for _, i := range images {
			wanted[p] = append(wanted[p], i.Programs...)
		}
		slices.Sort(wanted[p])
		wanted[p] = slices.Compact(wanted[p])
	}
	for _, p := range w.CommandLines {
		w.programs[p] = map[string]string{}
		for _, program := range wanted[p] {
			to := filepath.Join(w.scratch, p.OS, p.Arch, p.program(program))
			if err := w.compile(ctx, program, p, to); err != nil {
				return err
			}
			w.programs[p][program] = to
		}
	}
	return nil
}

// passed are the settings of Go that a user may have and that change no program: where modules come from and are kept, and which Go builds.
var passed = []string{"GOAUTH", "GOCACHE", "GOINSECURE", "GOMODCACHE", "GONOPROXY", "GONOSUMDB", "GOPATH", "GOPRIVATE", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN", "GOVCS"}

// environment is what a program is built in for a platform: of what a user could have set, in the environment or by go env -w, only what changes no program.
func environment(ctx context.Context, dir string, p platform) ([]string, error) {
	text, err := output(ctx, dir, "go", append([]string{"env", "-json"}, passed...)...)
	if err != nil {
		return nil, err
	}
	var settings map[string]string
	if err := json.Unmarshal([]byte(text), &settings); err != nil {
		return nil, fmt.Errorf("read go env: %w", err)
	}
	env := append(os.Environ(), "GOENV=off")
	for _, name := range passed {
		env = append(env, name+"="+settings[name])
	}
	return append(env, "GOOS="+p.OS, "GOARCH="+p.Arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off"), nil
}

// compile builds one program. Without what Go reads of git: linkerFlags says it, and a checkout of another owner has none.
func (w *workshop) compile(ctx context.Context, program string, p platform, to string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+w.linkerFlags(), "-o", to, "./cmd/"+program)
	build.Dir = filepath.Join(w.root, modules[program])
	var err error
	if build.Env, err = environment(ctx, build.Dir, p); err != nil {
		return err
	}
	fmt.Printf("build %s for %s\n", program, p)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for %s: %w\n%s", program, p, err, out)
	}
	return nil
}

// archives packs the command line, and says what is in it.
func (w *workshop) archives(context.Context) error {
	for _, p := range w.CommandLines {
		name, text := w.archive(p), bytes.Buffer{}
		files, err := w.packed(p)
		if err != nil {
			return err
		}
		if err := archive(&text, name, files, w.Date); err != nil {
			return err
		}
		bom, err := w.bill(w.programs[p]["podgrace"], w.licences)
		if err != nil {
			return err
		}
		if err := errors.Join(w.write(name, text.Bytes()), w.write(name+".cdx.json", bom)); err != nil {
			return err
		}
	}
	return nil
}

// packed is what the command line's archive holds.
func (w *workshop) packed(p platform) ([]file, error) {
	files := []file{{Name: "LICENSE", Mode: 0o644}, {Name: "README.md", Mode: 0o644}, {Name: p.program("podgrace"), Mode: 0o755}}
	for i, from := range []string{filepath.Join(w.root, "LICENSE"), filepath.Join(w.root, "README.md"), w.programs[p]["podgrace"]} {
		data, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		files[i].Data = data
	}
	return files, nil
}

// containers makes the images, and says what is in their programs.
func (w *workshop) containers(context.Context) error {
	for _, i := range images {
		m, err := w.image(filepath.Join(w.out, "images"), i, w.programs)
		if err != nil {
			return err
		}
		w.images = append(w.images, m)
		for _, p := range w.Nodes {
			for _, program := range i.Programs {
				name := w.materials(program, p)
				if w.digests[name] != "" { // of an image before
					continue
				}
				bom, err := w.bill(w.programs[p][program], w.licences)
				if err != nil {
					return err
				}
				if err := w.write(name, bom); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// helm runs Helm as e2e/deploy pins it, whose tests install the chart by it.
func (w *workshop) helm(ctx context.Context, args ...string) error {
	out, err := output(ctx, filepath.Join(w.root, "e2e", "deploy"), "go", append([]string{"tool", "helm"}, args...)...)
	fmt.Println(out)
	return err
}

// chart packs the chart with the release's version, registry and digests.
func (w *workshop) chart(ctx context.Context) error {
	dir := filepath.Join(w.scratch, "chart", "podgrace")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(w.root, "deploy", "chart", "podgrace"))); err != nil {
		return err
	}
	file := filepath.Join(dir, "values.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	values, err := w.values(string(text), w.images)
	if err != nil {
		return fmt.Errorf("the chart's values: %w", err)
	}
	if err := os.WriteFile(file, []byte(values), 0o644); err != nil {
		return err
	}
	// Helm packs each file with its own time.
	if err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(name, w.Date, w.Date))
	}); err != nil {
		return err
	}
	if err := w.helm(ctx, "package", dir, "--destination", w.scratch, "--version", w.chartVersion(), "--app-version", w.Version); err != nil {
		return err
	}
	packed, err := os.ReadFile(filepath.Join(w.scratch, w.chartFile()))
	if err != nil {
		return err
	}
	return w.write(w.chartFile(), packed)
}

func (w *workshop) install(context.Context) error {
	text, err := w.manifests(w.root, w.scratch, w.images)
	if err != nil {
		return err
	}
	return w.write("install.yaml", text)
}

func (w *workshop) plugins(context.Context) error {
	text, err := w.plugin(w.digests)
	if err != nil {
		return err
	}
	return w.write("podgrace.yaml", text)
}

// deliver publishes what was made, or says by what it would be.
func (w *workshop) deliver(ctx context.Context, publish bool) error {
	changelog, err := os.ReadFile(filepath.Join(w.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	notes, found := w.notes(string(changelog))
	if !found {
		if publish {
			return fmt.Errorf("CHANGELOG.md has no section %s", w.Version)
		}
		fmt.Printf("CHANGELOG.md has no section %s: this can't be published\n", w.Version)
	}
	if err := os.WriteFile(filepath.Join(w.out, notesFile), []byte(notes), 0o644); err != nil {
		return err
	}
	chart := "sha256:DIGEST" // Helm says it when it has pushed
	if publish {
		if err := w.push(ctx); err != nil {
			return err
		}
		if chart, err = digestOf(ctx, w.chartReference()+":"+w.chartVersion()); err != nil {
			return err
		}
	} else {
		fmt.Println("Nothing was pushed or signed. Publishing pushes the images and the chart to " + w.Registry + " and runs:")
	}
	for _, command := range slices.Concat(w.signing(w.images, chart), w.page(slices.Sorted(maps.Keys(w.digests)), w.draft)) {
		fmt.Println("  " + strings.Join(command, " "))
		if !publish {
			continue
		}
		out, err := output(ctx, w.out, command[0], command[1:]...)
		if err != nil {
			return err
		}
		fmt.Println(out)
	}
	fmt.Println("The page is a draft until, after the attestations, the workflow runs:\n  " + strings.Join(w.showing(), " "))
	return nil
}

// push pushes images and chart. Images first: the chart names them.
func (w *workshop) push(ctx context.Context) error {
	for _, i := range w.images {
		index, err := layout.ImageIndexFromPath(filepath.Join(w.out, "images", i.Name))
		if err != nil {
			return err
		}
		to, err := name.NewTag(w.reference(i.Name) + ":" + w.Version)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(to, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return fmt.Errorf("push %s: %w", to, err)
		}
		fmt.Printf("pushed %s@%s\n", to, i.Digest)
	}
	chart := filepath.Join(w.out, w.chartFile())
	// Helm says in the manifest, and so in its digest, that the chart was created when its file was.
	if err := os.Chtimes(chart, w.Date, w.Date); err != nil {
		return err
	}
	args := []string{"push", chart, "oci://" + w.Registry + "/charts"}
	if registry, err := name.NewRegistry(strings.SplitN(w.Registry, "/", 2)[0]); err == nil && registry.Scheme() == "http" { // loopback, in a test
		args = append(args, "--plain-http")
	}
	return w.helm(ctx, args...)
}

// digestOf is what a registry has by a tag.
func digestOf(ctx context.Context, reference string) (string, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return "", err
	}
	is, err := remote.Head(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return "", fmt.Errorf("read the digest of %s: %w", reference, err)
	}
	return is.Digest.String(), nil
}

// output runs a command in a folder. The error has what it wrote to standard error.
func output(ctx context.Context, dir, command string, args ...string) (string, error) {
	c, problems := exec.CommandContext(ctx, command, args...), bytes.Buffer{}
	c.Dir, c.Stderr = dir, &problems
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", command, strings.Join(args, " "), err, &problems)
	}
	return strings.TrimSpace(string(out)), nil
}

// seconds is a time as git's %ct prints it.
func seconds(text string) (time.Time, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the commit's date: %w", err)
	}
	return time.Unix(n, 0).UTC(), nil
}
