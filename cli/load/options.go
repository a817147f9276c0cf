package load

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/manifest"
)

// Options are where manifests, policies and state come from.
type Options struct {
	// Kube names the cluster.
	Kube *genericclioptions.ConfigFlags
	// Paths, Policies and State are the values of -f, --policy and --state; Exclude and Render those of the flags of that name.
	Paths, Policies, State, Exclude, Render []string
	// ExcludeNamespaces are the values of --exclude-namespaces; nil: the cluster's, if one is named.
	ExcludeNamespaces []string
	// Templates are where custom workloads have the template of their pods.
	Templates TemplateFlag
	// Further are kinds that the state has, and that are read of a cluster, beside those that decisions read (review.NewState).
	Further []client.Object
	// ReadOnly: clients that are made of Kube send nothing but GET to the API server. Reviews that ask it, as SelfSubjectAccessReview, are
	// POST, and are not sent either.
	ReadOnly bool
	// MayLackPolicies: a cluster that does not know their kind has none, and is judged. Without it that is an error: a review by no policies lets everything pass.
	MayLackPolicies bool
	// MayDump: of a cluster that was named its own workloads, Nodes and pods are the manifests where no -f names some.
	MayDump bool

	// Namespace is that of objects that name none. Complete sets it, and Live: a cluster was named.
	Namespace string
	Live      bool
}

// New returns the options of a program, which tells its name to the cluster.
func New(program string) *Options {
	kube := terminal.NewConfigFlags(program)
	kube.Impersonate, kube.ImpersonateGroup, kube.ImpersonateUID, kube.ImpersonateUserExtra = nil, nil, nil, nil // --as is who is judged, and not who reads
	o := &Options{Kube: kube}
	named := kube.WrapConfigFn
	kube.WithWrapConfigFn(func(config *rest.Config) *rest.Config {
		if o.ReadOnly {
			config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
		}
		return named(config)
	})
	return o
}

// AddFlags declares the flags.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.Paths, "filename", "f", nil, "file, folder or - (stdin) with manifests; may be repeated")
	o.AddReadingFlags(f)
	o.addState(f)
}

// AddReadingFlags declares how -f and --state are read.
func (o *Options) AddReadingFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.Exclude, "exclude", nil, "files and folders of -f and --state to leave out, by a pattern as in .gitignore, such as testdata/ or '*-values.yaml'; may be repeated ("+input.IgnoreFile+" in a folder has such patterns, too)")
	f.StringSliceVar(&o.Render, "render", nil, "render folders with a Chart.yaml by the helm on the PATH, and those with a kustomization.yaml as kubectl does: helm, kustomize or helm,kustomize (default: name the ones that are left out)")
}

// addState declares the flags of policies and state.
func (o *Options) addState(f *pflag.FlagSet) {
	f.StringArrayVar(&o.Policies, "policy", nil, "file, folder or - (stdin) with PodPolicies, also of a commit: git::REPOSITORY//PATH@REF; may be repeated")
	f.StringArrayVar(&o.State, "state", nil, "file or folder with more objects of the cluster; may be repeated")
	o.Templates.AddFlag(f)
	f.StringSliceVar(&o.ExcludeNamespaces, "exclude-namespaces", nil, "namespaces that no policy is for, as the webhook's flag of that name has them (default: those of the cluster that was named)")
	o.Kube.AddFlags(f)
}

// naming are the flags by which a cluster is named. A kubeconfig that is merely there names none: what a review says in CI must not
// depend on it.
var naming = []string{"kubeconfig", "context", "cluster", "server", "user"}

// Complete reads what the flags name.
func (o *Options) Complete(f *pflag.FlagSet) (err error) {
	o.Live = slices.ContainsFunc(naming, f.Changed)
	o.Namespace = *o.Kube.Namespace
	if o.Live {
		if o.Namespace, _, err = o.Kube.ToRawKubeConfigLoader().Namespace(); err != nil {
			return fmt.Errorf("read the kubeconfig: %w", err)
		}
	}
	return nil
}

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	if len(o.Paths) == 0 && !o.dumps() {
		return errors.New("what is to be reviewed? -f FILE, -f FOLDER, -f - for stdin, or of a cluster that --context names what is in it")
	}
	return o.ValidatePaths()
}

// dumps reports whether the manifests are the cluster's own objects.
func (o *Options) dumps() bool { return o.MayDump && o.Live && len(o.Paths) == 0 }

// ValidatePaths refuses empty paths: a variable that is not set must not be taken for nothing to read.
func (o *Options) ValidatePaths() error {
	_, excluded := o.excluded()
	if slices.Contains(o.Policies, manifest.Stdin) && slices.Contains(slices.Concat(o.Paths, o.State), manifest.Stdin) {
		return errors.New("stdin can be read only once: give --policy - or the others a file")
	}
	return errors.Join(excluded, NoEmptyPath("-f", o.Paths), NoEmptyPath("--policy", o.Policies), NoEmptyPath("--state", o.State), o.validateReading())
}

func (o *Options) validateReading() error {
	if err := input.ValidatePatterns(o.Exclude...); err != nil {
		return fmt.Errorf("--exclude: %w", err)
	}
	for _, by := range o.Render {
		if by != input.RenderHelm && by != input.RenderKustomize {
			return fmt.Errorf("--render %s: it is %s or %s", by, input.RenderHelm, input.RenderKustomize)
		}
	}
	if _, err := exec.LookPath("helm"); err != nil && slices.Contains(o.Render, input.RenderHelm) {
		return fmt.Errorf("--render %s: %w", input.RenderHelm, err)
	}
	return nil
}

// NoEmptyPath refuses an empty path of a flag.
func NoEmptyPath(flag string, paths []string) error {
	if slices.Contains(paths, "") {
		return fmt.Errorf("%s has an empty path; is a variable not set?", flag)
	}
	return nil
}
