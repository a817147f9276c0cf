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

	"github.com/podgrace/podgrace/manifest"
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

// plugins are programs and transformers by files of their own, which may name anything.
func (k *kustomization) plugins() []string {
	return slices.Concat(k.Generators, k.Transformers, k.Validators)
}

// parts are files of its own that are no manifests.
func (k *kustomization) parts() []string {
	files := slices.Concat(k.Configurations, k.plugins())
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
	for _, source := range k.data() {
		_, file, named := strings.Cut(source, "=")
		if !named {
			file = source
		}
		files = append(files, file)
	}
	return slices.DeleteFunc(files, func(name string) bool { return name == "" })
}

// data are the sources of ConfigMaps and Secrets, as FILE or KEY=FILE.
func (k *kustomization) data() []string {
	var sources []string
	for _, c := range k.ConfigMapGenerator {
		sources = append(append(sources, c.FileSources...), append(c.EnvSources, c.EnvSource)...)
	}
	for _, s := range k.SecretGenerator {
		sources = append(append(sources, s.FileSources...), append(s.EnvSources, s.EnvSource)...)
	}
	return sources
}

// remoteFile is what kustomize reads from a server (api/internal/loader/fileloader.go IsRemoteFile, 0.21.1).
var remoteFile = regexp.MustCompile(`(?i)^https?:`)

// remoteFolder is what kustomize may hand to git, or is on its way to it (api/internal/git/repospec.go NewRepoSpecFromURL, 0.21.1), and
// whatever has a colon besides.
var remoteFolder = regexp.MustCompile(`(?i):|^[a-z][a-z0-9-]*@|^github\.com/`)

// errElsewhere is why a kustomization is left out, and no error of the input: nothing is fetched from anywhere.
var errElsewhere = errors.New("not on this machine")

// closure finds the files and folders of which a kustomization is built, by their absolute paths, before kustomize sees it: what is not here it
// would try to fetch, by git or from a server. Above are the folders that lead to it.
func (k *kustomization) closure(files, folders map[string]bool, above ...string) error {
	if k.wrong != nil {
		return k.wrong
	}
	if len(k.plugins()) > 0 || len(k.HelmCharts) > 0 || len(k.HelmChartInflationGenerator) > 0 {
		return fmt.Errorf("%w: what its generators, transformers, validators or charts need", errElsewhere)
	}
	for _, name := range slices.Concat(k.parts(), k.Crds) {
		if remoteFile.MatchString(name) {
			return fmt.Errorf("%w: %s", errElsewhere, name)
		}
	}
	above = append(above, absolute(filepath.Dir(k.file)))
	for _, name := range k.resources() {
		if remoteFolder.MatchString(name) {
			return fmt.Errorf("%w: %s", errElsewhere, name)
		}
		path := k.at(name)
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %s", name, manifest.Reason(err))
		case !info.IsDir():
			files[path] = true
			continue
		case slices.Contains(above, path):
			return fmt.Errorf("%s: it is built of itself", name)
		case folders[path]:
			continue
		}
		folders[path] = true
		base := readKustomization(path)
		if base == nil {
			return fmt.Errorf("%s: no kustomization in this folder", name)
		}
		if err := base.closure(files, folders, above...); err != nil {
			return err
		}
	}
	return nil
}

// build renders it. Its closure was found to be here.
func (k *kustomization) build() (text []byte, err error) {
	defer func() { // kustomize panics at some of what nobody writes
		if p := recover(); p != nil {
			err = fmt.Errorf("kustomize failed: %v", p)
		}
	}()
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // as the kustomization says, without a word about it
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Dir(k.file))
	if err != nil {
		return nil, err
	}
	return resources.AsYaml()
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

// errAlone is why a component is left out.
var errAlone = errors.New("a component of none of these")

// used finds what can be built, by absolute paths: the files and folders of which something is built, which need no other reading, and
// what keeps others from being built.
func (all kustomizations) used() (files, folders map[string]bool, wrong map[*kustomization]error) {
	files, folders, wrong = map[string]bool{}, map[string]bool{}, map[*kustomization]error{}
	for _, k := range all {
		its, below := map[string]bool{}, map[string]bool{}
		wrong[k] = k.closure(its, below)
		if wrong[k] == nil && k.Kind == types.ComponentKind {
			wrong[k] = errAlone
		}
		if wrong[k] == nil {
			maps.Copy(files, its)
			maps.Copy(folders, below)
		}
	}
	return files, folders, wrong
}
