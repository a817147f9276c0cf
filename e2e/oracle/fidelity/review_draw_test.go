package fidelity

import (
	"reflect"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// drawDecoded makes an object as decoding may find it before defaulting: every field that the type has may be there, set or
// zero. Most of it is not valid, which defaulting does not ask for.
func drawDecoded(s draw.Source) runtime.Object {
	if s.Rarely() {
		return drawState(s)
	}
	object := draw.Pick[func() runtime.Object](s,
		func() runtime.Object { return &corev1.Pod{} }, func() runtime.Object { return &corev1.Pod{} },
		func() runtime.Object { return &corev1.Pod{} }, func() runtime.Object { return &corev1.Pod{} },
		func() runtime.Object { return &appsv1.Deployment{} }, func() runtime.Object { return &appsv1.ReplicaSet{} },
		func() runtime.Object { return &appsv1.StatefulSet{} }, func() runtime.Object { return &appsv1.DaemonSet{} },
		func() runtime.Object { return &batchv1.Job{} }, func() runtime.Object { return &batchv1.CronJob{} },
		func() runtime.Object { return &corev1.ReplicationController{} })()
	if pod, ok := object.(*corev1.Pod); ok && s.Chance(5) {
		*pod = *drawPod(s)
		enrich(s, pod)
	}
	f := &filler{Source: s, left: 30}
	f.fill(reflect.ValueOf(object).Elem(), "")
	if spec := podSpecOf(object); spec != nil {
		f.addToSpec(spec)
	}
	return object
}

// drawState makes what pods are judged by.
func drawState(s draw.Source) runtime.Object {
	object := draw.Pick[runtime.Object](s, &corev1.Namespace{}, &corev1.Node{}, &schedulingv1.PriorityClass{})
	(&filler{Source: s, left: 30}).fill(reflect.ValueOf(object).Elem(), "")
	return object
}

func podSpecOf(object runtime.Object) *corev1.PodSpec {
	switch o := object.(type) {
	case *corev1.Pod:
		return &o.Spec
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec
	}
	return nil
}

// filler sets some of the fields of a value by reflection, as many as are left to be set.
type filler struct {
	draw.Source
	left int
}

// addToSpec makes sure that there is something to default, most of all in what is rare where all fields are as likely.
func (f *filler) addToSpec(spec *corev1.PodSpec) {
	f.left += 60
	for range f.Below(3) {
		f.fill(reflect.ValueOf(&spec.Containers).Elem(), "")
	}
	if f.Chance(5) {
		f.fill(reflect.ValueOf(&spec.InitContainers).Elem(), "")
	}
	for range f.Below(3) {
		volume := corev1.Volume{Name: "v"}
		if sources := reflect.ValueOf(&volume.VolumeSource).Elem(); f.Chance(13) {
			field := sources.Field(f.Below(sources.NumField()))
			field.Set(reflect.New(field.Type().Elem()))
			f.fill(field.Elem(), "")
		}
		spec.Volumes = append(spec.Volumes, volume)
	}
	if f.Chance(4) {
		spec.Resources = &corev1.ResourceRequirements{Limits: drawOddResources(f.Source), Requests: drawOddResources(f.Source)}
	}
	for i := range spec.Containers {
		if f.Chance(8) {
			spec.Containers[i].Resources = corev1.ResourceRequirements{Limits: drawOddResources(f.Source), Requests: drawOddResources(f.Source)}
		}
	}
}

// fill sets a value; the field's name says what a string may be.
func (f *filler) fill(v reflect.Value, field string) {
	if f.left <= 0 {
		return
	}
	if leaf, ok := f.leaf(v.Type()); ok {
		f.left--
		v.Set(reflect.ValueOf(leaf))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		f.fillStruct(v)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		f.fill(v.Elem(), field)
	case reflect.Slice:
		f.fillSlice(v)
	case reflect.String:
		f.left--
		v.SetString(f.text(field))
	case reflect.Bool:
		f.left--
		v.SetBool(f.Chance(8))
	case reflect.Int32, reflect.Int64:
		f.left--
		v.SetInt(draw.Pick[int64](f.Source, 0, 1, 7, 30, 8080, -1))
	}
}

// fillStruct begins at a random field, so that the last ones are not always left out.
func (f *filler) fillStruct(v reflect.Value) {
	n := v.NumField()
	if n == 0 {
		return
	}
	of16 := 3
	if n < 6 {
		of16 = 8
	}
	first := f.Below(n)
	for i := range n {
		at := (first + i) % n
		if f.left > 0 && v.Field(at).CanSet() && f.Chance(of16) {
			f.fill(v.Field(at), v.Type().Field(at).Name)
		}
	}
}

func (f *filler) fillSlice(v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return
	}
	for range 1 + f.Below(2) {
		element := reflect.New(v.Type().Elem()).Elem()
		f.fill(element, "")
		v.Set(reflect.Append(v, element))
	}
}

// leaf makes the values that are no plain structs.
func (f *filler) leaf(t reflect.Type) (any, bool) {
	switch t {
	case reflect.TypeFor[corev1.ResourceList]():
		return drawOddResources(f.Source), true
	case reflect.TypeFor[resource.Quantity]():
		return drawOddQuantity(f.Source), true
	case reflect.TypeFor[intstr.IntOrString]():
		return draw.Pick(f.Source, intstr.FromInt32(0), intstr.FromInt32(3), intstr.FromString(""), intstr.FromString("30%")), true
	case reflect.TypeFor[metav1.Time]():
		return metav1.Unix(1700000000, 0), true
	case reflect.TypeFor[metav1.Duration]():
		return metav1.Duration{Duration: time.Second}, true
	case reflect.TypeFor[metav1.FieldsV1]():
		return metav1.FieldsV1{}, true
	case reflect.TypeFor[map[string]string]():
		return map[string]string{"app": "a"}, true
	}
	return nil, false
}

func (f *filler) text(field string) string {
	switch field {
	case "Image", "Reference":
		return drawImage(f.Source)
	case "Type":
		return draw.Pick(f.Source, "RollingUpdate", "", "OnDelete", "Recreate")
	case "Status":
		return draw.Pick(f.Source, "", "True", "False")
	}
	return draw.Pick(f.Source, "", "a", "Always", "ClientIP")
}

func drawOddResources(s draw.Source) corev1.ResourceList {
	if s.Chance(4) {
		return draw.Pick[corev1.ResourceList](s, nil, corev1.ResourceList{})
	}
	list := corev1.ResourceList{}
	for _, name := range draw.Some[corev1.ResourceName](s, 5, "cpu", "memory", "hugepages-2Mi", "hugepages-1Gi", "ephemeral-storage", "storage", "example.com/gpu", "kubernetes.io/batch", "odd") {
		list[name] = drawOddQuantity(s)
	}
	return list
}

func drawOddQuantity(s draw.Source) resource.Quantity {
	return resource.MustParse(draw.Pick(s, "1", "0", "100m", "2Mi", "64Mi", "0.1", "100u", "1n", "1.0005", "3e2", "-1", "1234567890123456789012", "0.00000000001"))
}

// imageParts are what image references are made of, well or badly.
var imageParts = []string{
	"nginx", "app", "library/", "team/", "docker.io/", "index.docker.io/", "localhost/", "localhost:5000/", "registry.example.com/", "Registry/", "[::1]:5000/",
	":latest", ":1.27", ":LATEST", ":", "@", "/", "latest", "A", "_", "__", "___", ".", "..", "-", " ", "é", "\n",
	"@sha256:" + strings.Repeat("a1", 32), "@sha256:" + strings.Repeat("a", 63), "@sha256:" + strings.Repeat("A", 64), "@md5:" + strings.Repeat("0", 32),
	"@sha384:" + strings.Repeat("0", 96), "@sha512:" + strings.Repeat("f", 128), "@a+b:" + strings.Repeat("0", 32),
	strings.Repeat("ab", 32), strings.Repeat("x", 250), strings.Repeat("y", 130), "xyzab", "xyz",
}

func drawImage(s draw.Source) string {
	if s.Chance(6) {
		return draw.Pick(s, "nginx", "nginx:latest", "nginx:1.27", "registry.example.com/app/web:v1", "nginx:latest@sha256:"+strings.Repeat("a1", 32), "")
	}
	var b strings.Builder
	for range s.Below(6) {
		b.WriteString(draw.Pick(s, imageParts...))
	}
	return b.String()
}
