// Command csidriver is the CSI driver of Kubernetes' own storage tests (test/e2e/storage/drivers/csi-test/mock), which attaches nothing, as a program on a node: it registers with the
// kubelet as node-driver-registrar has a driver do. Its volumes have the handles 1, 2 and 3, and are folders, or all of them one export of an NFS server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name := flag.String("name", "nfs.csi.k8s.io", "of the driver")
	kubelet := flag.String("kubelet-dir", "/var/lib/kubelet", "the kubelet's --root-dir")
	server := flag.String("nfs", "", "IP address of an NFSv4 server whose root all volumes are; none: each is an empty folder")
	flag.Parse()
	config := service.Config{DriverName: *name, DisableAttach: true}
	if *server != "" {
		config.IO = nfs{server: *server}
	}
	if err := run(ctx, config, *kubelet); err != nil {
		klog.ErrorS(err, "the CSI driver ended")
		os.Exit(1)
	}
}

func run(ctx context.Context, config service.Config, kubelet string) error {
	name := config.DriverName
	endpoint := filepath.Join(kubelet, "plugins", name, "csi.sock")
	driver := grpc.NewServer(grpc.UnaryInterceptor(tell))
	s := service.New(config)
	csi.RegisterIdentityServer(driver, s)
	csi.RegisterNodeServer(driver, s)
	registrar := grpc.NewServer()
	registration.RegisterRegistrationServer(registrar, &plugin{name: name, endpoint: endpoint})

	volumes, err := listen(endpoint)
	if err != nil {
		return err
	}
	plugins, err := listen(filepath.Join(kubelet, "plugins_registry", name+"-reg.sock"))
	if err != nil {
		return err
	}
	serving, ctx := errgroup.WithContext(ctx)
	serving.Go(func() error { return driver.Serve(volumes) })
	serving.Go(func() error { return registrar.Serve(plugins) })
	context.AfterFunc(ctx, func() { driver.Stop(); registrar.Stop() })
	return serving.Wait()
}

// listen takes the place of what a driver before left.
func listen(socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return nil, fmt.Errorf("listen for the kubelet: %w", err)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listen for the kubelet: %w", err)
	}
	return net.Listen("unix", socket)
}

// tell logs what is done to volumes.
func tell(ctx context.Context, req any, call *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, req)
	if v, ok := req.(interface{ GetVolumeId() string }); ok {
		klog.InfoS("called", "method", filepath.Base(call.FullMethod), "volume", v.GetVolumeId(), "err", err)
	}
	return answer, err
}

// plugin is what the kubelet's plugin manager asks.
type plugin struct {
	registration.UnimplementedRegistrationServer

	name, endpoint string
}

// GetInfo implements the registration's API.
func (p *plugin) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: p.name, Endpoint: p.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus implements the registration's API.
func (p *plugin) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	klog.InfoS("registered", "driver", p.name, "ok", status.PluginRegistered, "problem", status.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

// nfs has the driver mount where it would make a folder for a pod.
type nfs struct {
	service.OSDirIO

	server string
}

// Mkdir implements service.DirIO.
func (n nfs) Mkdir(path string) error {
	if err := n.OSDirIO.Mkdir(path); err != nil {
		return err
	}
	if err := syscall.Mount(n.server+":/", path, "nfs4", 0, "vers=4.2,addr="+n.server+",clientaddr="+n.server); err != nil {
		return errors.Join(fmt.Errorf("mount on %s: %w", path, err), os.Remove(path))
	}
	return nil
}

// RemoveAll implements service.DirIO. What is in the volume stays.
func (n nfs) RemoveAll(path string) error {
	if err := syscall.Unmount(path, 0); err != nil && !errors.Is(err, syscall.EINVAL) { // which says that nothing is mounted there
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return os.Remove(path)
}
