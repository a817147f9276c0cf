package apiserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/cli/apiserver"
)

// That these are all the defaults, and the right ones, is compared with Kubernetes' own in e2e/oracle/fidelity.
func TestDefault(t *testing.T) {
	for name, tc := range map[string]struct {
		into     runtime.Object
		in, want string
	}{
		"pod": {&corev1.Pod{}, `
spec:
  containers:
  - name: a
    image: nginx
    ports: [{containerPort: 80}]
    readinessProbe: {httpGet: {port: 80}}
    resources: {limits: {cpu: 100u}}
  volumes:
  - {name: v}
  - {name: c, configMap: {name: c}}
`, `
metadata: {}
spec:
  containers:
  - name: a
    image: nginx
    imagePullPolicy: Always
    ports: [{containerPort: 80, protocol: TCP}]
    readinessProbe: {httpGet: {port: 80, path: /, scheme: HTTP}, failureThreshold: 3, periodSeconds: 10, successThreshold: 1, timeoutSeconds: 1}
    resources: {limits: {cpu: 1m}, requests: {cpu: 1m}}
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {}
  terminationGracePeriodSeconds: 30
  volumes:
  - {name: v, emptyDir: {}}
  - {name: c, configMap: {name: c, defaultMode: 420}}
status: {}
`},
		"what is set is kept": {&corev1.Pod{}, `
spec:
  containers: [{name: a, image: nginx, imagePullPolicy: Never, terminationMessagePath: /x, terminationMessagePolicy: FallbackToLogsOnError, resources: {}}]
  dnsPolicy: Default
  enableServiceLinks: false
  restartPolicy: Never
  schedulerName: mine
  securityContext: {runAsNonRoot: true}
  terminationGracePeriodSeconds: 0
metadata: {}
status: {}
`, ``},
		"a template gets less": {&appsv1.ReplicaSet{}, `
spec:
  template:
    spec:
      containers: [{name: a, image: "nginx:1", resources: {limits: {cpu: 1}}}]
`, `
metadata: {}
spec:
  replicas: 1
  selector: null
  template:
    metadata: {}
    spec:
      containers:
      - name: a
        image: nginx:1
        imagePullPolicy: IfNotPresent
        resources: {limits: {cpu: "1"}}
        terminationMessagePath: /dev/termination-log
        terminationMessagePolicy: File
      dnsPolicy: ClusterFirst
      restartPolicy: Always
      schedulerName: default-scheduler
      securityContext: {}
      terminationGracePeriodSeconds: 30
status: {replicas: 0}
`},
		"a namespace has its name": {&corev1.Namespace{}, `metadata: {name: shop}`, `
metadata: {name: shop, labels: {kubernetes.io/metadata.name: shop}}
spec: {}
status: {phase: Active}
`},
		"other kinds are left alone": {&corev1.Service{}, `{metadata: {}, spec: {}, status: {loadBalancer: {}}}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			if err := yaml.UnmarshalStrict([]byte(tc.in), tc.into); err != nil {
				t.Fatal(err)
			}
			want := tc.want
			if want == "" {
				want = tc.in
			}
			apiserver.Default(tc.into)
			if diff := cmp.Diff(plain(t, []byte(want)), plain(t, encode(tc.into))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func plain(t *testing.T, text []byte) (value any) {
	t.Helper()
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestDefaultPullPolicy(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a1", 32)
	for image, want := range map[string]corev1.PullPolicy{
		"nginx": corev1.PullAlways, "nginx:latest": corev1.PullAlways, "nginx:1.27": corev1.PullIfNotPresent, "localhost:5000/nginx": corev1.PullAlways,
		"localhost:5000/nginx:latest": corev1.PullAlways, "nginx" + digest: corev1.PullIfNotPresent, "nginx:latest" + digest: corev1.PullAlways,
		"Nginx": corev1.PullIfNotPresent, "": corev1.PullIfNotPresent, strings.Repeat("a1", 32): corev1.PullIfNotPresent, "nginx@md5:" + strings.Repeat("0", 32): corev1.PullIfNotPresent,
		"example.com/" + strings.Repeat("x", 255): corev1.PullAlways, "example.com/" + strings.Repeat("x", 256): corev1.PullIfNotPresent,
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
		apiserver.Default(p)
		if got := p.Spec.Containers[0].ImagePullPolicy; got != want {
			t.Errorf("%q: got %s, want %s", image, got, want)
		}
	}
}

// FuzzDefault: whatever JSON decodes to a pod or a workload is defaulted without a panic, and a second time changes nothing.
func FuzzDefault(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"spec":{"containers":[{}]}}`,
		`{"spec":{"hostNetwork":true,"containers":[{"ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"1n","hugepages-2Mi":"2Mi"}}}],"resources":{"limits":{"cpu":"1"}},"volumes":[{}]}}`,
		`{"spec":{"template":{"spec":{"containers":[{"image":"a@b"}]}},"backoffLimitPerIndex":1,"podFailurePolicy":{"rules":[{"onPodConditions":[{}]}]},"volumeClaimTemplates":[{}]}}`,
		`{"spec":{"resources":{"requests":{"cpu":null},"limits":{"memory":"1e1000"}},"overhead":{"cpu":"-1"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, o := range []runtime.Object{&corev1.Pod{}, &appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &batchv1.Job{}, &batchv1.CronJob{}} {
			if json.Unmarshal(text, o) != nil {
				continue
			}
			apiserver.Default(o)
			once := string(encode(o))
			apiserver.Default(o)
			if diff := cmp.Diff(once, string(encode(o))); diff != "" {
				t.Errorf("%T: a second time changes it:\n%s", o, diff)
			}
			if pod, ok := o.(*corev1.Pod); ok {
				apiserver.MergeMatchLabelKeys(pod)
			}
		}
	})
}
