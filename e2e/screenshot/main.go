// Command screenshot makes the pictures of the documentation: a page as a headless browser shows it.
//
//	go run -C e2e ./screenshot -page FILE.html -o docs/images/page.png
//
// FILE.html is of `podgrace review -o html`; "-" is stdin. Without it the page is of a fixed sample. With the fonts Inter and JetBrains Mono (Debian: fonts-inter, fonts-jetbrains-mono) the page looks its best.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/podgrace/podgrace/e2e/page"
	"github.com/podgrace/podgrace/e2e/program"
)

// options are the command line.
type options struct {
	page, out string
	// hash of the page's address: which results it shows, and which one is open.
	hash string
	look page.Look
}

func main() {
	var o options
	flags := func(f *flag.FlagSet) {
		f.StringVar(&o.page, "page", "", "`FILE` of podgrace review -o html; none: a sample")
		f.StringVar(&o.out, "o", "", "`FILE` to write; in a folder it is review.png")
		f.StringVar(&o.hash, "hash", "", "what the page shows, as in its address: result=3, decision=denied,warned")
		f.Int64Var(&o.look.Width, "width", 1280, "of the page, in pixels")
		f.Int64Var(&o.look.Height, "height", 1000, "of the page, in pixels")
		f.BoolVar(&o.look.Dark, "dark", false, "the page in its dark colours")
	}
	program.Main("screenshot", flags, func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	if o.out == "" {
		return errors.New("-o names no file to write")
	}
	image, err := picture(ctx, o)
	if err != nil {
		return err
	}
	o.out = target(o)
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return fmt.Errorf("writing the picture: %w", err)
	}
	if err := os.WriteFile(o.out, image, 0o644); err != nil {
		return fmt.Errorf("writing the picture: %w", err)
	}
	fmt.Printf("%s: %d KiB\n", o.out, (len(image)+1023)/1024)
	return nil
}

// target is the file to write.
func target(o options) string {
	if filepath.Ext(o.out) != "" {
		return o.out
	}
	return filepath.Join(o.out, "review.png")
}

func picture(ctx context.Context, o options) ([]byte, error) {
	html, err := pageOf(o.page)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return photograph(ctx, html, o)
}

func read(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(file)
}
