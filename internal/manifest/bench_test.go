package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
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

// BenchmarkKubectl reads 1,000 manifests an iteration: with this package, with kubectl's libraries alone, and with them and the nodes that
// have the lines of all fields.
func BenchmarkKubectl(b *testing.B) {
	const manifests = 1000
	var all strings.Builder
	for i := range manifests {
		fmt.Fprintf(&all, "---\n"+manifest, i)
	}
	libraries := func(each func([]byte) error) func() (int, error) {
		return func() (n int, err error) {
			reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(all.String())))
			for {
				text, err := reader.Read()
				if errors.Is(err, io.EOF) {
					return n, nil
				}
				if err == nil {
					_, err = kubeyaml.YAMLToJSONStrict(text)
				}
				if err == nil {
					err = each(text)
				}
				if err != nil {
					return n, err
				}
				n++
			}
		}
	}
	for name, read := range map[string]func() (int, error){
		"manifest": func() (n int, err error) {
			for _, wrong := range readText(all.String(), 0) {
				if n++; wrong != nil {
					return n, wrong
				}
			}
			return n, nil
		},
		"libraries": libraries(func([]byte) error { return nil }),
		"nodes":     libraries(func(text []byte) error { return yaml.Unmarshal(text, &yaml.Node{}) }),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n, err := read(); err != nil || n != manifests {
					b.Fatal(n, err)
				}
			}
		})
	}
}
