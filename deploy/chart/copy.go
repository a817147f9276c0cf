package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// copied is the folder of the copies, from deploy.
const copied = "chart/podgrace/files"

// folders of deploy are what the chart is made of: the files among the resources of their kustomizations.
var folders = []string{"crds", "crds/fencer", "crds/volumelock", "webhook", "nodeenforcer", "policies", "components/selfmanaged", "components/certmanager", "components/monitoring", "components/dashboard", "components/network-policy", "components/fencer", "components/fencer-networkfence", "components/self-fence", "components/nodeenforcer-enforce", "components/volumelock", "components/openshift"}

// sources returns the manifests by their paths among the copies.
func sources(deploy fs.FS) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, folder := range folders {
		names, err := resources(deploy, folder)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := fs.ReadFile(deploy, path.Join(folder, name))
			if err != nil {
				return nil, fmt.Errorf("read a resource of %s: %w", folder, err)
			}
			all[path.Join(path.Base(folder), name)] = text
		}
	}
	return all, nil
}

// resources returns the names of the files that a folder's kustomization lists. Other folders that it lists are folders of their own here.
func resources(deploy fs.FS, folder string) ([]string, error) {
	text, err := fs.ReadFile(deploy, path.Join(folder, "kustomization.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the kustomization of %s: %w", folder, err)
	}
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		return nil, fmt.Errorf("read the kustomization of %s: %w", folder, err)
	}
	return slices.DeleteFunc(kustomization.Resources, func(name string) bool { return path.Ext(name) != ".yaml" }), nil
}

// read returns the files of a folder by their paths in it. A folder that is not there has none.
func read(deploy fs.FS, folder string) (map[string][]byte, error) {
	all := map[string][]byte{}
	err := fs.WalkDir(deploy, folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(deploy, name)
		all[strings.TrimPrefix(name, folder+"/")] = text
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", folder, err)
	}
	return all, nil
}

// diff returns the names of what is missing, different, or there in vain, sorted.
func diff(want, have map[string][]byte) []string {
	changed := map[string]bool{}
	for name, text := range want {
		if got, ok := have[name]; !ok || !bytes.Equal(got, text) {
			changed[name] = true
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			changed[name] = true
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// write makes the copies as they should be.
func write(deploy *os.Root, want map[string][]byte, changes []string) error {
	for _, change := range changes {
		name := path.Join(copied, change)
		text, ok := want[change]
		if !ok {
			if err := deploy.Remove(name); err != nil {
				return fmt.Errorf("remove what is no longer copied: %w", err)
			}
			continue
		}
		if err := errors.Join(deploy.MkdirAll(path.Dir(name), 0o755), deploy.WriteFile(name, text, 0o644)); err != nil {
			return fmt.Errorf("copy %s: %w", change, err)
		}
	}
	return nil
}
