package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/cluster"
	podgraceinstall "github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/reviews"
	"github.com/podgrace/podgrace/webhook"
)

// The sides, in the order of the table.
const (
	nothing          = "nothing"
	inProcess        = "in-process"
	bare             = "bare"
	podgraceMutating = "podgrace-mutating"
	podgrace         = "podgrace"
	kyvernoSide      = "kyverno"
	gatekeeperSide   = "gatekeeper"
)

// startNothing adds the side that all others are compared with.
func startNothing(ctx context.Context, l *laboratory) error {
	return l.add(ctx, &side{name: nothing, how: "no admission", without: true})
}

// startInProcess adds policies that the API server evaluates.
func startInProcess(ctx context.Context, l *laboratory) error {
	if err := l.add(ctx, &side{name: inProcess, how: "MutatingAdmissionPolicy (JSONPatch), ValidatingAdmissionPolicy"}); err != nil {
		return err
	}
	return l.apply(ctx, "inprocess.yaml")
}

// startBare adds the webhook that somebody would write for the one policy.
func startBare(ctx context.Context, l *laboratory) error {
	constraint := func(key string) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MatchLabelKeys: []string{"pod-template-hash"}}
	}
	defaults, err := json.Marshal(corev1.PodSpec{
		PriorityClassName: "web-high", Priority: ptr.To[int32](100000), TerminationGracePeriodSeconds: ptr.To[int64](45),
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{constraint(corev1.LabelTopologyZone), constraint(corev1.LabelHostname)},
	})
	if err != nil {
		return fmt.Errorf("write the bare webhook's defaults: %w", err)
	}
	child, err := reviews.StartBare(ctx, l.Cluster, "--defaults", string(defaults))
	if err != nil {
		return err
	}
	l.stops = append(l.stops, child.Stop)
	if err := l.add(ctx, &side{name: bare, how: "controller-runtime, one handler that patches", pids: []int{child.PID()}}); err != nil {
		return err
	}
	return l.call(ctx, "peers-bare", bare, child.URL+"/", child.Trusted)
}

// call registers a mutating webhook for the pods of a side.
func (l *laboratory) call(ctx context.Context, name, side, url string, trusted []byte) error {
	none := admissionregistrationv1.SideEffectClassNone
	hook := admissionregistrationv1.MutatingWebhook{
		Name: name + ".podgrace.dev", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none,
		ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: trusted},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: labelsOf(namespaceOf(side))},
		Rules:             podsCreated(),
	}
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.MutatingWebhook{hook}}
	if err := l.kube.Create(ctx, configuration); err != nil {
		return fmt.Errorf("register a webhook for %s: %w", side, err)
	}
	return nil
}

func podsCreated() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}}
}

// startPodgrace installs Podgrace, and adds a second process of it of which only the mutating webhook is called. All namespaces but its own are excluded of
// the first, as an administrator excludes some.
func startPodgrace(ctx context.Context, l *laboratory) error {
	installed, err := podgraceinstall.Install(ctx, l.Cluster, podgraceinstall.Options{Args: excluding(others(podgrace))})
	if err != nil {
		return err
	}
	l.stops = append(l.stops, installed.Stop)
	if err := l.only(ctx, certs.ConfigurationName, certs.ConfigurationName, namespaceOf(podgrace)); err != nil {
		return err
	}
	second, err := podgraceinstall.Start(ctx, l.Cluster, filepath.Join(l.Dir, "bin", "webhook"), podgraceinstall.Options{Args: excluding(others(podgraceMutating))})
	if err != nil {
		return err
	}
	l.stops = append(l.stops, second.Stop)
	if err := l.add(ctx, &side{name: podgraceMutating, how: "its mutating webhook alone", pids: []int{second.PID}}); err != nil {
		return err
	}
	if err := l.add(ctx, &side{name: podgrace, how: "as installed: mutating and validating webhook, compiled limits", pids: []int{installed.PID}}); err != nil {
		return err
	}
	var configuration admissionregistrationv1.MutatingWebhookConfiguration
	if err := l.kube.Get(ctx, client.ObjectKey{Name: certs.ConfigurationName}, &configuration); err != nil {
		return fmt.Errorf("read the webhook configuration: %w", err)
	}
	if err := l.call(ctx, "peers-podgrace-mutating", podgraceMutating, second.URL+webhook.PathMutatePods, configuration.Webhooks[0].ClientConfig.CABundle); err != nil {
		return err
	}
	return l.retried(ctx, "podgrace.yaml")
}

func excluding(namespaces []string) []string {
	var args []string
	for _, n := range namespaces {
		args = append(args, "--exclude-namespaces", n)
	}
	return args
}

// only has the webhooks of two configurations called for one namespace alone, besides what they are called for in no namespace at all.
func (l *laboratory) only(ctx context.Context, mutating, validating, namespace string) error {
	var m admissionregistrationv1.MutatingWebhookConfiguration
	var v admissionregistrationv1.ValidatingWebhookConfiguration
	if err := errors.Join(l.kube.Get(ctx, client.ObjectKey{Name: mutating}, &m), l.kube.Get(ctx, client.ObjectKey{Name: validating}, &v)); err != nil {
		return fmt.Errorf("read the webhook configurations %s and %s: %w", mutating, validating, err)
	}
	mine := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{namespace}}
	for _, w := range m.Webhooks {
		w.NamespaceSelector.MatchExpressions = append(w.NamespaceSelector.MatchExpressions, mine)
	}
	for _, w := range v.Webhooks {
		w.NamespaceSelector.MatchExpressions = append(w.NamespaceSelector.MatchExpressions, mine)
	}
	if err := errors.Join(l.kube.Update(ctx, &m), l.kube.Update(ctx, &v)); err != nil {
		return fmt.Errorf("write the webhook configurations %s and %s: %w", mutating, validating, err)
	}
	return nil
}

// The peers. Takes was measured at the lowest priority beside other work, Gatekeeper's first: Kyverno needs some of the same packages.
var (
	kyverno    = cluster.Peer{Name: "kyverno", Module: "github.com/kyverno/kyverno", Package: "github.com/kyverno/kyverno/cmd/kyverno", Takes: 8 * time.Minute}
	gatekeeper = cluster.Peer{
		Name: "gatekeeper", Module: "github.com/open-policy-agent/gatekeeper/v3", Package: "github.com/open-policy-agent/gatekeeper/v3", Takes: 12 * time.Minute,
	}
)

// startKyverno starts its admission controller with the flags and ConfigMaps of its own installation manifest, which has all that its policies need: it
// makes certificates and webhook configurations itself. It runs outside of the cluster (serverIP), as its administrator; its other controllers, for reports, clean-up and
// what policies do in the background, do not run.
func startKyverno(ctx context.Context, l *laboratory, built cluster.Built) error {
	options := envtest.CRDInstallOptions{MaxTime: 2 * time.Minute, Paths: []string{
		filepath.Join(built.Source, "config/crds/kyverno"), filepath.Join(built.Source, "config/crds/policies.kyverno.io"),
		filepath.Join(built.Source, "config/crds/policyreport"), filepath.Join(built.Source, "config/crds/reports"),
	}}
	if _, err := envtest.InstallCRDs(l.Config, options); err != nil {
		return fmt.Errorf("install Kyverno's CustomResourceDefinitions: %w", err)
	}
	objects, err := podgraceinstall.Objects(filepath.Join(built.Source, "config/install-latest-testing.yaml"))
	if err != nil {
		return err
	}
	for _, kind := range []string{"Namespace", "ConfigMap"} {
		for _, o := range objects {
			if o.GetKind() != kind {
				continue
			}
			if err := podgraceinstall.ApplyObject(ctx, l.kube, o); err != nil {
				return err
			}
		}
	}
	ports, err := cluster.FreePorts(2)
	if err != nil {
		return err
	}
	// env becomes the program: it keeps the process id.
	child, err := cluster.StartProcess("kyverno", l.LogPath("kyverno"), "/usr/bin/env",
		"KYVERNO_NAMESPACE=kyverno", "KYVERNO_SERVICEACCOUNT_NAME=kyverno-admission-controller", "KYVERNO_ROLE_NAME=kyverno:admission-controller",
		"KYVERNO_DEPLOYMENT=kyverno-admission-controller", "KYVERNO_POD_NAME=kyverno-admission-controller-0", "KYVERNO_SVC=kyverno-svc",
		"INIT_CONFIG=kyverno", "METRICS_CONFIG=kyverno-metrics", built.Program,
		"--kubeconfig="+l.Kubeconfig, "--serverIP=127.0.0.1:"+ports[0], "--webhookServerHost=127.0.0.1", "--webhookServerPort="+ports[0],
		"--metricsHost=127.0.0.1", "--metricsPort="+ports[1], "--controllerRuntimeMetricsAddress=0",
		"--caSecretName=kyverno-svc.kyverno.svc.kyverno-tls-ca", "--tlsSecretName=kyverno-svc.kyverno.svc.kyverno-tls-pair", "--tlsKeyAlgorithm=RSA",
		"--backgroundServiceAccountName=system:serviceaccount:kyverno:kyverno-background-controller",
		"--reportsServiceAccountName=system:serviceaccount:kyverno:kyverno-reports-controller",
		"--resyncPeriod=15m", "--otelConfig=prometheus", "--admissionReports=true", "--maxAdmissionReports=1000", "--autoUpdateWebhooks=true",
		"--enableConfigMapCaching=true", "--enableDeferredLoading=true", "--generateValidatingAdmissionPolicy=true", "--generateMutatingAdmissionPolicy=false",
		"--maxAPICallResponseLength=2000000", "--loggingFormat=text", "--v=2", "--omitEvents=PolicyApplied,PolicySkipped", "--enablePolicyException=false",
		"--enableReporting=validate,mutate,mutateExisting,imageVerify,generate")
	if err != nil {
		return err
	}
	l.stops = append(l.stops, child.Stop)
	if err := l.add(ctx, &side{name: kyvernoSide, how: "MutatingPolicy (JSONPatch), ValidatingPolicy", version: built.Version, pids: []int{child.PID()}}); err != nil {
		return err
	}
	return l.retried(ctx, "kyverno.yaml")
}

// startGatekeeper applies Gatekeeper's own manifest, of which the Deployments run nowhere here, and starts the program of the one with the webhooks, which
// also makes the definitions of constraints (generate) here: the other one, which does that and audits, does not run.
func startGatekeeper(ctx context.Context, l *laboratory, built cluster.Built) error {
	certDir := filepath.Join(l.Dir, "gatekeeper")
	trusted, err := reviews.WriteCertificate(certDir)
	if err != nil {
		return err
	}
	ports, err := cluster.FreePorts(3)
	if err != nil {
		return err
	}
	objects, err := podgraceinstall.Objects(filepath.Join(built.Source, "deploy/gatekeeper.yaml"))
	if err != nil {
		return err
	}
	side := &side{name: gatekeeperSide, how: "Assign, K8sNativeValidation", version: built.Version}
	// Before its webhooks: one of them fails closed for namespaces.
	if err := l.add(ctx, side); err != nil {
		return err
	}
	for _, o := range objects {
		podgraceinstall.CallAt(o, "https://localhost:"+ports[0], trusted)
		if err := podgraceinstall.ApplyObject(ctx, l.kube, o); err != nil {
			return err
		}
	}
	if err := l.only(ctx, "gatekeeper-mutating-webhook-configuration", "gatekeeper-validating-webhook-configuration", side.namespace); err != nil {
		return err
	}
	child, err := cluster.StartProcess("gatekeeper", l.LogPath("gatekeeper"), built.Program,
		"--kubeconfig="+l.Kubeconfig, "--host=127.0.0.1", "--port="+ports[0], "--health-addr=127.0.0.1:"+ports[1], "--prometheus-port="+ports[2],
		"--cert-dir="+certDir, "--disable-cert-rotation", "--debug-use-fake-pod", "--shutdown-delay=0",
		"--exempt-namespace=gatekeeper-system", "--operation=webhook", "--operation=mutation-webhook", "--operation=generate", "--disable-opa-builtin={http.send}")
	if err != nil {
		return err
	}
	l.stops = append(l.stops, child.Stop)
	side.pids = []int{child.PID()}
	for _, file := range []string{"gatekeeper.yaml", "gatekeeper-template.yaml", "gatekeeper-constraint.yaml"} {
		if err := l.retried(ctx, file); err != nil {
			return err
		}
	}
	return nil
}
