package intake

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	admissionmetrics "sigs.k8s.io/controller-runtime/pkg/webhook/admission/metrics"
	"sigs.k8s.io/json"
)

const aUID = "705ab4f5-6393-11e8-b7cc-42010a800002"

// reviewOf is a review as an API server writes it, with the pod that is given.
func reviewOf(pod string) string {
	return `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"` + aUID + `","kind":{"group":"","version":"v1","kind":"Pod"},"operation":"CREATE","object":` + pod + `}}`
}

func repeated(before, part string, n int, after string) string {
	return before + strings.TrimSuffix(strings.Repeat(part+",", n), ",") + after
}

// bounded is an intake's handler in front of the function.
func bounded(handle admission.HandlerFunc) *reader {
	return New(func(string, string, types.UID) {}).Handler("/test", handle).(*reader)
}

// serve runs an intake whose handler is the function, and returns what posts reviews to it.
func serve(t *testing.T, handle admission.HandlerFunc) (server *httptest.Server, post func(timeout time.Duration, body io.Reader) (int, *admissionv1.AdmissionResponse)) {
	t.Helper()
	server = httptest.NewServer(bounded(handle))
	t.Cleanup(server.Close)
	return server, func(timeout time.Duration, body io.Reader) (int, *admissionv1.AdmissionResponse) {
		got, err := server.Client().Post(server.URL+"?timeout="+timeout.String(), "application/json", body)
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		var review admissionv1.AdmissionReview
		if err == nil {
			err = json.UnmarshalCaseSensitivePreserveInts(text, &review)
		}
		if err != nil || review.Response == nil || review.Kind != "AdmissionReview" || review.APIVersion != "admission.k8s.io/v1" {
			t.Errorf("no review: %s, %v", text, err)
			return got.StatusCode, &admissionv1.AdmissionResponse{}
		}
		return got.StatusCode, review.Response
	}
}

func allowed(context.Context, admission.Request) admission.Response { return admission.Allowed("") }

// decoding decodes the pod, as every handler does.
func decoding(_ context.Context, req admission.Request) admission.Response {
	var pod corev1.Pod
	if err := json.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode the pod: %w", err))
	}
	return admission.Allowed("")
}

// TestIntakeRefusesWithTheUID: an API server takes an answer without it for a failed call, and lets the pod pass.
func TestIntakeRefusesWithTheUID(t *testing.T) {
	angles := strings.Repeat(`\u003c`, 100_000)
	for name, tt := range map[string]struct {
		body   string
		chunks bool // sent without its length
		reason string
	}{
		"ordinary":                  {body: reviewOf(`{"metadata":{"name":"p"}}`)},
		"ordinary, length not told": {body: reviewOf(`{"metadata":{"name":"p"}}`), chunks: true},
		"1.3 MB of angles":          {body: reviewOf(repeated(`{"spec":{"containers":[{"env":[`, `{"name":"a","value":"`+angles+`"}`, 13, `]}]}}`))},
		"longer than any review":    {body: reviewOf(`{"metadata":{"annotations":{"a":"` + strings.Repeat("x", maxBody) + `"}}}`), reason: reasonTooLarge},
		"the same, length not told": {body: reviewOf(`{"metadata":{"annotations":{"a":"` + strings.Repeat("x", maxBody) + `"}}}`), chunks: true, reason: reasonTooLarge},
		"2.3 million tolerations":   {body: reviewOf(repeated(`{"spec":{"tolerations":[`, `{}`, 2_300_000, `]}}`)), reason: reasonTooDear},
		"containers in 250 kB":      {body: reviewOf(repeated(`{"spec":{"containers":[`, `{}`, 80_000, `]}}`))},
		"containers in 500 kB":      {body: reviewOf(repeated(`{"spec":{"containers":[`, `{}`, 160_000, `]}}`)), reason: reasonTooDear},
		"annotations":               {body: reviewOf(repeated(`{"metadata":{"annotations":{`, `"a":""`, 1_000_000, `}}}`)), reason: reasonTooDear},
		"nested without end":        {body: reviewOf(`{"spec":` + strings.Repeat(`{"a":`, 1_000_000) + `1` + strings.Repeat(`}`, 1_000_000) + `}`), reason: reasonTooDear},
		"nested arrays":             {body: reviewOf(`{"spec":` + strings.Repeat(`[`, 9_000_000) + strings.Repeat(`]`, 9_000_000) + `}`), reason: reasonTooDear},
	} {
		t.Run(name, func(t *testing.T) {
			_, post := serve(t, decoding)
			var before, after runtime.MemStats
			body := io.Reader(strings.NewReader(tt.body))
			if tt.chunks {
				body = io.MultiReader(body)
			}
			runtime.ReadMemStats(&before)
			code, got := post(20*time.Second, body)
			runtime.ReadMemStats(&after)
			if code != http.StatusOK || got.UID != aUID || got.Allowed != (tt.reason == "") {
				t.Fatalf("got code %d, %+v", code, got)
			}
			if tt.reason != "" && (string(got.Result.Reason) != tt.reason || got.Result.Code != http.StatusForbidden || !strings.Contains(got.Result.Message, "make") || got.AuditAnnotations["denied"] != tt.reason) {
				t.Errorf("refused by %+v", got)
			}
			// What is read, the client's and the server's copy of it, and what becomes of it.
			if took := after.TotalAlloc - before.TotalAlloc; took > 4*maxBody+3*maxWeight {
				t.Errorf("it took %d MiB", took>>20)
			}
		})
	}
}

// TestIntakeHoldsUpNoSmallReview: the large ones wait for each other, and are refused before the caller's patience ends.
func TestIntakeHoldsUpNoSmallReview(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	_, post := serve(t, func(ctx context.Context, req admission.Request) admission.Response {
		if len(req.Object.Raw) > 100_000 {
			close(begun)
			<-end
		}
		return admission.Allowed("")
	})
	heavy := func() io.Reader {
		return strings.NewReader(reviewOf(repeated(`{"spec":{"containers":[`, `{}`, 80_000, `]}}`)))
	}
	first := make(chan *admissionv1.AdmissionResponse)
	go func() {
		_, got := post(maxPatience, heavy())
		first <- got
	}()
	<-begun
	_, second := post(answering+50*time.Millisecond, heavy())
	if second.Allowed || second.UID != aUID || second.Result.Reason != reasonBusy || second.Result.Code != http.StatusTooManyRequests || second.Result.Details.RetryAfterSeconds != 1 {
		t.Errorf("the second large one: %+v, %+v", second, second.Result)
	}
	for range 100 {
		if _, got := post(defaultPatience, strings.NewReader(reviewOf(`{}`))); !got.Allowed {
			t.Fatalf("a small one: %+v", got)
		}
	}
	close(end)
	if got := <-first; !got.Allowed {
		t.Errorf("the first large one: %+v", got)
	}
}

// answered is what an intake says of a review to a caller that has sent all of it. In a bubble no time passes until its handler waits.
func answered(t *testing.T, in *reader, timeout time.Duration, body string) *admissionv1.AdmissionResponse {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/?timeout="+timeout.String(), strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	in.ServeHTTP(recorder, request)
	var review admissionv1.AdmissionReview
	if err := json.UnmarshalCaseSensitivePreserveInts(recorder.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("no review: %s, %v", recorder.Body, err)
	}
	return review.Response
}

// TestIntakeAnswersInTime: what of a large object could not be judged in time is refused; a small one is not to blame.
func TestIntakeAnswersInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := bounded(func(ctx context.Context, _ admission.Request) admission.Response {
			<-ctx.Done()
			return admission.Allowed("")
		})
		if got := answered(t, in, answering+20*time.Millisecond, reviewOf(`{"a":"`+strings.Repeat("x", smallBody)+`"}`)); got.Allowed || got.UID != aUID || got.Result.Reason != reasonTooDear {
			t.Errorf("a large one: %+v", got)
		}
		if got := answered(t, in, answering+20*time.Millisecond, reviewOf(`{}`)); !got.Allowed {
			t.Errorf("a small one: %+v", got)
		}
	})
}

// TestIntakeWaitsForNoLargeReview: it is refused in half the caller's patience, and in time for the answer, also where what judges it heeds nothing.
func TestIntakeWaitsForNoLargeReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		in := bounded(func(context.Context, admission.Request) admission.Response {
			<-end
			return admission.Allowed("")
		})
		large := reviewOf(`{"a":"` + strings.Repeat("x", smallBody) + `"}`)
		for patience, within := range map[time.Duration]time.Duration{answering + 20*time.Millisecond: 20 * time.Millisecond, maxPatience: maxPatience / 2} {
			begun := time.Now()
			if got := answered(t, in, patience, large); got.Allowed || got.UID != aUID || got.Result.Reason != reasonTooDear || time.Since(begun) != within {
				t.Errorf("after %s: %+v", time.Since(begun), got)
			}
		}
		close(end)
		// What it took is given back when it ends.
		if got := answered(t, in, maxPatience, large); !got.Allowed {
			t.Errorf("the next one: %+v", got)
		}
	})
}

// A large review that was settled in time has the answer that it was settled by, and no other one beside it.
func TestIntakeOfWhatIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := bounded(func(ctx context.Context, _ admission.Request) admission.Response {
			if !Settle(ctx) || Settle(ctx) {
				t.Error("it is not settled once")
			}
			<-ctx.Done()
			return admission.Allowed("")
		})
		if got := answered(t, in, answering+200*time.Millisecond, reviewOf(`{"a":"`+strings.Repeat("x", smallBody)+`"}`)); !got.Allowed {
			t.Errorf("got %+v", got)
		}
	})
}

// A review that makes its decoding or the decision panic is answered and counted once, and the process goes on. Of the decision controller-runtime logs it.
func TestIntakeOfWhatPanics(t *testing.T) {
	for size, object := range map[string]string{"small": `{}`, "large": `{"a":"` + strings.Repeat("x", smallBody) + `"}`} {
		for where, in := range map[string]*reader{
			"deciding": bounded(func(context.Context, admission.Request) admission.Response { panic("here") }),
			"decoding": bounded(allowed),
		} {
			t.Run(size+"/"+where, func(t *testing.T) {
				if where == "decoding" {
					in.decode = func([]byte, any) error { panic("here") }
				}
				var log strings.Builder
				ctx := logr.NewContext(t.Context(), funcr.New(func(_, line string) { log.WriteString(line) }, funcr.Options{}))
				request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(reviewOf(object)))
				request.Header.Set("Content-Type", "application/json")
				recorder, before := httptest.NewRecorder(), testutil.ToFloat64(admissionmetrics.WebhookPanics)
				in.ServeHTTP(recorder, request)
				if text := recorder.Body.String(); !strings.Contains(text, "panic: here [recovered]") || !strings.Contains(text, `"uid":"`+aUID) {
					t.Errorf("got %s", text)
				}
				if n := testutil.ToFloat64(admissionmetrics.WebhookPanics) - before; n != 1 {
					t.Errorf("it counts as %v", n)
				}
				if text := log.String(); where == "decoding" && (strings.Count(text, "Observed a panic") != 1 || !strings.Contains(text, "intake_test.go")) {
					t.Errorf("the log has %q", text)
				}
			})
		}
	}
}

// TestIntakeOfWhatCanNotBeDecoded: an API server reads objects as deep as we do, but not a review around them.
func TestIntakeOfWhatCanNotBeDecoded(t *testing.T) {
	_, post := serve(t, allowed)
	for name, object := range map[string]string{"too deep": strings.Repeat(`[`, 10_000) + strings.Repeat(`]`, 10_000), "cut off": `{"a":`} {
		if _, got := post(defaultPatience, strings.NewReader(reviewOf(object))); got.Allowed || got.UID != aUID || got.Result.Code != http.StatusBadRequest {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A handler of pods is asked the same as another one, whatever comes: only that it gets the pod decoded where it is one.
func TestPodsAreDecodedWithTheirReview(t *testing.T) {
	with := func(object string) string {
		return `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"object":` + object + `,"uid":"` + aUID + `","kind":{"group":"","version":"v1","kind":"Pod"},
			"resource":{"group":"","version":"v1","resource":"pods"},"requestKind":{"group":"","version":"v1","kind":"Pod"},"name":"p","namespace":"shop","operation":"CREATE",
			"userInfo":{"username":"u","groups":["g"],"extra":{"a":["b"]}},"oldObject":{"a":1},"dryRun":true,"options":{"kind":"CreateOptions"},"later":[1]}}`
	}
	for name, tt := range map[string]struct {
		body string
		pod  bool
	}{
		"a pod":                            {with(`{"metadata":{"name":"p","labels":{"a":"\u003cb"}},"spec":{"terminationGracePeriodSeconds":9007199254740993,"containers":[{"name":"c"}]}}`), true},
		"fields that are not known":        {with(`{"Metadata":{"name":"other"},"later":{"x":[1]},"spec":{"PriorityClassName":"c","later":1}}`), true},
		"an empty one":                     {with(`{}`), true},
		"null":                             {with(`null`), false},
		"none":                             {`{"request":{"uid":"` + aUID + `"}}`, false},
		"one whose containers are no list": {with(`{"spec":{"containers":{}}}`), false},
		"a list":                           {with(`[]`), false},
		"a word":                           {with(`"a"`), false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked [2]admission.Request
			for i, handler := range []func(string, admission.Handler) http.Handler{New(nil).Handler, New(nil).PodHandler} {
				request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(tt.body))
				request.Header.Set("Content-Type", "application/json")
				handler("/test", admission.HandlerFunc(func(_ context.Context, req admission.Request) admission.Response {
					asked[i] = req
					return admission.Allowed("")
				})).ServeHTTP(httptest.NewRecorder(), request)
			}
			if tt.pod {
				var want corev1.Pod
				if err := json.UnmarshalCaseSensitivePreserveInts(asked[0].Object.Raw, &want); err != nil {
					t.Fatal(err)
				}
				if got, ok := asked[1].Object.Object.(*corev1.Pod); !ok || !reflect.DeepEqual(got, &want) || len(asked[1].Object.Raw) > 0 {
					t.Errorf("got %+v, want %+v", asked[1].Object, want)
				}
				asked[0].Object, asked[1].Object = kuberuntime.RawExtension{}, kuberuntime.RawExtension{}
			}
			if asked[0].UID != aUID || !reflect.DeepEqual(asked[1], asked[0]) {
				t.Errorf("got %+v, want %+v", asked[1], asked[0])
			}
		})
	}
}

// TestIntakeOfASlowCaller: who sends half a review keeps nobody from being read, and for no longer than it says that it waits.
func TestIntakeOfASlowCaller(t *testing.T) {
	server, post := serve(t, allowed)
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprintf(connection, "POST /?timeout=2s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", maxBody, reviewOf(`{"a":"`+strings.Repeat("x", uidWithin)))
	text, err := io.ReadAll(connection)
	if err != nil || !bytes.Contains(text, []byte(late)) || !bytes.Contains(text, []byte(`"uid":"`+aUID)) {
		t.Errorf("got %s, %v", text, err)
	}
	if _, got := post(maxPatience, strings.NewReader(reviewOf(`{"a":"`+strings.Repeat("x", maxBody/2)+`"}`))); !got.Allowed {
		t.Errorf("a large one after it: %+v", got)
	}
}

// TestIntakeReadAtTheLastMoment: what took all the time to be read is not said to wait for others.
func TestIntakeReadAtTheLastMoment(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	last := strings.NewReader(reviewOf(`{}`))
	body := io.MultiReader(last, readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF }))
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", body)
	request.Header.Set("Content-Type", "application/json")
	bounded(allowed).ServeHTTP(recorder, request)
	if text := recorder.Body.String(); !strings.Contains(text, late) || !strings.Contains(text, `"uid":"`+aUID) {
		t.Errorf("got %s", text)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestIntakeOfWhatIsNoReview is answered, with what is wrong.
func TestIntakeOfWhatIsNoReview(t *testing.T) {
	server, post := serve(t, allowed)
	for body, want := range map[string]string{"": "decode the review", "{}": "is this an AdmissionReview?", "[]": "decode the review", "null": "is this an AdmissionReview?", `{"request":{"uid":1}}`: "decode the review", `{"request":"a"}`: "decode the review"} {
		if _, got := post(defaultPatience, strings.NewReader(body)); got.Allowed || got.Result.Code != http.StatusBadRequest || !strings.Contains(got.Result.Message, want) {
			t.Errorf("%q: %+v", body, got)
		}
	}
	got, err := server.Client().Post(server.URL, "text/plain", strings.NewReader(reviewOf(`{}`)))
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if text, err := io.ReadAll(got.Body); err != nil || !strings.Contains(string(text), `Content-Type is \"text/plain\"`) {
		t.Errorf("got %s, %v", text, err)
	}
}

// TestWeightOfParts: nothing that a review is decoded into takes more memory than weigh says.
func TestWeightOfParts(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	element := func(part reflect.Type) {
		bound := elementWeight
		if part.Kind() == reflect.Struct && part != reflect.TypeFor[admissionv1.AdmissionReview]() {
			bound = objectWeight
		}
		if size := int(part.Size()); size > bound {
			t.Errorf("%s takes %d bytes, more than %d", part, size, bound)
		}
		walk(part)
	}
	walk = func(of reflect.Type) {
		if seen[of] {
			return
		}
		seen[of] = true
		switch of.Kind() {
		case reflect.Slice, reflect.Pointer, reflect.Map:
			element(of.Elem())
		case reflect.Struct:
			for field := range of.Fields() {
				walk(field.Type)
			}
		}
	}
	walk(reflect.TypeFor[corev1.Pod]())
	walk(reflect.TypeFor[corev1.Node]())
	walk(reflect.TypeFor[admissionv1.AdmissionReview]())
	if len(seen) < 200 {
		t.Errorf("only %d types", len(seen))
	}
}

// FuzzIntake: whatever is sent is answered with a review.
func FuzzIntake(f *testing.F) {
	f.Add([]byte(reviewOf(`{"metadata":{"name":"p"}}`)))
	f.Add([]byte(`{"request":{"uid":"` + strings.Repeat("x", 100) + `"}}`))
	f.Add([]byte("{\"request\":{\"uid\":\"\\u0000\"},\"\xff\":0}"))
	in := bounded(decoding)
	f.Fuzz(func(t *testing.T, body []byte) {
		request := httptest.NewRequest(http.MethodPost, "/test", bytes.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		in.ServeHTTP(recorder, request)
		var review admissionv1.AdmissionReview
		if err := json.UnmarshalCaseSensitivePreserveInts(recorder.Body.Bytes(), &review); err != nil || review.Response == nil || !review.Response.Allowed && review.Response.Result.Message == "" {
			t.Errorf("answered by %s, %v", recorder.Body, err)
		}
		for name, gate := range map[string]interface {
			TryAcquire(n int64) bool
			Release(n int64)
		}{"small": in.smallWork, "large": in.largeWork} {
			all := int64(smallWork)
			if name == "large" {
				all = maxWeight
			}
			if !gate.TryAcquire(all) {
				t.Fatalf("%s: something was not released", name)
			}
			gate.Release(all)
		}
	})
}
