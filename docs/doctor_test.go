package docs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/cli/doctor"
)

// The page of the doctor is made of the checks: each is there, with what it reads.
func TestDoctorIsFresh(t *testing.T) {
	var b strings.Builder
	b.WriteString(doctorHead)
	for _, c := range doctor.Describe() {
		needs := make([]string, len(c.Needs))
		for i, source := range c.Needs {
			needs[i] = string(source)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.ID, c.Looks, strings.Join(needs, ", "))
	}
	b.WriteString(doctorFoot)
	fresh(t, "doctor.md", b.String())
}

const doctorHead = `# The doctor

` + "`podgrace doctor`" + ` says what on a cluster keeps Podgrace from working, why, and what to do: a value of the chart, a command, or a name to allow. It is for before an installation, and for
after. It only reads: it sends nothing but GET, asks no webhook, and tries nothing out. This page is made from its checks (` + "`go test ./docs -update`" + ` writes it).

` + "```" + `
podgrace doctor                                # the cluster of the current context
podgrace doctor --fail-on warning -o json      # for a pipeline
podgrace doctor --kubelet-config               # also what the kubelets are configured to do
podgrace doctor --state dump/                  # files that kubectl get -o yaml has written, and no cluster
` + "```" + `

| severity | means |
|---|---|
| error | something does not work, or will not |
| warning | it works, but not as meant, or not when it matters |
| note | worth knowing, or to be set when installing |

The most severe come first, in the same order each time. **What can't be read is not fine**: the check is listed under "Not looked", with the right that is missing. Exit code 0: nothing as severe as
` + "`--fail-on`" + ` says (error, warning, note or never), and everything could be looked at; 1: something is, or could not, or the cluster can't be reached; 2: bad input. ` + "`-o json`" + ` is a
` + "`DoctorReport`: `cluster`, `summary`, `findings` (`check`, `severity`, `about`, `message`, `remedy`, `values`, `stringValues`, `actors`, `commands`), `notLooked` (`check`, `source`, `why`), `fine` and `notAsked`" + `. A check's
id stays the same; texts are for people and may change.

Whom to allow is decided by [who removes nodes by themselves](actors.md), which values distributions want by the files in deploy/platforms. Which Kubernetes it is (EKS, GKE, AKS, OpenShift, k3s, ...) is guessed, by a sign that the output names. What follows from it for providers is what they document; nobody has tried it there.

## Rights

An administrator has them. For somebody else there is a role, which has these rights and no other (a test holds it against what is read). It is no part of an installation:

` + "```" + `
kubectl apply -f deploy/doctor/rbac.yaml
kubectl create clusterrolebinding podgrace-doctor --clusterrole=podgrace-doctor --group=on-call
kubectl -n kube-system create rolebinding podgrace-doctor --clusterrole=podgrace-doctor-kube-system --group=on-call
kubectl -n podgrace-system create rolebinding podgrace-doctor --clusterrole=podgrace-doctor-namespace --group=on-call   # once it is installed
` + "```" + `

The role of the whole cluster lists pods of all namespaces, since each may ask something of its node (` + "`records`" + `). Only their metadata is read, but RBAC can't give less than the pods. Without that rule the check is not made.

No Secret is read, so that the serving certificate is not looked at (the alert [PodgraceCertificateExpires](operations.md#podgracecertificateexpires) does), only the CAs in the webhook configurations. ` + "`--kubelet-config`" + ` takes
` + "`get` on `nodes/proxy`" + ` besides, by which one can also run commands in every pod: so it is not in the role, and nobody is asked without the flag. Whether the webhook is reached is seen by what the API
server has counted of its calls, and by the guard, which is armed only once it was: nothing is created to find out, not even as a dry run.

## What it looks at

| check | looks whether | reads |
|---|---|---|
`

const doctorFoot = `
Of files (` + "`--state`" + `) a kind counts as read if there is an object or a typed list of it, of Podgrace's own namespace where it is looked at there alone; give it what there is of all namespaces, and PodPolicies and NodePolicies with
` + "`--show-managed-fields`" + `, by which fields are found that an older definition has dropped. ` + "`/version`, `/apis` and `/metrics`" + ` are in no file, and what needs them can't be looked at.
`
