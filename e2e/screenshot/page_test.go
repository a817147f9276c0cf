package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"testing"

	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/page"
)

// A picture of few colours keeps each of them; of more than fit, the frequent ones, and a rare one that is unlike them.
func TestSmaller(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 100, 100))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 100 * 100 {
		shade := uint8(128 + random.IntN(128))
		img.Set(i%100, i/100, color.RGBA{shade, uint8(128 + random.IntN(128)), shade, 255})
	}
	white, green := color.RGBA{255, 255, 255, 255}, color.RGBA{31, 111, 67, 255}
	for x := range 100 {
		img.Set(x, 0, white)
	}
	img.Set(5, 5, green)
	var before bytes.Buffer
	if err := png.Encode(&before, img); err != nil {
		t.Fatal(err)
	}
	after, err := smaller(before.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(bytes.NewReader(after))
	if err != nil {
		t.Fatal(err)
	}
	if len(after) >= before.Len() {
		t.Errorf("%d bytes became %d", before.Len(), len(after))
	}
	for at, want := range map[image.Point]color.RGBA{{7, 0}: white, {5, 5}: green} {
		if c := color.RGBAModel.Convert(got.At(at.X, at.Y)); c != want {
			t.Errorf("at %v is %v, want %v", at, c, want)
		}
	}
}

func TestPhotograph(t *testing.T) {
	clustertest.Require(t, page.Supported())
	sizes := map[string]int{}
	for _, hash := range []string{"", "decision=clean"} {
		html, err := pageOf("")
		if err != nil {
			t.Fatal(err)
		}
		picture, err := photograph(t.Context(), html, options{hash: hash, look: page.Look{Width: 800, Height: 600}})
		if err != nil {
			t.Fatal(err)
		}
		config, err := png.DecodeConfig(bytes.NewReader(picture))
		if err != nil || config.Width != 800 || config.Height != 600 {
			t.Errorf("%d x %d, %v", config.Width, config.Height, err)
		}
		if len(picture) > 200<<10 {
			t.Errorf("%d bytes", len(picture))
		}
		sizes[hash] = len(picture)
	}
	if sizes[""] <= sizes["decision=clean"] {
		t.Errorf("the filtered page is not emptier: %v bytes", sizes)
	}
}
