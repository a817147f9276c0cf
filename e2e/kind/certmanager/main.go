// Command certmanager runs those parts of cert-manager that Podgrace's certificates need: the controllers of Certificates,
// the self-signed and the CA issuer, and the injector of caBundle. It is cert-manager's own code, started here because
// its images are in a registry and its programs in no module.
//
//	certmanager --kubeconfig FILE
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	requestsca "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	requestsselfsigned "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/util"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/podgrace/podgrace/e2e/program"
)

// controllers that turn a Certificate of a self-signed or CA issuer into a Secret.
var controllers = []string{
	issuers.ControllerName, approver.ControllerName, requestsca.CRControllerName, requestsselfsigned.CRControllerName,
	issuing.ControllerName, keymanager.ControllerName, readiness.ControllerName, requestmanager.ControllerName,
	revisionmanager.ControllerName, trigger.ControllerName,
}

func main() {
	var kubeconfig string
	flags := func(f *flag.FlagSet) { f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster") }
	program.Main("certmanager", flags, func(ctx context.Context) error {
		ctrl.SetLogger(klog.Background())
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return issue(ctx, group, kubeconfig) })
		group.Go(func() error { return inject(ctx, kubeconfig) })
		if err := group.Wait(); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
}

// issue starts the controllers, as cmd/controller/app of cert-manager does, without an election.
func issue(ctx context.Context, group *errgroup.Group, kubeconfig string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:    kubeconfig,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Second,
			CertificateRequestMaximumBackoffDuration: time.Minute,
		},
	})
	if err != nil {
		return fmt.Errorf("set up the controllers: %w", err)
	}
	for _, name := range controllers {
		c, err := controller.Known()[name](factory)
		if err != nil {
			return fmt.Errorf("set up controller %s: %w", name, err)
		}
		group.Go(func() error { return c.Run(2, ctx) })
	}
	shared, err := factory.Build()
	if err != nil {
		return fmt.Errorf("set up the informers: %w", err)
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return nil
}

// inject starts the injector, as cmd/cainjector/app does.
func inject(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("set up the injector: %w", err)
	}
	config = util.RestConfigWithUserAgent(config, "cainjector") // which names the owner of what it applies
	scheme := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(scheme), cmapi.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("set up the injector: %w", err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("set up the injector: %w", err)
	}
	err = cainjector.RegisterAllInjectors(ctx, mgr, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true,
		},
	})
	if err != nil {
		return fmt.Errorf("set up the injector: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the injector: %w", err)
	}
	return nil
}
