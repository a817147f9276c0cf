// Package incluster is how the programs that run in a cluster reach its API server, and where they listen.
package incluster

import (
	"fmt"
	"net"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podgrace/podgrace/internal/program/version"
)

// Config of a program's client of the API server: by a kubeconfig file, or where none is named by $KUBECONFIG or the pod's service account. It bounds no requests: the API server's
// priority and fairness limits us, so that none waits behind others in this process.
func Config(kubeconfig string, program version.Info) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("configure the API server's client: %w", err)
	}
	config.UserAgent, config.QPS = program.UserAgent(), -1
	return config, nil
}

// Address of a listener of controller-runtime, to which "0" means none. port 0: none.
func Address(host string, port int) string {
	if port == 0 {
		return "0"
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// ValidateHost says what is wrong with the address of a flag: listeners take IP addresses only.
func ValidateHost(flag, host string) error {
	if net.ParseIP(host) == nil {
		return fmt.Errorf("--%s: %q is not an IP address", flag, host)
	}
	return nil
}

// ValidatePort says what is wrong with the port of a flag. least is 0 where that means none, else 1.
func ValidatePort(flag string, port, least int) error {
	if port < least || port > 65535 {
		return fmt.Errorf("--%s: %d is not in %d..65535", flag, port, least)
	}
	return nil
}
