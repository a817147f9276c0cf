package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/chromedp/chromedp"

	"github.com/podgrace/podgrace/cli/report"
	"github.com/podgrace/podgrace/e2e/page"
)

// pageOf reads a page, or makes that of the sample.
func pageOf(file string) ([]byte, error) {
	if file != "" {
		return read(file)
	}
	sample, err := page.Sample()
	if err != nil {
		return nil, err
	}
	var html bytes.Buffer
	if err := report.Write(&html, report.FormatHTML, sample, report.Options{}); err != nil {
		return nil, err
	}
	return html.Bytes(), nil
}

// photograph shows a page in a browser.
func photograph(ctx context.Context, html []byte, o options) ([]byte, error) {
	folder, err := os.MkdirTemp("", "podgrace-page-")
	if err != nil {
		return nil, fmt.Errorf("a folder for the page: %w", err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "page.html")
	if err := os.WriteFile(file, html, 0o600); err != nil {
		return nil, fmt.Errorf("writing the page: %w", err)
	}
	tab, cancel, err := page.Tab(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if err := o.look.Set(tab); err != nil {
		return nil, err
	}
	address := url.URL{Scheme: "file", Path: file, Fragment: o.hash}
	// Seen from the top, also where the link's result has been scrolled to and has the focus.
	top := chromedp.Evaluate[chromedp.Void]("document.activeElement.blur(); scrollTo(0, 0)")
	if err := chromedp.Do(tab, chromedp.Navigate(address.String()), top); err != nil {
		return nil, fmt.Errorf("opening the page: %w", err)
	}
	picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
	if err != nil {
		return nil, fmt.Errorf("the picture of the page: %w", err)
	}
	return smaller(picture)
}

// smaller writes a picture with 256 colours, one byte a pixel: what else there is are shades of letters' edges.
func smaller(picture []byte) ([]byte, error) {
	img, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, fmt.Errorf("reading the browser's picture: %w", err)
	}
	flat := image.NewPaletted(img.Bounds(), palette(img))
	draw.Draw(flat, flat.Rect, img, flat.Rect.Min, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, flat); err != nil {
		return nil, fmt.Errorf("writing the picture: %w", err)
	}
	return out.Bytes(), nil
}

// palette of a picture: half of it are the most frequent colours, so that areas keep theirs; the other half the most frequent ones
// that are unlike any of those before, so that a rare colour is not lost to another one's shades.
func palette(img image.Image) color.Palette {
	const most = 256
	var chosen color.Palette
	var others []color.RGBA
	seen := map[uint32]bool{}
	for i, c := range colours(img) {
		if i < most/2 {
			chosen = append(chosen, c)
			seen[coarse(c)] = true
		} else {
			others = append(others, c)
		}
	}
	for _, c := range others {
		if !seen[coarse(c)] && len(chosen) < most {
			chosen = append(chosen, c)
			seen[coarse(c)] = true
		}
	}
	return chosen
}

// colours of a picture, the most frequent first.
func colours(img image.Image) []color.RGBA {
	counts := map[color.RGBA]int{}
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			counts[color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)]++
		}
	}
	return slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(packed(a), packed(b)))
	})
}

// packed is a colour as one number; coarse is alike for colours that are.
func packed(c color.RGBA) uint32 { return uint32(c.R)<<16 | uint32(c.G)<<8 | uint32(c.B) }
func coarse(c color.RGBA) uint32 { return packed(c) & 0xe0e0e0 }
