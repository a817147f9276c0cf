package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/podgrace/podgrace/cli/review"
)

// askOptions are what is asked of a manifest.
type askOptions struct {
	operation string
	grace     int64
	user      string
	groups    []string

	asked review.Question
}

// AddFlags declares the flags.
func (o *askOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.operation, "operation", "create", "what is done to the manifests: create, delete or evict")
	f.Int64Var(&o.grace, "grace-period", 0, "gracePeriodSeconds of a delete or an eviction (default: the pod's own); 0 is what kubectl delete --force sends")
	f.StringVar(&o.user, "as", "", "user who does it, such as jane or system:serviceaccount:shop:deployer")
	f.StringArrayVar(&o.groups, "as-group", nil, "group of that user; may be repeated")
}

// Complete makes the question.
func (o *askOptions) Complete(f *pflag.FlagSet) error {
	operation := strings.ToUpper(o.operation)
	if !slices.Contains([]string{review.OperationCreate, review.OperationDelete, review.OperationEvict}, operation) {
		return fmt.Errorf("--operation %s: it is create, delete or evict", o.operation)
	}
	if len(o.groups) > 0 && o.user == "" {
		return fmt.Errorf("--as-group goes with --as")
	}
	o.asked = review.Question{Operation: operation, User: userInfo(o.user, o.groups)}
	if f.Changed("grace-period") {
		if operation == review.OperationCreate {
			return fmt.Errorf("--grace-period goes with --operation delete or evict")
		}
		o.asked.GracePeriodSeconds = &o.grace
	}
	return nil
}

func (o *askOptions) question() review.Question { return o.asked }

// userInfo adds the groups that the API server gives to everybody who impersonates such a user
// (k8s.io/apiserver/pkg/endpoints/filters/impersonation, 0.36.3).
func userInfo(name string, groups []string) authenticationv1.UserInfo {
	if name == "" {
		return authenticationv1.UserInfo{}
	}
	groups = slices.Clone(groups)
	add := func(group string) {
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	if rest, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok && len(groups) == 0 {
		namespace, _, _ := strings.Cut(rest, ":")
		add("system:serviceaccounts")
		add("system:serviceaccounts:" + namespace)
	}
	if name != "system:anonymous" {
		add("system:authenticated")
	}
	return authenticationv1.UserInfo{Username: name, Groups: groups}
}
