package preview

import (
	"bufio"
	"fmt"
	"os"
)

// writeState makes a cluster as one List of JSON, as kubectl get -o json prints it: nodes of three zones, pods spread over them so that half
// of each node is free, and the PriorityClass of the questions. It returns how many bytes they are.
func writeState(name string, nodes, pods int) (int64, error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprint(w, `{"apiVersion":"v1","kind":"List","items":[`+"\n"+priorityClass)
	for i := range nodes {
		fmt.Fprintf(w, ",\n"+node, i, i%3, i%4)
	}
	for i := range pods {
		fmt.Fprintf(w, ",\n"+pod, i%apps, i, i%1000, i%5, i%nodes, i%7*100)
	}
	fmt.Fprint(w, "\n]}\n")
	if err := w.Flush(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), f.Close()
}

// apps are how many workloads the pods are of.
const apps = 15_000

const priorityClass = `{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"urgent"},"value":1000}`

// node takes its number, zone and type.
const node = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-%[1]d","uid":"n%[1]d","labels":{"kubernetes.io/arch":"amd64","kubernetes.io/hostname":"node-%[1]d","kubernetes.io/os":"linux",` +
	`"node.kubernetes.io/instance-type":"m%[3]d","topology.kubernetes.io/zone":"zone-%[2]d"}},"status":{"allocatable":{"cpu":"16","ephemeral-storage":"100Gi","memory":"64Gi","pods":"110"},` +
	`"capacity":{"cpu":"16","ephemeral-storage":"100Gi","memory":"64Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True"}],"images":[{"names":["registry.example/app-%[3]d:1"],"sizeBytes":50000000},` +
	`{"names":["registry.example/base:1"],"sizeBytes":90000000}]}}`

// pod takes app, number, namespace, tier, node and priority.
const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"app-%[1]d-%[2]d","namespace":"team-%[3]d","uid":"p%[2]d","labels":{"app":"app-%[1]d","pod-template-hash":"abc","tier":"t%[4]d"},` +
	`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"app-%[1]d","uid":"r%[1]d","controller":true,"blockOwnerDeletion":true}]},` +
	`"spec":{"nodeName":"node-%[5]d","priority":%[6]d,"schedulerName":"default-scheduler","serviceAccountName":"default","terminationGracePeriodSeconds":30,"restartPolicy":"Always","dnsPolicy":"ClusterFirst",` +
	`"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],` +
	`"containers":[{"name":"c","image":"registry.example/app-%[1]d:1","imagePullPolicy":"IfNotPresent","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",` +
	`"resources":{"requests":{"cpu":"250m","memory":"512Mi"}}}]},"status":{"phase":"Running","startTime":"2026-01-01T00:00:00Z","qosClass":"Burstable","podIP":"10.0.0.1"}}`

// question is a pod that is asked about.
type question struct {
	name, manifest, outcome string
}

// exitCode of the program that gives this answer.
func (q question) exitCode() int {
	if q.outcome == preempts {
		return 3
	}
	return 0
}

// Outcomes, as preview/scheduler has them.
const (
	fits     = "Fits"
	preempts = "Preempts"
)

// beginning of each pod, of the first app of its namespace.
const beginning = "{apiVersion: v1, kind: Pod, metadata: {name: new, namespace: team-1, labels: {app: app-1}}, spec: {containers: [{name: c, image: app, resources: {requests: {cpu: %s}}}]%s}}\n"

var questions = []question{
	{"plain", fmt.Sprintf(beginning, "100m", ""), fits},
	{"spread: zone hard, hostname soft", fmt.Sprintf(beginning, "100m", `, topologySpreadConstraints: [
  {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: app-1}}},
  {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: app-1}}}]`), fits},
	{"required anti-affinity", fmt.Sprintf(beginning, "100m", `, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
  {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {tier: t1}}, namespaceSelector: {}}]}}`), fits},
	{"no room without preemption", fmt.Sprintf(beginning, "12", ", priorityClassName: urgent"), preempts},
}
