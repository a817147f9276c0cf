package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/cli/load"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/controllers"
)

const compileLong = `Print the limits of policies as the ValidatingAdmissionPolicy that the webhook's
leader keeps in the cluster: allowed PriorityClasses, bounds of the grace period,
and what is not let pass with a grace period of 0. The API server judges it by
itself, so that it holds while the webhook is away.

A comment says of each policy what is compiled, and why not the rest: a limit
that can't be said exactly is left to the webhook. PolicyExceptions beside the
policies are compiled too, if they have their grant with them, as those have that
kubectl get policyexceptions.podgrace.dev -o yaml prints. Nothing has to be applied:
in a cluster with Podgrace the leader does that, and kubectl get podpolicies
shows the same in the column Compiled.

Exit codes: 0 printed
            2 bad input`

const compileExample = `  # What would the API server judge by itself of these policies?
  %[1]s compile --policy examples/production-web`

func newCompile(t terminal.Terminal, name string) *cobra.Command {
	var paths []string
	var namespace, globalDefault string
	var excluded []string
	cmd := &cobra.Command{
		Use:                   "compile --policy PATH...",
		DisableFlagsInUseLine: true,
		Short:                 "Print limits as the API server judges them by itself",
		Long:                  compileLong,
		Example:               fmt.Sprintf(compileExample, name),
		Args:                  terminal.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if len(paths) == 0 {
				return terminal.UsageError{Err: errors.New("which policies? --policy FILE or --policy FOLDER")}
			}
			if err := load.NoEmptyPath("--policy", paths); err != nil {
				return terminal.UsageError{Err: err}
			}
			exempt, err := policy.ExemptIn(namespace).Excluding(excluded...)
			if err != nil {
				return terminal.UsageError{Err: fmt.Errorf("--exclude-namespaces: %w", err)}
			}
			return runCompile(t, paths, exempt, globalDefault)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&paths, "policy", nil, "file, folder or - (stdin) with PodPolicies, and exceptions from them; may be repeated")
	f.StringVarP(&namespace, "namespace", "n", "podgrace-system", "namespace that Podgrace runs in")
	f.StringSliceVar(&excluded, "exclude-namespaces", nil, "namespaces that no policy is for, as the webhook's flag of that name has them")
	f.StringVar(&globalDefault, "global-default", "", "name of the cluster's globalDefault PriorityClass, which a refusal explains")
	return cmd
}

// each compiles all of them.
func each[T, C any](all []T, compile func(T) (C, error)) ([]C, error) {
	compiled := make([]C, len(all))
	for i, one := range all {
		var err error
		if compiled[i], err = compile(one); err != nil {
			return nil, terminal.UsageError{Err: err}
		}
	}
	return compiled, nil
}

func runCompile(t terminal.Terminal, paths []string, exempt policy.Exempt, globalDefault string) error {
	files, err := load.ReadPolicyFiles("--policy", paths, t.In)
	if err != nil {
		return err
	}
	policies, wrong, err := files.Require()
	if err != nil {
		return err
	}
	asked, wrongToo := files.Exceptions()
	wrong = append(wrong, wrongToo...)
	for _, w := range wrong {
		fmt.Fprintln(t.Err, w)
	}
	if len(wrong) > 0 {
		return terminal.ErrBadInput
	}
	ready, err := each(policies, policy.Compile)
	if err != nil {
		return err
	}
	exceptions, err := each(asked, policy.CompileException)
	if err != nil {
		return err
	}
	policy.SortExceptions(exceptions)
	now := clock.RealClock{}.Now()
	compiled := controllers.CompileLimits(policy.Sort(ready), policy.Exceptions(exceptions).InForce(now), exempt, globalDefault)
	slices.SortFunc(ready, func(a, b *policy.Policy) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range ready {
		v := compiled.Verdicts[p.Name]
		if v.Extent() == "" {
			fmt.Fprintf(t.Out, "# PodPolicy %s has no limits on pods\n", p.Name)
			continue
		}
		fmt.Fprintf(t.Out, "# PodPolicy %s: %s: %s\n", p.Name, v.Extent(), v.Message())
	}
	for _, x := range exceptions {
		_, message := x.State(ready, now)
		fmt.Fprintf(t.Out, "# PolicyException %s: %s\n", x.Key(), message)
	}
	if compiled.Policy == nil {
		return nil
	}
	for _, o := range []runtime.Object{compiled.Policy, compiled.Binding} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return fmt.Errorf("print %s: %w", o.GetObjectKind().GroupVersionKind().Kind, err)
		}
		unstructured.RemoveNestedField(content, "status")
		text, err := yaml.Marshal(content)
		if err != nil {
			return fmt.Errorf("print %s: %w", o.GetObjectKind().GroupVersionKind().Kind, err)
		}
		fmt.Fprintf(t.Out, "---\n%s", text)
	}
	return nil
}
