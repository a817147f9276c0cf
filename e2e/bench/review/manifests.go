package review

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
)

// perFile is how many manifests stand in one file.
const perFile = 100

// write makes so many Deployments and StatefulSets of many namespaces, a policy for them, and what it refers to. It returns how
// many bytes they are.
func write(dir string, size int) (int64, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o644); err != nil {
		return 0, err
	}
	var total int64
	for first := 0; first < size; first += perFile {
		n, err := writeFile(filepath.Join(dir, fmt.Sprintf("%06d.yaml", first)), first, min(first+perFile, size))
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func writeFile(name string, first, end int) (int64, error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for i := first; i < end; i++ {
		kind, service := "Deployment", ""
		if i%5 == 0 {
			kind, service = "StatefulSet", "\n  serviceName: app"
		}
		fmt.Fprintf(w, workload, kind, i, i%50, i%7, service, i, i, i, 5+i%90, i, i%20)
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), f.Close()
}

const policy = `apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: all}
spec:
  priority: {className: normal}
  gracePeriod: {minSeconds: 20, maxSeconds: 60, preStopMarginSeconds: 5}
  topologySpread:
    constraints:
    - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
  removal: {forceDelete: Deny, protect: Stateful}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: normal}
value: 1000
`

// workload takes kind, name, namespace, tier, serviceName, three labels, grace period, variable, preStop.
const workload = `---
apiVersion: apps/v1
kind: %s
metadata:
  name: app-%d
  namespace: team-%d
  labels: {app.kubernetes.io/part-of: shop, tier: "%d"}
spec:
  replicas: 3%s
  selector:
    matchLabels: {app: app-%d}
  template:
    metadata:
      labels: {app: app-%d, version: v%d}
    spec:
      terminationGracePeriodSeconds: %d
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: app
        image: registry.example/app:1.2.3
        env:
        - {name: INSTANCE, value: "%d"}
        - name: NODE
          valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
        ports:
        - {name: http, containerPort: 8080}
        readinessProbe:
          httpGet: {path: /healthz, port: http}
          periodSeconds: 5
        lifecycle:
          preStop: {sleep: {seconds: %d}}
        resources:
          requests: {cpu: 100m, memory: 128Mi}
          limits: {memory: 256Mi}
        volumeMounts:
        - {name: config, mountPath: /etc/app}
      - name: proxy
        image: registry.example/proxy:4
        resources:
          requests: {cpu: 50m, memory: 32Mi}
      volumes:
      - name: config
        configMap: {name: app}
`
