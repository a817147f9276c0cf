package manifest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	kubeyaml "sigs.k8s.io/yaml"
)

const manifest = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-%d
  namespace: shop
  labels: {app.kubernetes.io/name: web, app.kubernetes.io/part-of: shop, tier: front}
  annotations:
    description: "The shop's web server, with a quoted text: yes"
spec:
  replicas: 3
  selector:
    matchLabels:
      app.kubernetes.io/name: web
  strategy:
    rollingUpdate:
      maxSurge: 25%%
      maxUnavailable: 0
    type: RollingUpdate
  template:
    metadata:
      labels:
        app.kubernetes.io/name: web
        app.kubernetes.io/part-of: shop
    spec:
      # how long it may drain
      terminationGracePeriodSeconds: 60
      serviceAccountName: web
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        fsGroup: 10001
        seccompProfile: {type: RuntimeDefault}
      containers:
      - name: web
        image: registry.example.com/shop/web:1.24.3
        imagePullPolicy: IfNotPresent
        args: ["--listen=:8080", "--log-level=info", "--timeout", "30s"]
        env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: DATABASE
          value: postgres://db.shop.svc:5432/shop
        ports:
        - containerPort: 8080
          name: http
          protocol: TCP
        readinessProbe:
          httpGet:
            path: /ready
            port: http
          periodSeconds: 5
          failureThreshold: 3
        lifecycle:
          preStop:
            exec:
              command:
              - sh
              - -c
              - |
                nginx -s quit
                sleep 10
        resources:
          requests:
            cpu: 250m
            memory: 128Mi
          limits:
            memory: 256Mi
      volumes:
      - name: config
        configMap:
          name: web-config
          defaultMode: 0644
      - name: tmp
        emptyDir: {}
`

// BenchmarkRead reads 10,000 manifests an iteration, in each form that they may have.
func BenchmarkRead(b *testing.B) {
	const manifests = 10_000
	var documents, jsonLines, list, yamlList strings.Builder
	list.WriteString(`{"apiVersion":"v1","kind":"List","items":[`)
	yamlList.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	for i := range manifests {
		text := fmt.Sprintf(manifest, i)
		fmt.Fprintf(&documents, "---\n%s", text)
		fmt.Fprintf(&yamlList, "- %s\n", strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  "))
		raw, err := kubeyaml.YAMLToJSON([]byte(text))
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(&jsonLines, "%s\n", raw)
		if i > 0 {
			list.WriteString(",\n")
		}
		list.Write(bytes.TrimSpace(raw))
	}
	list.WriteString("]}")
	for _, form := range []struct{ name, text string }{
		{"yaml", documents.String()}, {"yamllist", yamlList.String()}, {"jsonlines", jsonLines.String()}, {"jsonlist", list.String()},
	} {
		b.Run(form.name, func(b *testing.B) {
			b.SetBytes(int64(len(form.text)))
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for _, err := range readText(form.text, 0) {
					if n++; err != nil {
						b.Fatal(err)
					}
				}
				if n != manifests {
					b.Fatalf("%d manifests", n)
				}
			}
		})
	}
}
