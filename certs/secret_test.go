package certs

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// What a leader writes another reads, and what is not the leader's stays: the request, other annotations, other data.
func TestSecretRoundTrip(t *testing.T) {
	var pairs []Pair
	for i := range 6 {
		pairs = append(pairs, newTestPair(t, epoch.Add(time.Duration(i)*day)))
	}
	rapid.Check(t, func(t *rapid.T) {
		s := State{Current: pairs[0], Settled: rapid.SampledFrom([]string{"", pairs[0].ID, "x"}).Draw(t, "settled"), Handled: rapid.SampledFrom([]string{"", "token"}).Draw(t, "handled")}
		if rapid.Bool().Draw(t, "next") {
			s.Next = &pairs[1]
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "previous") {
			s.Previous = append(s.Previous, pairs[2+i].Authority)
		}
		if rapid.Bool().Draw(t, "since") {
			s.Since = epoch.Add(time.Duration(rapid.Int64Range(0, int64(day)).Draw(t, "at")))
		}
		before := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"other": "", AnnotationReplace: "please", AnnotationSince: "old"}},
			Data:       map[string][]byte{"other": []byte("data"), keyNext: []byte("old"), keyNextKey: []byte("old"), keyPrevious: []byte("old")},
		}
		written := writeState(before, s)
		s.Request = "please"
		got, err := readState(written)
		if diff := cmp.Diff(s, got); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		if _, kept := written.Annotations["other"]; !kept || string(written.Data["other"]) != "data" || string(before.Data[keyNext]) != "old" {
			t.Errorf("got %v, %v", written.Annotations, written.Data)
		}
		if string(written.Data[keyCA]) != string(written.Data[corev1.TLSCertKey]) {
			t.Error("cert-manager's library makes another CA where ca.crt is not tls.crt")
		}
	})
}

func TestReadState(t *testing.T) {
	one, two := newTestPair(t, epoch), newTestPair(t, epoch.Add(day))
	for name, tc := range map[string]struct {
		change func(*corev1.Secret)
		want   State
		fails  bool
	}{
		"as the library makes it": {func(*corev1.Secret) {}, State{Current: one}, false},
		"no data":                 {func(s *corev1.Secret) { s.Data = nil }, State{}, true},
		"another's key":           {func(s *corev1.Secret) { s.Data[corev1.TLSPrivateKeyKey] = []byte(two.Key) }, State{}, true},
		"no certificate":          {func(s *corev1.Secret) { s.Data[corev1.TLSCertKey] = []byte("x") }, State{}, true},
		"a leaf": {func(s *corev1.Secret) {
			l := leafOf(t, one)
			s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey] = l[0], l[1]
		}, State{}, true},
		"half of a next one":    {func(s *corev1.Secret) { s.Data[keyNext] = []byte(two.PEM) }, State{Current: one, NextBroken: true}, false},
		"a next one's key only": {func(s *corev1.Secret) { s.Data[keyNextKey] = []byte(two.Key) }, State{Current: one, NextBroken: true}, false},
		"the same one next": {func(s *corev1.Secret) { s.Data[keyNext], s.Data[keyNextKey] = []byte(one.PEM), []byte(one.Key) },
			State{Current: one, NextBroken: true}, false},
		"itself and garbage among the old": {func(s *corev1.Secret) { s.Data[keyPrevious] = []byte(one.PEM + "garbage\n" + two.PEM + two.PEM) },
			State{Current: one, Previous: []Authority{two.Authority}}, false},
		"only itself among the old": {func(s *corev1.Secret) { s.Data[keyPrevious] = []byte(one.PEM) }, State{Current: one}, false},
		"a time that is none": {func(s *corev1.Secret) { s.Annotations = map[string]string{AnnotationSince: "yesterday"} },
			State{Current: one}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := secretOf(one)
			tc.change(s)
			got, err := readState(s)
			if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.fails {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// Of caBundle, into which anybody may write, only CAs of ours are taken, each once and in one order.
func FuzzParseAuthorities(f *testing.F) {
	one, err := newPair(epoch, day)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(one.PEM + one.PEM))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n" + one.PEM + one.Key))
	f.Fuzz(func(t *testing.T, text []byte) {
		all := parseAuthorities(text)
		if diff := cmp.Diff(all, parseAuthorities(bundle(all))); diff != "" {
			t.Errorf("read again (-want +got):\n%s", diff)
		}
	})
}
