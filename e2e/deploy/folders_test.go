package deploy

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podgrace/podgrace/e2e/podgrace"
)

// programFlags are the node enforcer's flags with their defaults, as it prints them.
func programFlags(t *testing.T) map[string]string {
	t.Helper()
	program, err := podgrace.BuildEnforcer(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)\b.*?(?:\(default "(.*)"\))?$`).FindAllStringSubmatch(string(out), -1) {
		flags[m[1]] = m[2]
	}
	return flags
}

// What the program opens is what is mounted there from the host, as the values say; and nothing is mounted that it does not open.
func TestEnforcersFolders(t *testing.T) {
	flags := programFlags(t)
	standard := map[string]string{
		"cgroup-root": "/sys/fs/cgroup", "systemd-bus": "/run/dbus/system_bus_socket", "checkpoint": "/var/lib/podgrace/checkpoint",
		"runtime-dir": "/run/podgrace", "kubelet-root": "/var/lib/kubelet",
	}
	hidden := []string{"pods", "plugins", "plugins_registry", "pod-resources", "device-plugins", "checkpoints"}
	check := func(name string, o *unstructured.Unstructured, opens map[string]string, hidden []string) {
		t.Run(name, func(t *testing.T) {
			pod := typed[appsv1.DaemonSet](t, o).Spec.Template.Spec
			opened := wantOpened(t, &pod, flags, opens)
			for _, folder := range hidden {
				from, at := hostOf(&pod, opened["kubelet-root"]+"/"+folder)
				if from != "" || at.Name != "hidden" || !at.ReadOnly {
					t.Errorf("%s is there: %s by %+v", folder, from, at)
				}
			}
			if used := len(opens) + len(hidden); used != len(pod.Containers[0].VolumeMounts) {
				t.Errorf("%d mounts for %d uses: %v", len(pod.Containers[0].VolumeMounts), used, pod.Containers[0].VolumeMounts)
			}
		})
	}
	check("kustomize", find(t, withEnforcer.kustomized(t), "DaemonSet", "podgrace-nodeenforcer"), standard, hidden)
	patched := maps.Clone(standard)
	patched["image-root"] = "/var/lib/containers"
	check("kustomize with the patch of the docs", find(t, withPatchOfDocs(t, "name: images,"), "DaemonSet", "podgrace-nodeenforcer"), patched, hidden)
	for _, v := range typed[appsv1.DaemonSet](t, find(t, withPatchOfDocs(t, "name: dbus,"), "DaemonSet", "podgrace-nodeenforcer")).Spec.Template.Spec.Volumes {
		if v.Name == "dbus" {
			t.Errorf("with the patch of the docs it has D-Bus: %v", v)
		}
	}
	for values, change := range map[string]struct {
		opens  map[string]string
		hidden []string
	}{
		"nodeEnforcer.kubeletRoot=/data/kubelet":          {map[string]string{"kubelet-root": "/data/kubelet"}, hidden},
		"nodeEnforcer.imageRoot=/var/lib/containers":      {map[string]string{"image-root": "/var/lib/containers"}, hidden},
		"nodeEnforcer.dbus=false":                         {map[string]string{"systemd-bus": ""}, hidden},
		"nodeEnforcer.hidePKI=true":                       {nil, append(hidden, "pki")},
		"nodeEnforcer.dbus=false,monitoring.enabled=true": {map[string]string{"systemd-bus": ""}, hidden},
	} {
		opens := maps.Clone(standard)
		maps.Copy(opens, change.opens)
		maps.DeleteFunc(opens, func(_, file string) bool { return file == "" })
		check(values, find(t, variant{values: []string{enforcing, values}}.templated(t, namespace), "DaemonSet", "podgrace-nodeenforcer"), opens, change.hidden)
	}
}

// withPatchOfDocs is what the overlay gives with the patch of the DaemonSet, in docs/install.md, that has a text.
func withPatchOfDocs(t *testing.T, has string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	var patch [][]byte
	for _, found := range regexp.MustCompile("(?s)```yaml\n(patches:\n.*?)```").FindAllSubmatch(text, -1) {
		if strings.Contains(string(found[1]), has) {
			patch = found
		}
	}
	if patch == nil {
		t.Fatalf("docs/install.md shows no patch with %s", has)
	}
	dir := withEnforcer.folder(t)
	file := filepath.Join(dir, "kustomization.yaml")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(before, patch[1]...), 0o600); err != nil {
		t.Fatal(err)
	}
	return build(t, dir)
}

// wantOpened fails where a file of the host is not where the program looks for it, and returns where that is, by the flags' names.
func wantOpened(t *testing.T, pod *corev1.PodSpec, flags, opens map[string]string) map[string]string {
	t.Helper()
	given := map[string]string{}
	for _, arg := range pod.Containers[0].Args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if _, known := flags[name]; !known {
			t.Errorf("the program has no flag %s", arg)
		}
		given[name] = value
	}
	for _, flag := range []string{"cgroup-root", "systemd-bus", "checkpoint", "runtime-dir", "kubelet-root", "image-root"} {
		want, ok := opens[flag]
		if _, set := given[flag]; set && !ok {
			t.Errorf("--%s=%s is set, and nothing of the host is there", flag, given[flag])
		} else if !set {
			given[flag] = flags[flag]
		}
		got, at := hostOf(pod, given[flag])
		if got != want {
			t.Errorf("--%s=%s is %q of the host, want %q", flag, given[flag], got, want)
		}
		// What is mounted below it on the host comes and goes here too: else a volume would stay mounted after its pod.
		if watched := flag == "kubelet-root" || flag == "image-root"; ok && watched && (!at.ReadOnly || at.MountPropagation == nil || *at.MountPropagation != corev1.MountPropagationHostToContainer) {
			t.Errorf("--%s: the mount is %+v", flag, at)
		}
	}
	return given
}

// hostOf returns what a file of the container is on the host, or nothing where it is not of the host, and by which mount.
func hostOf(pod *corev1.PodSpec, file string) (string, corev1.VolumeMount) {
	var by corev1.VolumeMount
	for _, m := range pod.Containers[0].VolumeMounts {
		if (file == m.MountPath || strings.HasPrefix(file, m.MountPath+"/")) && len(m.MountPath) > len(by.MountPath) {
			by = m
		}
	}
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == by.Name })
	if i < 0 || pod.Volumes[i].HostPath == nil {
		return "", by
	}
	return path.Join(pod.Volumes[i].HostPath.Path, strings.TrimPrefix(file, by.MountPath)), by
}
