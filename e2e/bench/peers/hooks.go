package peers

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/reviews"
)

// hook is a webhook that the API server calls for a side's pods.
type hook struct {
	name, url string
	mutating  bool
	client    *http.Client
	// asked are the reviews that the API server asked of it.
	asked [][]byte
}

// findHooks reads in the API server's configurations what it calls for the pods of each side. The side without admission has none: that its namespace is
// left out everywhere is what the others are compared with.
func (l *laboratory) findHooks(ctx context.Context) error {
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := errors.Join(l.kube.List(ctx, &mutating), l.kube.List(ctx, &validating)); err != nil {
		return fmt.Errorf("list webhook configurations: %w", err)
	}
	for _, s := range l.sides {
		for _, c := range mutating.Items {
			for _, w := range c.Webhooks {
				if err := s.addHook(w.Name, true, w.ClientConfig, w.Rules, w.NamespaceSelector); err != nil {
					return err
				}
			}
		}
		for _, c := range validating.Items {
			for _, w := range c.Webhooks {
				if err := s.addHook(w.Name, false, w.ClientConfig, w.Rules, w.NamespaceSelector); err != nil {
					return err
				}
			}
		}
		// In the order in which the API server asks.
		slices.SortStableFunc(s.hooks, func(a, b *hook) int { return cmp.Compare(order(a), order(b)) })
		if (len(s.hooks) > 0) != (len(s.pids) > 0) {
			return fmt.Errorf("side %s has %d processes, and %d webhooks are called for its pods", s.name, len(s.pids), len(s.hooks))
		}
	}
	return nil
}

// order is 0 for what is called first.
func order(h *hook) int {
	if h.mutating {
		return 0
	}
	return 1
}

// addHook adds a webhook if it is called for the side's pods.
func (s *side) addHook(name string, mutating bool, config admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations, selector *metav1.LabelSelector) error {
	called, err := selects(rules, selector, s.namespace)
	if err != nil || !called {
		return err
	}
	if config.URL == nil {
		return fmt.Errorf("side %s: webhook %s is called at a Service, and none is served here", s.name, name)
	}
	s.hooks = append(s.hooks, &hook{name: name, url: *config.URL, mutating: mutating, client: reviews.NewClient(config.CABundle)})
	return nil
}

// selects reports whether a webhook is called for pods that are created in a namespace with no labels of its own.
func selects(rules []admissionregistrationv1.RuleWithOperations, selector *metav1.LabelSelector, namespace string) (bool, error) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, fmt.Errorf("read a namespaceSelector: %w", err)
	}
	if !parsed.Matches(labelsOf(namespace)) {
		return false, nil
	}
	return slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		return has(r.Operations, admissionregistrationv1.Create) && has(r.APIGroups, "") && has(r.APIVersions, "v1") && has(r.Resources, "pods")
	}), nil
}

// has reports whether a list of a rule names something, or all.
func has[T ~string](list []T, what T) bool {
	return slices.Contains(list, what) || slices.Contains(list, "*")
}

// recordings is how many pods of each side are recorded.
const recordings = 10

// recorder keeps what the API server asks.
type recorder struct {
	mu    sync.Mutex
	asked map[string][][]byte // by path and namespace
}

const pathMutate, pathValidate = "/mutate", "/validate"

// ServeHTTP is for http.Handler. It allows everything.
func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	var review admissionv1.AdmissionReview
	if err = errors.Join(err, json.Unmarshal(body, &review)); err != nil || review.Request == nil {
		http.Error(w, "no AdmissionReview", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	key := request.URL.Path + " " + review.Request.Namespace
	r.asked[key] = append(r.asked[key], body)
	r.mu.Unlock()
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // who asked has gone
}

// record keeps what the API server asks for some pods of each side: a webhook of ours before all others sees what mutating webhooks are asked, and one
// what validating webhooks are. Both are called for the time of the recording only.
func (l *laboratory) record(ctx context.Context) error {
	r := &recorder{asked: map[string][][]byte{}}
	dir := filepath.Join(l.Dir, "recorder")
	trusted, err := reviews.WriteCertificate(dir)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return fmt.Errorf("read the recorder's certificate: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen as recorder: %w", err)
	}
	server := &http.Server{Handler: r, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, ReadHeaderTimeout: time.Second}
	go func() { _ = server.ServeTLS(listener, "", "") }() // until it is closed
	defer func() { _ = server.Close() }()                 // nobody asks any more
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return fmt.Errorf("listen as recorder: %w", err)
	}
	unregister, err := l.registerRecorder(ctx, "https://localhost:"+port, trusted)
	if err != nil {
		return errors.Join(err, unregister())
	}
	for _, s := range l.sides {
		if err := l.recordSide(ctx, r, s); err != nil {
			return errors.Join(err, unregister())
		}
	}
	if err := unregister(); err != nil {
		return fmt.Errorf("unregister the recorder: %w", err)
	}
	// Before it is closed: an API server that still calls it would refuse the pods.
	return cluster.Until(ctx, "the API server to forget the recorder", func(ctx context.Context) (bool, error) {
		before := r.count()
		err := l.create(ctx, l.sides[0])
		return r.count() == before, err
	})
}

// count is how much was asked.
func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, a := range r.asked {
		n += len(a)
	}
	return n
}

// recordSide creates pods until enough were asked about, of which the first may have been created before the API server knew the recorder.
func (l *laboratory) recordSide(ctx context.Context, r *recorder, s *side) error {
	asked := func(path string) [][]byte {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Clone(r.asked[path+" "+s.namespace])
	}
	err := cluster.Until(ctx, "the reviews of "+s.name, func(ctx context.Context) (bool, error) {
		return len(asked(pathMutate)) >= recordings && len(asked(pathValidate)) >= recordings, l.create(ctx, s)
	})
	if err != nil {
		return err
	}
	for _, h := range s.hooks {
		h.asked = asked(pathValidate)[:recordings]
		if h.mutating {
			h.asked = asked(pathMutate)[:recordings]
		}
	}
	return nil
}

// registerRecorder has the API server call the recorder, before all other mutating webhooks: they are called by the names of their configurations.
func (l *laboratory) registerRecorder(ctx context.Context, url string, trusted []byte) (unregister func() error, err error) {
	const name = "aaa-recorder"
	none := admissionregistrationv1.SideEffectClassNone
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: others("")}}}
	at := func(path string) admissionregistrationv1.WebhookClientConfig {
		path = url + path
		return admissionregistrationv1.WebhookClientConfig{URL: &path, CABundle: trusted}
	}
	m := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.MutatingWebhook{{
		Name: "mutate.recorder.podgrace.dev", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, ClientConfig: at(pathMutate), NamespaceSelector: selector, Rules: podsCreated(),
	}}}
	v := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: "validate.recorder.podgrace.dev", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, ClientConfig: at(pathValidate), NamespaceSelector: selector, Rules: podsCreated(),
	}}}
	unregister = func() error {
		return errors.Join(l.kube.Delete(context.WithoutCancel(ctx), m), l.kube.Delete(context.WithoutCancel(ctx), v))
	}
	if err := errors.Join(l.kube.Create(ctx, m), l.kube.Create(ctx, v)); err != nil {
		return unregister, fmt.Errorf("register the recorder: %w", err)
	}
	return unregister, nil
}
