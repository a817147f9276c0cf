package page

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// program is the browser, as Debian's package chromium installs it. BROWSER_PATH names another one.
const program = "chromium"

// Supported says why there is no browser here.
func Supported() error {
	if _, err := browser(); err != nil {
		return fmt.Errorf("no browser (Debian package chromium, or BROWSER_PATH): %w", err)
	}
	return nil
}

func browser() (string, error) { return exec.LookPath(cmp.Or(os.Getenv("BROWSER_PATH"), program)) }

// Tab is a new headless browser with one tab; cancel ends it. It resolves no host's name.
func Tab(ctx context.Context) (context.Context, context.CancelFunc, error) {
	path, err := browser()
	if err != nil {
		return nil, nil, Supported()
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"),
		chromedp.Flag("font-render-hinting", "none"),
		chromedp.Flag("lang", "en"),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses its sandbox to root
	}
	allocator, stopBrowser := chromedp.NewExecAllocator(ctx, options...)
	tab, closeTab := chromedp.NewContext(allocator)
	return tab, func() { closeTab(); stopBrowser() }, nil
}

// Look is how the page is looked at.
type Look struct {
	// Width and Height of the window, in CSS pixels.
	Width, Height int64
	// Dark is the reader's preferred colour scheme.
	Dark bool
}

// Set makes the tab look so.
func (l Look) Set(ctx context.Context) error {
	scheme := "light"
	if l.Dark {
		scheme = "dark"
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		return fmt.Errorf("setting the colour scheme: %w", err)
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(l.Width, l.Height)); err != nil {
		return fmt.Errorf("setting the size of the window: %w", err)
	}
	return nil
}

// Wait until a condition in JavaScript holds. It is looked at before each frame that the browser draws.
func Wait(ctx context.Context, condition string) error {
	script := fmt.Sprintf("new Promise((done) => { const look = () => (%s) ? done(true) : requestAnimationFrame(look); look(); })", condition)
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script, chromedp.EvalAwaitPromise)); err != nil {
		return fmt.Errorf("waiting until %s: %w", condition, err)
	}
	return nil
}
