package apiserver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/policy"
)

func policies(t testing.TB) *apiserver.Policies {
	t.Helper()
	exempt, err := policy.ExemptIn("podgrace-system").Excluding("calico-system", "openshift-*")
	if err != nil {
		t.Fatal(err)
	}
	p, err := apiserver.NewPolicies(denying(), exempt)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// denying is a policy for all namespaces that denies unsafe removals.
func denying(actors ...string) policy.Policies {
	return policy.InForce([]v1alpha1.PodPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{AllowedActors: actors}}}})
}

// refusing refuses grace 0 in the namespaces that the selector selects; nil: in all.
func refusing(name string, selector *v1alpha1.LabelSelector) *v1alpha1.PodPolicy {
	p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ZeroGrace: v1alpha1.ZeroGraceDeny}}}
	if selector != nil {
		p.Spec.Match = &v1alpha1.PodMatch{NamespaceSelector: selector}
	}
	return p
}

func labelled(key, value string) *v1alpha1.LabelSelector {
	return v1alpha1.SetAsLabelSelector(map[string]string{key: value})
}

func statefulSet(grace string) string {
	return `{"metadata":{"name":"db","namespace":"shop"},"spec":{"template":{"spec":{"containers":[{"name":"a"}]` + grace + `}}}}`
}

func TestPolicies(t *testing.T) {
	const (
		annotation = v1alpha1.AnnotationEnforcement
		record     = v1alpha1.AnnotationProtected
		// Of the two records that the policy keeps only the one that was changed is named.
		notTheRecord = "enforcement.podgrace.dev Forbidden: annotation podgrace.dev/protected records whose pod this was when it was created"
		zero         = `,"terminationGracePeriodSeconds":0`
	)
	hasty := func(changes ...change) apiserver.Request {
		return request(t, create, "statefulsets", append([]change{object(statefulSet(zero))}, changes...)...)
	}
	confirming := func(changes ...change) apiserver.Request {
		return request(t, update, "nodes", append([]change{oldObject(off), object(confirmedOff)}, changes...)...)
	}
	half := pod(halfDone)
	const removes = "half-done-status.podgrace.dev Forbidden: pod shop/db-0 is being removed with grace period 0, and this update would remove it while it "
	const again = "half-done-delete.podgrace.dev Forbidden: pod shop/db-0 is being removed with grace period 0, and is gone once its kubelet reports its end: "
	going := func(r *apiserver.Request) {
		r.Namespace = r.Namespace.DeepCopy()
		r.Namespace.DeletionTimestamp = &metav1.Time{}
	}
	const confirmation = "podgrace.dev/confirm-force-delete"
	ten := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	noted10 := noted(confirmation, ten)
	confirmed, halfConfirmed := pod(annotated(confirmation, "u1/2026-01-01T10:00:00Z")), pod(halfDone, annotated(confirmation, "u1/2026-01-01T10:00:00Z"), noted10)
	confirms := func(text string, answer apiserver.Answer) apiserver.Request {
		return request(t, update, "pods", oldObject(pod()), object(pod(annotated(confirmation, text), noted10)), asking(&answers{Answer: answer}))
	}
	confirmsAt := func(at string, by ...func(*corev1.Pod)) apiserver.Request {
		return request(t, update, "pods", oldObject(pod()), object(pod(append(by, annotated(confirmation, "u1/"+at))...)), asking(&answers{Answer: apiserver.Yes}))
	}
	const notNow = "confirm-force-delete.podgrace.dev Forbidden: a confirmation must say when it is made, at most 5 minutes off: it says "
	offAs := func(text string) apiserver.Request {
		return request(t, update, "nodes", oldObject(off), object(strings.Replace(confirmedOff, "n/b/2026-01-01T10:00:00Z/", text, 1)), asking(&answers{Answer: apiserver.Yes}))
	}
	const notThis, notThisNode = "confirm-force-delete.podgrace.dev Forbidden: a confirmation must be of this very pod", "confirm-off.podgrace.dev Forbidden: node n1 is ready, or this is no confirmation of it as it is now"
	unstructuredPolicy := &unstructured.Unstructured{}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(refusing("p", nil))
	if err != nil {
		t.Fatal(err)
	}
	unstructuredPolicy.Object = content
	unstructuredPolicy.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodPolicy"))
	for name, tc := range map[string]struct {
		request apiserver.Request
		want    []string
		unknown string
	}{
		"annotation kept":        {request: request(t, update, "pods", oldObject(pod(annotated(annotation, "{}"))), object(pod(annotated(annotation, "{}"))))},
		"annotation changed":     {request: request(t, update, "pods", oldObject(pod(annotated(annotation, "{}"))), object(pod(annotated(annotation, `{"oom":{}}`)))), want: []string{"enforcement.podgrace.dev Forbidden: annotation podgrace.dev/enforcement records what was decided"}},
		"annotation removed":     {request: request(t, update, "pods", oldObject(pod(annotated(annotation, "{}"))), object(pod()))},
		"annotation put back":    {request: request(t, update, "pods", oldObject(pod()), object(pod(annotated(annotation, "{}")))), want: []string{"enforcement.podgrace.dev Forbidden: "}},
		"annotation emptied":     {request: request(t, update, "pods", oldObject(pod(annotated(annotation, "{}"))), object(pod(annotated(annotation, "")))), want: []string{"enforcement.podgrace.dev Forbidden: "}},
		"annotation by status":   {request: request(t, update, "pods/status", oldObject(pod()), object(pod(annotated(annotation, "{}")))), want: []string{"enforcement.podgrace.dev Forbidden: "}},
		"annotation by kubelet":  {request: request(t, update, "pods", oldObject(pod()), object(pod(annotated(annotation, "{}"))), as(kubelet))},
		"annotation by a group":  {request: request(t, update, "pods", oldObject(pod()), object(pod(annotated(annotation, "{}"))), as(authenticationv1.UserInfo{Username: "ghost", Groups: kubelet.Groups})), want: []string{"enforcement.podgrace.dev Forbidden: "}},
		"annotation, excluded":   {request: request(t, update, "pods", oldObject(pod()), object(pod(annotated(annotation, "{}"))), in("openshift-dns"))},
		"annotation, own system": {request: request(t, update, "pods", oldObject(pod()), object(pod(annotated(annotation, "{}"))), in("kube-system"))},

		"record kept":            {request: request(t, update, "pods", oldObject(pod(annotated(record, "StatefulSet.apps/db"))), object(pod(annotated(record, "StatefulSet.apps/db"), phase("Failed"))))},
		"record removed":         {request: request(t, update, "pods", oldObject(pod(annotated(record, "StatefulSet.apps/db"))), object(pod()), asking(&answers{Answer: apiserver.No})), want: []string{notTheRecord}},
		"record removed, may":    {request: request(t, update, "pods", oldObject(pod(annotated(record, "StatefulSet.apps/db"))), object(pod()), asking(&answers{Answer: apiserver.Yes}))},
		"record emptied, may":    {request: request(t, update, "pods", oldObject(pod(annotated(record, "StatefulSet.apps/db"))), object(pod(annotated(record, ""))), asking(&answers{Answer: apiserver.Yes})), want: []string{notTheRecord}},
		"record put back, may":   {request: request(t, update, "pods", oldObject(pod()), object(pod(annotated(record, "StatefulSet.apps/db"))), asking(&answers{Answer: apiserver.Yes})), want: []string{notTheRecord}},
		"record changed":         {request: request(t, update, "pods/status", oldObject(pod(annotated(record, "StatefulSet.apps/db"))), object(pod(annotated(record, "Job.batch/x")))), want: []string{notTheRecord}},
		"record of an older pod": {request: request(t, update, "pods", oldObject(pod()), object(pod(annotated(record, "StatefulSet.apps/db")))), want: []string{notTheRecord}},
		"record by kubelet":      {request: request(t, update, "pods", oldObject(pod(annotated(record, "StatefulSet.apps/db"))), object(pod()), as(kubelet))},

		"grace 0, no policy":             {request: hasty()},
		"grace 0, a policy":              {request: hasty(params(refusing("p", nil))), want: []string{"zero-grace.podgrace.dev Forbidden: terminationGracePeriodSeconds is 0 in the template of StatefulSet db,"}},
		"grace 0, two policies":          {request: hasty(params(refusing("p", nil), refusing("q", nil))), want: []string{"zero-grace.podgrace.dev Forbidden: ", "zero-grace.podgrace.dev Forbidden: "}},
		"grace 0, an unstructured one":   {request: hasty(params(unstructuredPolicy)), want: []string{"zero-grace.podgrace.dev Forbidden: "}},
		"grace 0, a policy that raises":  {request: hasty(params(&v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}))},
		"grace 0, a policy that warns":   {request: hasty(params(&v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ZeroGrace: v1alpha1.ZeroGraceWarn}}}))},
		"grace 0, for this team":         {request: hasty(params(refusing("p", labelled("team", "till")))), want: []string{"zero-grace.podgrace.dev Forbidden: "}},
		"grace 0, for another team":      {request: hasty(params(refusing("p", labelled("team", "bank"))))},
		"grace 0, for this namespace":    {request: hasty(params(refusing("p", labelled(corev1.LabelMetadataName, "shop")))), want: []string{"zero-grace.podgrace.dev Forbidden: "}},
		"grace 0, team not known":        {request: hasty(in("elsewhere"), params(refusing("p", labelled("team", "till")))), want: []string{"zero-grace.podgrace.dev Forbidden: the labels of namespace elsewhere are not known, and decide whether this is refused (PodPolicy p) (unknown)"}, unknown: "the labels of namespace elsewhere"},
		"grace 0, not known, by name":    {request: hasty(in("elsewhere"), params(refusing("p", labelled(corev1.LabelMetadataName, "elsewhere")))), want: []string{"zero-grace.podgrace.dev Forbidden: "}},
		"grace 0, not known, other name": {request: hasty(in("elsewhere"), params(refusing("p", labelled(corev1.LabelMetadataName, "shop"))))},
		"grace 0, not known, for all":    {request: hasty(in("elsewhere"), params(refusing("p", nil))), want: []string{"zero-grace.podgrace.dev Forbidden: "}},
		"grace 0 was there before":       {request: request(t, update, "statefulsets", oldObject(statefulSet(zero)), object(statefulSet(zero)), params(refusing("p", nil)))},
		"grace 30":                       {request: request(t, create, "statefulsets", object(statefulSet("")), params(refusing("p", nil)))},

		"confirmed off, may":       {request: confirming(asking(&answers{Answer: apiserver.Yes}))},
		"confirmed off, may not":   {request: confirming(asking(&answers{Answer: apiserver.No})), want: []string{"confirm-off.podgrace.dev Forbidden: to confirm that a node is off you need the verb force-delete on nodes.podgrace.dev"}},
		"confirmed off, not known": {request: confirming(), want: []string{"confirm-off.podgrace.dev Forbidden: to confirm that a node is off you need the verb force-delete on nodes.podgrace.dev (unknown)"}, unknown: "whether alice has the verb force-delete on nodes.podgrace.dev n1"},
		"off, of another UID":      {request: offAs("m/b/2026-01-01T10:00:00Z/"), want: []string{notThisNode}},
		"off, of another boot":     {request: offAs("n/c/2026-01-01T10:00:00Z/"), want: []string{notThisNode}},
		"off, of another time":     {request: offAs("n/b/2026-01-01T10:00:01Z/"), want: []string{notThisNode}},
		"off, of any time":         {request: offAs("n/b//"), want: []string{notThisNode}},
		"off, as it was once":      {request: offAs("n/b"), want: []string{notThisNode}},
		"off, never booted":        {request: request(t, update, "nodes", oldObject(plainNode), object(neverBooted), asking(&answers{Answer: apiserver.Yes})), want: []string{notThisNode}},
		"off, but ready":           {request: request(t, update, "nodes", oldObject(strings.Replace(readyAgain, "confirm-off", "x", 1)), object(readyAgain), asking(&answers{Answer: apiserver.Yes})), want: []string{notThisNode}},
		"kept":                     {request: request(t, update, "nodes", oldObject(confirmedOff), object(heardOf))},

		"confirmed, may":          {request: confirms("u1/2026-01-01T10:00:00Z", apiserver.Yes)},
		"confirmed, its node too": {request: confirms("u1/2026-01-01T10:00:00Z/2026-01-01T09:00:00.123456Z", apiserver.Yes)},
		"confirmed, may not":      {request: confirms("u1/2026-01-01T10:00:00Z", apiserver.No), want: []string{"confirm-force-delete.podgrace.dev Forbidden: to confirm that pod shop/db-0 may run twice you need the verb force-delete on pods.podgrace.dev in shop: ask an"}},
		"confirmed, another":      {request: confirms("u0/2026-01-01T10:00:00Z", apiserver.Yes), want: []string{notThis}},
		"confirmed, timeless":     {request: confirms("u1", apiserver.Yes), want: []string{notThis}},
		"confirmed, for ever":     {request: confirms("u1/", apiserver.Yes), want: []string{notThis}},
		"confirmed, and more":     {request: confirms("u1/2026-01-01T10:00:00Z/2026-01-01T09:00:00Z/x", apiserver.Yes), want: []string{notThis}},
		"confirmed, a bit ahead":  {request: confirmsAt("2026-01-01T10:05:00Z", noted10)},
		"confirmed, ahead":        {request: confirmsAt("2026-01-01T10:05:01Z", noted10), want: []string{notNow + "2026-01-01T10:05:01Z, and the API server has 2026-01-01T10:00:00Z. Check your clock"}},
		"confirmed, for ages":     {request: confirmsAt("2099-01-01T00:00:00Z", noted10), want: []string{notNow}},
		"confirmed, a bit behind": {request: confirmsAt("2026-01-01T09:55:00Z", noted10)},
		"confirmed, behind":       {request: confirmsAt("2026-01-01T09:54:59Z", noted10), want: []string{notNow}},
		"confirmed, forged":       {request: confirmsAt("2099-01-01T00:00:00Z", noted("a", time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)), noted10), want: []string{notNow}},
		"confirmed, not noted":    {request: confirmsAt("2026-01-01T10:00:00Z"), want: []string{"confirm-force-delete.podgrace.dev Forbidden: the API server does not note when pod shop/db-0 is written to"}},
		"confirmed, never a time": {request: confirmsAt("2026-13-01T10:00:00Z", noted10), want: []string{"confirm-force-delete.podgrace.dev Invalid: "}},
		"confirmed, by status":    {request: request(t, update, "pods/status", oldObject(pod()), object(pod(annotated(confirmation, "u1/2026-01-01T10:00:00Z"), noted10)), asking(&answers{Answer: apiserver.No})), want: []string{"confirm-force-delete.podgrace.dev Forbidden: to confirm that pod shop/db-0"}},
		"confirmed, unchanged":    {request: request(t, update, "pods", oldObject(confirmed), object(confirmed), asking(&answers{Answer: apiserver.No}))},
		"confirmed, taken back":   {request: request(t, update, "pods", oldObject(confirmed), object(pod()), asking(&answers{Answer: apiserver.No}))},
		"confirmed, own system":   {request: request(t, update, "pods", oldObject(pod()), object(pod(annotated(confirmation, "x"))), in("kube-system"))},

		"confirmation taken back": {request: request(t, update, "nodes", oldObject(confirmedOff), object(plainNode))},

		"kubelet's status of a half-done":            {request: request(t, update, "pods/status", oldObject(half), object(half), as(kubelet)), want: []string{removes}},
		"a group's status of a half-done":            {request: request(t, update, "pods/status", oldObject(half), object(half), as(authenticationv1.UserInfo{Username: "ghost", Groups: kubelet.Groups})), want: []string{removes}},
		"a note on a half-done":                      {request: request(t, update, "pods", oldObject(half), object(pod(halfDone, annotated("a", "b")))), want: []string{removes}},
		"a note on a StatefulSet's":                  {request: request(t, update, "pods", oldObject(pod(halfDone, ownedBy("apps/v1", "StatefulSet", true))), object(pod(halfDone, ownedBy("apps/v1", "StatefulSet", true), annotated("a", "b")))), want: []string{removes}},
		"a note on a ReplicaSet's":                   {request: request(t, update, "pods", oldObject(pod(halfDone, ownedBy("apps/v1", "ReplicaSet", true))), object(pod(halfDone, ownedBy("apps/v1", "ReplicaSet", true), annotated("a", "b"))))}, // the webhook is asked
		"a note on a Job's":                          {request: request(t, update, "pods", oldObject(pod(halfDone, ownedBy("batch/v1", "Job", true))), object(pod(halfDone, ownedBy("batch/v1", "Job", true))))},
		"a note on another group's Job's":            {request: request(t, update, "pods", oldObject(pod(halfDone, ownedBy("batch.volcano.sh/v1alpha1", "Job", true))), object(pod(halfDone, ownedBy("batch.volcano.sh/v1alpha1", "Job", true)))), want: []string{removes}},
		"a note on one that a Job has some share in": {request: request(t, update, "pods", oldObject(pod(halfDone, ownedBy("batch/v1", "Job", false))), object(pod(halfDone, ownedBy("batch/v1", "Job", false)))), want: []string{removes}},
		"a note on one that is not bound":            {request: request(t, update, "pods", oldObject(pod(halfDone, pending)), object(pod(halfDone, pending))), want: []string{removes}},
		"a label of a confirmed half-done":           {request: request(t, update, "pods", oldObject(halfConfirmed), object(halfConfirmed)), want: []string{removes}},
		"a confirmation of it taken back":            {request: request(t, update, "pods", oldObject(halfConfirmed), object(half)), want: []string{removes}},
		"a resize of a half-done":                    {request: request(t, update, "pods/resize", oldObject(half), object(half)), want: []string{removes}},
		"its last finalizer":                         {request: request(t, update, "pods", oldObject(pod(halfDone, finalizer)), object(half))},                               // the webhook is asked
		"a finalizer for a half-done":                {request: request(t, update, "pods", oldObject(half), object(pod(halfDone, finalizer)))},                               // which removes nothing
		"a half-done is confirmed":                   {request: request(t, update, "pods", oldObject(half), object(halfConfirmed), asking(&answers{Answer: apiserver.Yes}))}, // the webhook is asked
		"another one is confirmed":                   {request: request(t, update, "pods", oldObject(half), object(pod(halfDone, annotated(confirmation, "u0/2026-01-01T10:00:00Z"))), asking(&answers{Answer: apiserver.Yes})), want: []string{notThis, removes}},
		"podgc's last status":                        {request: request(t, update, "pods/status", oldObject(half), object(pod(halfDone, phase("Failed"))), as(authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:pod-garbage-collector"}))}, // the webhook is asked
		"the controllers' last status":               {request: request(t, update, "pods/status", oldObject(half), object(pod(halfDone, phase("Failed"))), as(authenticationv1.UserInfo{Username: "system:kube-controller-manager"}))},                          // the same
		"podgc's other status":                       {request: request(t, update, "pods/status", oldObject(half), object(half), as(authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:pod-garbage-collector"})), want: []string{removes}},
		"anybody's last status":                      {request: request(t, update, "pods/status", oldObject(half), object(pod(halfDone, phase("Failed")))), want: []string{removes}},
		"a label of an ended half-done":              {request: request(t, update, "pods", oldObject(pod(halfDone, phase("Failed"))), object(pod(halfDone, phase("Failed"))))},
		"a kubelet's status of it":                   {request: request(t, update, "pods/status", oldObject(pod(halfDone, phase("Failed"))), object(pod(halfDone, phase("Failed"))), as(kubelet))},
		"a label of one being deleted":               {request: request(t, update, "pods", oldObject(pod(halfDone, func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64(30)) })), object(pod(halfDone, func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64(30)) })))},
		"a half-done of the system's own":            {request: request(t, update, "pods", oldObject(half), object(half), in("kube-system"))},
		"kubelet's last status":                      {request: request(t, update, "pods/status", oldObject(half), object(pod(halfDone, phase("Succeeded"))), as(kubelet))},

		"plain delete of a half-done":       {request: request(t, remove, "pods", oldObject(half)), want: []string{again + "a second delete could remove the next pod of its name, so it needs the UID of this one"}},
		"plain delete with a grace period":  {request: request(t, remove, "pods", oldObject(half), options(`{"gracePeriodSeconds":5}`)), want: []string{again}},
		"plain delete of one held":          {request: request(t, remove, "pods", oldObject(pod(halfDone, finalizer)), options(`{"gracePeriodSeconds":5}`))},
		"plain delete of an ended one":      {request: request(t, remove, "pods", oldObject(pod(halfDone, phase("Succeeded"))))},
		"plain delete of a ReplicaSet's":    {request: request(t, remove, "pods", oldObject(pod(halfDone, ownedBy("apps/v1", "ReplicaSet", true))))},
		"plain delete of a Job's":           {request: request(t, remove, "pods", oldObject(pod(halfDone, ownedBy("batch/v1", "Job", true))))},
		"plain delete of a StatefulSet's":   {request: request(t, remove, "pods", oldObject(pod(halfDone, ownedBy("apps/v1", "StatefulSet", true)))), want: []string{again}},
		"the same, of its UID":              {request: request(t, remove, "pods", oldObject(half), options(`{"preconditions":{"uid":"u1"}}`))},
		"the same, of its version":          {request: request(t, remove, "pods", oldObject(half), options(`{"preconditions":{"resourceVersion":"1"}}`)), want: []string{again}},
		"force delete of a half-done":       {request: request(t, remove, "pods", oldObject(half), options(`{"gracePeriodSeconds":0}`))}, // the webhook is asked
		"plain delete of one being deleted": {request: request(t, remove, "pods", oldObject(pod(halfDone, func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64(30)) })))},
		"plain delete, namespace is going":  {request: request(t, remove, "pods", oldObject(half), going)},
		"plain delete, namespace not known": {request: request(t, remove, "pods", oldObject(half), in("elsewhere")), want: []string{"half-done-delete.podgrace.dev Forbidden: the labels of namespace elsewhere are not known, and decide whether this is refused (unknown)"}, unknown: "the labels of namespace elsewhere"},
		"plain delete in the system's own":  {request: request(t, remove, "pods", oldObject(half), in("kube-system"))},
	} {
		t.Run(name, func(t *testing.T) {
			denials, unknown, err := policies(t).Validate(t.Context(), tc.request)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(unknown, "; "); got != tc.unknown {
				t.Errorf("unknown: got %q, want %q", got, tc.unknown)
			}
			if len(denials) != len(tc.want) {
				t.Fatalf("got %+v, want %q", denials, tc.want)
			}
			for i, d := range denials {
				text := d.Policy + " " + string(d.Reason) + ": " + d.Message
				if d.Unknown {
					text += " (unknown)"
				}
				if !strings.HasPrefix(text, tc.want[i]) || d.Unknown != strings.HasSuffix(tc.want[i], "(unknown)") {
					t.Errorf("got %q, want %q", text, tc.want[i])
				}
			}
		})
	}
}

// A force delete that was refused half-way concerns only namespaces that a policy which denies selects.
func TestHalfDoneWhereNothingDenies(t *testing.T) {
	half := pod(halfDone)
	for name, r := range map[string]apiserver.Request{
		"its kubelet's status": request(t, update, "pods/status", oldObject(half), object(half), as(kubelet)),
		"a note":               request(t, update, "pods", oldObject(half), object(pod(halfDone, annotated("a", "b")))),
		"a resize":             request(t, update, "pods/resize", oldObject(half), object(half)),
		"a plain delete":       request(t, remove, "pods", oldObject(half)),
	} {
		warning := v1alpha1.PodPolicy{Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn}}}
		for of, podPolicies := range map[string][]v1alpha1.PodPolicy{"no policy": nil, "a policy that warns": {warning}, "one that denies elsewhere": {warning, *inNamespace("bank")}} {
			p, err := apiserver.NewPolicies(policy.InForce(podPolicies), policy.ExemptIn("podgrace-system"))
			if err != nil {
				t.Fatal(err)
			}
			if denials, _, err := p.Validate(t.Context(), r); err != nil || len(denials) > 0 {
				t.Errorf("%s, %s: %v, %v", name, of, denials, err)
			}
		}
	}
}

func TestPoliciesOfABadObject(t *testing.T) {
	_, _, err := policies(t).Validate(t.Context(), request(t, update, "pods", object(`{"metadata":1}`)))
	if err == nil || !strings.Contains(err.Error(), "decode the object of Pod shop/db-0: ") {
		t.Errorf("got %v", err)
	}
	if denials, _, err := policies(t).Validate(t.Context(), request(t, update, "pods", object(pod()))); err != nil || len(denials) != 2 { // whose pod it was, and whether it is force-deleted
		t.Errorf("an update without an old object fails closed: got %v, %v", denials, err)
	}
}

func TestMergeMatchLabelKeys(t *testing.T) {
	selector := func() *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}} }
	p := pod(func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "a", "pod-template-hash": "1"}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{LabelSelector: selector(), MatchLabelKeys: []string{"pod-template-hash", "absent"}},
			{MatchLabelKeys: []string{"pod-template-hash"}},
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: selector(), MismatchLabelKeys: []string{"pod-template-hash"}},
		}}}
	})
	apiserver.MergeMatchLabelKeys(p)
	with := func(operator metav1.LabelSelectorOperator) *metav1.LabelSelector {
		s := selector()
		s.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pod-template-hash", Operator: operator, Values: []string{"1"}}}
		return s
	}
	got := []*metav1.LabelSelector{p.Spec.TopologySpreadConstraints[0].LabelSelector, p.Spec.TopologySpreadConstraints[1].LabelSelector, p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector}
	if diff := cmp.Diff([]*metav1.LabelSelector{with(metav1.LabelSelectorOpIn), nil, with(metav1.LabelSelectorOpNotIn)}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
