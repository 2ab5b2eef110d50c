package proxy

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	// maxTabs bounds the presses of Tab from one control of a task to the next.
	maxTabs = 60
	// walkTime bounds one walk, stepTime the wait for what a step leads to, and answerTime that for an answer of the page. A browser that
	// shares two cores with other tests may need half a minute for one page.
	walkTime, stepTime, answerTime = 3 * time.Minute, 45 * time.Second, 3 * time.Second
)

// A hand does a task on the pages as a person does: by mouse or by keyboard. A verb fails the test if the person could not
// do it.
type hand struct {
	*testing.T
	b        *testServer
	ctx      context.Context // of its tab
	base     string          // address of the server
	keyboard bool
}

// newHand opens a tab on a screen, and logs in to a server. All of it ends with the test.
func newHand(browser context.Context, t *testing.T, b *testServer, keyboard bool, width, height int64, scheme string) *hand {
	t.Helper()
	served := httptest.NewServer(b.server)
	t.Cleanup(b.server.imports.close)
	t.Cleanup(served.Close)
	t.Cleanup(served.CloseClientConnections) // the browser may keep one for seconds
	tab, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	t.Cleanup(func() {
		if err := chromedp.Cancel(tab); err != nil {
			t.Error(err)
		}
	})
	if err := chromedp.Do(tab); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tab, walkTime)
	t.Cleanup(cancel)
	h := &hand{t, b, ctx, served.URL, keyboard}
	media(ctx, t, b.server.OpenURL(served.URL), width, height, "prefers-color-scheme", scheme, "prefers-reduced-motion", "reduce") //nolint:misspell // as CSS spells it
	_, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		if err == nil {
			_, err = chromedp.Call(ctx, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{Permission: &cdpbrowser.PermissionDescriptor{Name: name}, Setting: cdpbrowser.PermissionSettingGranted})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	h.arrives("/")
	return h
}

// handScript finds what a person would see, point at, or have the focus on.
//
//nolint:misspell // as the DOM spells it
const handScript = `
	const one = selector => [...document.querySelectorAll(selector)].find(e => e.checkVisibility())
	// A box to check is as large as its label.
	const target = e => e.matches("[type=checkbox]") && e.closest("label") || e
	const hits = (e, x, y) => { const at = document.elementFromPoint(x, y); return !!at && (e.contains(at) || target(e).contains(at)) }
	const named = e => e.outerHTML.slice(0, 200)
	// WCAG 2.5.8 makes an exception for links in sentences.
	const inSentence = e => e.matches("p a, li a") && getComputedStyle(e).display === "inline" && e.parentElement.textContent.trim() !== e.textContent.trim()
	const aim = selector => {
		const e = one(selector)
		if (!e) return {fault: "there is no " + selector}
		e.scrollIntoView({block: "center", behavior: "instant"})
		const r = e.getClientRects()[0], x = r.x + r.width / 2, y = r.y + r.height / 2, size = target(e).getBoundingClientRect()
		if ((size.width < 24 || size.height < 24) && !inSentence(e)) return {fault: "only " + size.width + " by " + size.height + " pixels: " + named(e)}
		return {x, y, fault: hits(e, x, y) ? "" : "something covers " + named(e)}
	}
	const focus = selector => {
		const e = document.activeElement, wanted = one(selector), s = getComputedStyle(e)
		if (!wanted) return {fault: "there is no " + selector}
		let fault = ""
		if (e !== document.body) {
			const r = e.getClientRects()[0], parts = [.02, .25, .5, .75, .98]
			if (s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2) fault = "nothing shows that the focus is on " + named(e)
			else if (!r || !parts.some(x => parts.some(y => hits(e, r.x + x * r.width, r.y + y * r.height)))) fault = "the focus is hidden: " + named(e)
		}
		const back = e !== document.body && !!(e.compareDocumentPosition(wanted) & Node.DOCUMENT_POSITION_PRECEDING)
		return {fault, there: e === wanted, back, key: wanted.matches("a:not([role=button]), summary") ? "Enter" : " "}
	}
	const wide = () => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > innerWidth).slice(0, 3).map(named)
`

// A place is where a hand points, or what has the focus.
type place struct {
	X, Y        float64
	Fault       string // why a person cannot use it
	There, Back bool   // the focus is on what is wanted, or behind it
	Key         string // that activates what is wanted
}

// look evaluates an expression over handScript.
func look[T any](h *hand, expression string) T {
	h.Helper()
	v, err := chromedp.Run(h.ctx, chromedp.Evaluate[T]("(() => {"+handScript+"; return "+expression+"})()"))
	if err != nil {
		h.stop("%s: %v", expression, err)
	}
	return v
}

// stop ends the test, and says on which page.
func (h *hand) stop(format string, a ...any) {
	h.Helper()
	text, _ := chromedp.Run(context.WithoutCancel(h.ctx), chromedp.Evaluate[string](`location.href + " with " + JSON.stringify(document.querySelector("main")?.innerText.slice(0, 300))`))
	h.Fatalf("%s, at %s", fmt.Sprintf(format, a...), text)
}

// until waits for a condition. A page that is being left may answer with an error or not at all; the next one does.
func (h *hand) until(condition, what string) {
	h.Helper()
	limit := time.After(stepTime)
	for {
		ctx, cancel := context.WithTimeout(h.ctx, answerTime)
		v, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("(() => {"+handScript+"; return !!("+condition+")})()"))
		cancel()
		if err == nil && v {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit:
			h.stop("it does not come to %s: %v", what, err)
		case <-h.ctx.Done():
			h.stop("it does not come to %s: %v", what, h.ctx.Err())
		}
	}
}

// open opens a page by its address.
func (h *hand) open(path string) {
	h.Helper()
	if err := chromedp.Do(h.ctx, chromedp.Navigate(h.base+path)); err != nil {
		h.stop("%v", err)
	}
	h.arrives(path)
}

// arrives waits for another page, whose address begins with path when it is decoded, and checks that it does not scroll sideways.
func (h *hand) arrives(path string) {
	h.Helper()
	h.until(fmt.Sprintf(`!window.left && document.readyState === "complete" && decodeURIComponent(location.pathname + location.search).startsWith(%q)`, path), path)
	if wide := look[[]string](h, "wide()"); len(wide) > 0 {
		h.Errorf("%s scrolls sideways: %q", path, wide)
	}
}

// sees waits for a part of the page that has a text.
func (h *hand) sees(selector, text string) {
	h.Helper()
	h.until(fmt.Sprintf("(one(%q)?.value ?? one(%[1]q)?.textContent)?.includes(%q)", selector, text), fmt.Sprintf("%q in %s", text, selector))
}

// read returns the text of a part of the page.
func (h *hand) read(selector string) string {
	h.Helper()
	h.until(fmt.Sprintf("one(%q)", selector), selector)
	return look[string](h, fmt.Sprintf("one(%q).textContent.trim()", selector))
}

// keys presses keys.
func (h *hand) keys(keys string, options ...chromedp.KeyOption) {
	h.Helper()
	if err := chromedp.Do(h.ctx, chromedp.KeyEvent(keys, options...)); err != nil {
		h.stop("%v", err)
	}
}

// click clicks at a control, as often as times.
func (h *hand) click(selector string, times int) {
	h.Helper()
	at := look[place](h, fmt.Sprintf("aim(%q)", selector))
	if at.Fault != "" {
		h.stop("by mouse: %s", at.Fault)
	}
	if err := chromedp.Do(h.ctx, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at.X, at.Y), chromedp.MouseClickXY(at.X, at.Y, chromedp.ClickCount(times))); err != nil {
		h.stop("%v", err)
	}
}

// reach moves the focus to a control with Tab or Shift+Tab. All controls on the way have to be visible, and to show the focus.
func (h *hand) reach(selector string) place {
	h.Helper()
	for range maxTabs {
		at := look[place](h, fmt.Sprintf("focus(%q)", selector))
		if at.Fault != "" {
			h.stop("by keyboard: %s", at.Fault)
		}
		if at.There {
			return at
		}
		if at.Back {
			h.keys(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift))
		} else {
			h.keys(kb.Tab)
		}
	}
	h.stop("by keyboard: %d presses of Tab do not lead to %s", maxTabs, selector)
	return place{}
}

// press activates a link, a button or a box to check.
func (h *hand) press(selector string) {
	h.Helper()
	look[bool](h, "window.left = true") // arrives waits for a page without it
	if !h.keyboard {
		h.click(selector, 1)
		return
	}
	key := h.reach(selector).Key
	h.keys(strings.ReplaceAll(key, "Enter", kb.Enter))
}

// write replaces the text of a field.
func (h *hand) write(selector, text string) {
	h.Helper()
	if h.keyboard {
		h.reach(selector) // which selects the text
	} else {
		h.click(selector, 3)
	}
	h.keys(text)
	h.sees(selector, text)
}

// upload gives a file to a field. The chooser is the browser's own, so no hand is needed there.
func (h *hand) upload(selector, file string) {
	h.Helper()
	if h.keyboard {
		h.reach(selector)
	} else if at := look[place](h, fmt.Sprintf("aim(%q)", selector)); at.Fault != "" {
		h.stop("by mouse: %s", at.Fault)
	}
	if err := chromedp.Do(h.ctx, chromedp.SetUploadFiles(selector, []string{file})); err != nil {
		h.stop("%v", err)
	}
}

// choose chooses an option of a list. The list that opens is the browser's own, which no event of a mouse reaches, so both
// hands type what they choose.
func (h *hand) choose(selector, value string) {
	h.Helper()
	if h.keyboard {
		h.reach(selector)
	} else {
		look[bool](h, fmt.Sprintf("(one(%q).focus(), true)", selector))
	}
	h.keys(look[string](h, fmt.Sprintf("[...one(%q).options].find(o => o.value === %q).text", selector, value)))
	h.until(fmt.Sprintf("one(%q).value === %q", selector, value), value)
}

// shortcut presses a key; the mouse presses the control that does the same.
func (h *hand) shortcut(key, selector string) {
	h.Helper()
	if !h.keyboard {
		h.press(selector)
		return
	}
	look[bool](h, "window.left = true")
	h.strike(key)
}

// strike presses the key of a shortcut. Its keydown and its text are one event, so that the script can prevent the text.
func (h *hand) strike(key string) {
	h.Helper()
	for _, p := range []input.DispatchKeyEventParams{{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key}, {Type: input.DispatchKeyEventTypeKeyUp, Key: key}} {
		if _, err := chromedp.Call(h.ctx, input.DispatchKeyEvent, p); err != nil {
			h.stop("%v", err)
		}
	}
}

// row goes to a row of the list by the shortcut key. Nothing has to be done by mouse.
func (h *hand) row(key, row string) {
	h.Helper()
	for range maxTabs {
		if !h.keyboard {
			return
		}
		h.strike(key)
		at := look[place](h, fmt.Sprintf("focus(%q)", row+" h3 a"))
		if at.Fault != "" {
			h.stop("by keyboard: %s", at.Fault)
		}
		if at.There {
			return
		}
	}
	h.stop("by keyboard: %d presses of %s do not lead to the row %s", maxTabs, key, row)
}

// copied waits for what a button copies.
func (h *hand) copied(want string) {
	h.Helper()
	h.until(`document.getElementById("told").textContent`, "a copied text")
	got, err := chromedp.Run(h.ctx, chromedp.Evaluate[string]("navigator.clipboard.readText()", chromedp.EvalAwaitPromise))
	if err != nil || got != want {
		h.Errorf("copied %q, want %q, %v", got, want, err)
	}
}
