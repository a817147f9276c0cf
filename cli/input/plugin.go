package input

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/internal/manifest"
)

// plugins are the entries of generators, transformers and validators. Each is the configuration of plugins, or a file or folder that has some
// (api/internal/target/kusttarget.go configureExternalTransformers, 0.21.1).
func (k *kustomization) plugins() []string {
	return slices.Concat(k.Generators, k.Transformers, k.Validators)
}

// pluginFiles are the files that configurations name, inline and in files. What is wrong with a configuration is found when it is built.
func (k *kustomization) pluginFiles() []string {
	var files []string
	for _, entry := range k.plugins() {
		configurations, err := parseConfigurations([]byte(entry))
		if err != nil {
			text, err := os.ReadFile(k.at(entry))
			if err != nil {
				continue
			}
			if configurations, err = parseConfigurations(text); err != nil {
				continue
			}
		}
		for _, c := range configurations.Resources() {
			of, _ := filesOf(c)
			files = append(files, of...)
		}
	}
	return files
}

// plugin adds an entry of generators, transformers or validators, if all that it configures is built into kustomize.
func (c *closure) plugin(k *kustomization, entry string, above []string) error {
	configurations, err := parseConfigurations([]byte(entry))
	switch {
	case err == nil:
		return builtIn(configurations)
	case strings.Contains(entry, "\n"): // not a path
		return fmt.Errorf("the configuration of a plugin: %w", err)
	}
	return c.pluginPath(k, entry, above)
}

// pluginPath adds a file or folder of configurations.
func (c *closure) pluginPath(k *kustomization, entry string, above []string) error {
	path, base, err := k.named(entry, above)
	switch {
	case err != nil:
		return err
	case base != nil:
		return c.pluginFolder(path, entry, base, above)
	}
	c.files[path] = true
	return pluginFile(entry, path)
}

// pluginFolder adds a folder of configurations. It may have resources only: of configurations that are patched it is not known here what they load.
func (c *closure) pluginFolder(path, name string, base *kustomization, above []string) error {
	if c.configurations[path] {
		return nil
	}
	c.configurations[path], c.folders[path] = true, true
	own := base.Kustomization
	own.TypeMeta, own.MetaData, own.Resources = types.TypeMeta{}, nil, nil
	switch {
	case base.wrong != nil:
		return base.wrong
	case !reflect.DeepEqual(own, types.Kustomization{}):
		return fmt.Errorf("%w, or more than resources in the kustomization of %s", errPlugin, name)
	}
	for _, resource := range base.Resources {
		if err := c.pluginPath(base, resource, append(above, path)); err != nil {
			return err
		}
	}
	return nil
}

// pluginFile reads a file of configurations.
func pluginFile(name, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s: %s", name, manifest.Reason(err))
	}
	configurations, err := parseConfigurations(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return builtIn(configurations)
}

// parseConfigurations reads the configurations of plugins as kustomize does.
func parseConfigurations(text []byte) (configurations resmap.ResMap, err error) {
	defer recovered(&err)
	return resmap.NewFactory(provider.NewDefaultDepProvider().GetResourceFactory()).NewResMapFromBytes(text)
}

// builtIn returns an error for a plugin that kustomize does not have itself, or that loads something from elsewhere (api/internal/plugins/loader/loader.go
// isBuiltinPlugin, 0.21.1).
func builtIn(configurations resmap.ResMap) error {
	for _, c := range configurations.Resources() {
		gvk := c.GetGvk()
		switch {
		case gvk.Group != "" || gvk.Version != konfig.BuiltinPluginApiVersion:
			return fmt.Errorf("%w: %s of %s", errPlugin, gvk.Kind, gvk.ApiVersion())
		case gvk.Kind == "HelmChartInflationGenerator":
			return errCharts
		}
		files, err := filesOf(c)
		if err != nil {
			return err
		}
		if err := onThisMachine(files); err != nil {
			return err
		}
	}
	return nil
}

// filesOf are the files that a plugin of kustomize loads by its configuration (api/internal/builtins, 0.21.1).
func filesOf(configuration *resource.Resource) ([]string, error) {
	text, err := configuration.AsYAML()
	if err != nil {
		return nil, err
	}
	var of struct {
		types.KvPairSources `json:",inline"`

		Path           string                   `json:"path"`
		Paths          []string                 `json:"paths"`
		TargetFilePath string                   `json:"targetFilePath"`
		Replacements   []types.ReplacementField `json:"replacements"`
	}
	if err := yaml.Unmarshal(text, &of); err != nil {
		return nil, fmt.Errorf("%s: %w", configuration.OrgId(), err)
	}
	files := append(dataFiles(of.KvPairSources), append(of.Paths, of.Path, of.TargetFilePath)...)
	for _, r := range of.Replacements {
		files = append(files, r.Path)
	}
	return files, nil
}
