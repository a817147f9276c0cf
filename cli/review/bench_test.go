package review

import (
	"fmt"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/internal/manifest"
)

// One operation is a Deployment.
func BenchmarkReview(b *testing.B) {
	e := engineOf(b, web, shop, high, service)
	var documents []*manifest.Document
	for i := range 100 {
		documents = append(documents, document(b, strings.Replace(deployment, "name: web,", fmt.Sprintf("name: web-%d,", i), 1)))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if r, wrong := e.Review(b.Context(), documents[i%len(documents)], Question{}); wrong != nil || len(r.Patch) == 0 {
			b.Fatal(wrong)
		}
	}
}
