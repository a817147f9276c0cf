package review_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/cli/report"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
)

// A claim for one node at a time of a driver that attaches nothing is told of, by its class or its volume; neither one for several nodes, nor of a driver that attaches, nor what is not known.
func TestUngated(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop"},"spec":{"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"d","persistentVolumeClaim":{"claimName":"data"}}]}}`
	driver := func(attach string) string {
		return `{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"nfs.csi.k8s.io"},"spec":{"attachRequired":` + attach + `}}`
	}
	claim := func(mode, rest string) string {
		return `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data","namespace":"shop"},"spec":{"accessModes":["` + mode + `"],` + rest + `}}`
	}
	const (
		class   = `{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"nfs"},"provisioner":"nfs.csi.k8s.io"}`
		volume  = `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv"},"spec":{"csi":{"driver":"nfs.csi.k8s.io","volumeHandle":"h"}}}`
		set     = `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db","namespace":"shop"},"spec":{"selector":{"matchLabels":{"a":"b"}},"serviceName":"db","template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}},"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"nfs"}}]}}`
		byClass = `"storageClassName":"nfs"`
		byName  = `"volumeName":"pv"`
	)
	for name, tc := range map[string]struct {
		state []string
		claim string // that is told of
	}{
		"by its class":       {[]string{driver("false"), class, claim("ReadWriteOnce", byClass)}, "shop/data"},
		"by its volume":      {[]string{driver("false"), volume, claim("ReadWriteOncePod", byName)}, "shop/data"},
		"of a set":           {[]string{driver("false"), class, set}, "shop/data-db-0"},
		"for several nodes":  {[]string{driver("false"), class, claim("ReadWriteMany", byClass)}, ""},
		"it attaches":        {[]string{driver("true"), class, claim("ReadWriteOnce", byClass)}, ""},
		"an unknown driver":  {[]string{class, claim("ReadWriteOnce", byClass)}, ""},
		"an unknown class":   {[]string{driver("false"), claim("ReadWriteOnce", byClass)}, ""},
		"of other namespace": {[]string{driver("false"), class, strings.Replace(claim("ReadWriteOnce", byClass), `"shop"`, `"bank"`, 1)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			state := review.NewState()
			for _, text := range tc.state {
				if err := state.Add(document(t, text), ""); err != nil {
					t.Fatal(err)
				}
			}
			engine, err := review.NewEngine(state)
			if err != nil {
				t.Fatal(err)
			}
			result, wrong := engine.Review(t.Context(), document(t, pod), review.Question{Operation: review.OperationCreate})
			if wrong != nil {
				t.Fatal(wrong)
			}
			remarks := engine.RemarkUngated([]review.Result{*result})
			if tc.claim == "" {
				if len(remarks) > 0 {
					t.Errorf("%+v", remarks)
				}
				return
			}
			lines := report.Remarks(&review.Report{Remarks: remarks})
			if len(lines) != 1 || !strings.HasPrefix(lines[0], "PersistentVolumeClaim "+tc.claim+": CSI driver nfs.csi.k8s.io attaches nothing") {
				t.Errorf("%q", lines)
			}
			if slices.ContainsFunc(result.Unknown, func(u string) bool { return strings.Contains(u, "Class") || strings.Contains(u, "PersistentVolume ") }) {
				t.Errorf("not known is %q", result.Unknown)
			}
			if tc.claim != "shop/data" {
				return
			}
			in, err := engine.Situation(t.Context(), document(t, pod), review.Question{Operation: review.OperationCreate})
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if err := explain.Text(&out, explain.Explain(*in), console.Style{}); err != nil || !strings.Contains(out.String(), "Claim data: CSI driver nfs.csi.k8s.io attaches nothing") {
				t.Errorf("%v\n%s", err, out.String())
			}
		})
	}
}
