package version

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/podgrace/podgrace/internal/kube"
)

// askTimeout is how long an API server may take to say what it is.
const askTimeout = 10 * time.Second

// APIServerTooOld asks the API server of which version it is, and says why that is too old; empty: it is not. Where it does not say, the error is for the log: what needs it
// will find out by itself.
func APIServerTooOld(ctx context.Context, config *rest.Config) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("ask the API server of which version it is: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	text, err := client.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("ask the API server of which version it is: %w", err)
	}
	var is apiversion.Info
	if err := json.Unmarshal(text, &is); err != nil {
		return "", fmt.Errorf("ask the API server of which version it is: %w", err)
	}
	return kube.TooOld("the API server", is.GitVersion), nil
}
