package input

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/podgrace/podgrace/internal/manifest"
)

// kustomization is the kustomization of a folder.
type kustomization struct {
	file string
	types.Kustomization
	// wrong is what keeps it from being read.
	wrong error
}

// readKustomization reads that of a folder; nil: it has none.
func readKustomization(dir string) *kustomization {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := filepath.Join(dir, name)
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		k := &kustomization{file: file}
		if k.wrong = err; err == nil {
			k.wrong = k.Unmarshal(text)
		}
		return k
	}
	return nil
}

// at is the absolute path of what a kustomization names.
func (k *kustomization) at(name string) string {
	return absolute(filepath.Join(filepath.Dir(k.file), name))
}

// absolute is a path by which files are compared.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return filepath.Clean(path)
}

// resources are what it is built of: manifests, and folders with other kustomizations.
func (k *kustomization) resources() []string {
	return slices.Concat(k.Resources, k.Bases, k.Components) //nolint:staticcheck // deprecated, and still built
}

// parts are files of its own that are no manifests.
func (k *kustomization) parts() []string {
	files := slices.Concat(k.Configurations, k.plugins(), k.pluginFiles())
	for _, p := range k.PatchesStrategicMerge { //nolint:staticcheck // deprecated, and still built
		files = append(files, string(p))
	}
	for _, p := range slices.Concat(k.Patches, k.PatchesJson6902) { //nolint:staticcheck // deprecated, and still built
		files = append(files, p.Path)
	}
	for _, r := range k.Replacements {
		files = append(files, r.Path)
	}
	for _, c := range k.HelmCharts {
		files = append(append(files, c.ValuesFile), c.AdditionalValuesFiles...)
	}
	for _, c := range k.HelmChartInflationGenerator {
		files = append(files, c.Values)
	}
	files = append(files, k.OpenAPI["path"])
	for _, c := range k.ConfigMapGenerator {
		files = append(files, dataFiles(c.KvPairSources)...)
	}
	for _, s := range k.SecretGenerator {
		files = append(files, dataFiles(s.KvPairSources)...)
	}
	return slices.DeleteFunc(files, func(name string) bool { return name == "" })
}

// dataFiles are the files of a ConfigMap or Secret. Only a source of one file may have a key before it (api/kv/kv.go, 0.21.1).
func dataFiles(sources types.KvPairSources) []string {
	files := append(slices.Clone(sources.EnvSources), sources.EnvSource)
	for _, source := range sources.FileSources {
		if _, file, ok := strings.Cut(source, "="); ok {
			source = file
		}
		files = append(files, source)
	}
	return files
}

// remoteFile is what kustomize reads from a server (api/internal/loader/fileloader.go IsRemoteFile, 0.21.1).
var remoteFile = regexp.MustCompile(`(?i)^https?:`)

// remoteFolder is what kustomize may hand to git, or is on its way to it (api/internal/git/repospec.go NewRepoSpecFromURL, 0.21.1), and
// whatever has a colon besides.
var remoteFolder = regexp.MustCompile(`(?i):|^[a-z][a-z0-9-]*@|^github\.com/`)

// Why a kustomization is left out, which is not an error of the input: nothing is fetched from anywhere, and kustomize runs no programs.
var (
	errElsewhere = errors.New("not on this machine")
	errCharts    = errors.New("it has Helm charts, which kustomize renders with --enable-helm only")
	errPlugin    = errors.New("it needs a plugin that is not built into kustomize")
	errAlone     = errors.New("a component of none of these")
)

// closure are the files and folders of which kustomizations are built, by their absolute paths. They are found before kustomize sees them: what
// is not on this machine it would try to fetch, by git or from a server.
type closure struct {
	files, folders map[string]bool
	// configurations are folders whose files configure plugins.
	configurations map[string]bool
}

func newClosure() *closure {
	return &closure{files: map[string]bool{}, folders: map[string]bool{}, configurations: map[string]bool{}}
}

// add finds what a kustomization is built of. Above are the folders that lead to it.
func (c *closure) add(k *kustomization, above ...string) error {
	if k.wrong != nil {
		return k.wrong
	}
	if len(k.HelmCharts) > 0 || len(k.HelmChartInflationGenerator) > 0 {
		return errCharts
	}
	if err := onThisMachine(slices.Concat(k.parts(), k.Crds)); err != nil {
		return err
	}
	above = append(above, absolute(filepath.Dir(k.file)))
	for _, name := range k.resources() {
		if err := c.resource(k, name, above); err != nil {
			return err
		}
	}
	for _, entry := range k.plugins() {
		if err := c.plugin(k, entry, above); err != nil {
			return err
		}
	}
	return nil
}

// onThisMachine returns an error for a file that kustomize would read from a server.
func onThisMachine(files []string) error {
	for _, name := range files {
		if remoteFile.MatchString(name) {
			return fmt.Errorf("%w: %s", errElsewhere, name)
		}
	}
	return nil
}

// resource adds a file or a folder that a kustomization names.
func (c *closure) resource(k *kustomization, name string, above []string) error {
	path, base, err := k.named(name, above)
	switch {
	case err != nil:
		return err
	case base == nil:
		c.files[path] = true
		return nil
	case c.folders[path]:
		return nil
	}
	c.folders[path] = true
	return c.add(base, above...)
}

// named is the absolute path of what a kustomization names, and the kustomization of a folder.
func (k *kustomization) named(name string, above []string) (string, *kustomization, error) {
	if remoteFolder.MatchString(name) {
		return "", nil, fmt.Errorf("%w: %s", errElsewhere, name)
	}
	path := k.at(name)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("%s: %s", name, manifest.Reason(err))
	case !info.IsDir():
		return path, nil, nil
	case slices.Contains(above, path):
		return "", nil, fmt.Errorf("%s: it is built of itself", name)
	}
	base := readKustomization(path)
	if base == nil {
		return "", nil, fmt.Errorf("%s: no kustomization in this folder", name)
	}
	return path, base, nil
}

// build renders it. Its closure was found to be here.
func (k *kustomization) build() (text []byte, err error) {
	defer recovered(&err)
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // as the kustomization says, without a word about it
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Dir(k.file))
	if err != nil {
		return nil, err
	}
	return resources.AsYaml()
}

// recovered makes an error of a panic of kustomize, which has some for input that is rare.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("kustomize failed: %v", p)
	}
}

// kustomizations are all of a folder and the folders in it.
type kustomizations []*kustomization

// resources are the files and folders that one of them names as such.
func (all kustomizations) resources() map[string]bool {
	named := map[string]bool{}
	for _, k := range all {
		for _, name := range k.resources() {
			named[k.at(name)] = true
		}
	}
	return named
}

// parts are the files that are named, but never as a resource.
func (all kustomizations) parts() map[string]bool {
	resources, parts := all.resources(), map[string]bool{}
	for _, k := range all {
		for _, name := range k.parts() {
			if path := k.at(name); !resources[path] {
				parts[path] = true
			}
		}
	}
	return parts
}

// used finds what can be built: the files and folders of which something is built, which need no other reading, and what keeps others from being
// built.
func (all kustomizations) used() (built *closure, wrong map[*kustomization]error) {
	built, wrong = newClosure(), map[*kustomization]error{}
	for _, k := range all {
		own := newClosure()
		wrong[k] = own.add(k)
		if wrong[k] == nil && k.Kind == types.ComponentKind {
			wrong[k] = errAlone
		}
		if wrong[k] == nil {
			maps.Copy(built.files, own.files)
			maps.Copy(built.folders, own.folders)
		}
	}
	return built, wrong
}
