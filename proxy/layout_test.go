package proxy

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"tidings/internal/longtest"
)

// layoutScript lists the texts that a box or the screen cuts off, and texts and controls that lie over each other. Boxes that
// scroll by themselves may hide a part of what they have.
const layoutScript = `(() => {
	document.querySelectorAll("details").forEach(d => { d.open = true })
	const shown = e => e.checkVisibility() && !e.closest(".unseen, .skip, dialog, datalist, option")
	const scrolls = e => e && (/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement))
	const boxes = [], faults = []
	const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	for (let n; n = words.nextNode();) {
		const of = n.parentElement
		if (!n.data.trim() || !shown(of) || of.closest("select, textarea, title, desc, script")) continue
		const range = document.createRange()
		range.selectNodeContents(n)
		const free = scrolls(of)
		let clip = {left: 0, right: innerWidth}
		for (let e = of; e; e = e.parentElement) {
			const s = getComputedStyle(e), r = e.getBoundingClientRect()
			if (/hidden|clip/.test(s.overflowX) && s.display !== "inline" && !(e instanceof SVGElement)) clip = {left: Math.max(clip.left, r.left), right: Math.min(clip.right, r.right)}
		}
		for (const r of range.getClientRects()) {
			if (r.width < 1) continue
			if (!free && (r.left < clip.left - 1 || r.right > clip.right + 1)) faults.push("cut off: " + n.data.trim().slice(0, 60))
			// Letters fill the middle of the line, and tables that scroll hide what is outside.
			if (!free) boxes.push({e: of, name: n.data.trim().slice(0, 40), l: r.left + 1, r: r.right - 1, t: r.top + r.height * .2, b: r.bottom - r.height * .2})
		}
	}
	for (const e of document.querySelectorAll("button, input:not([type=hidden]), select, textarea, .button, summary, progress")) {
		const r = e.getBoundingClientRect()
		if (!shown(e) || scrolls(e)) continue
		if (e.matches("button, .button") && e.scrollWidth > e.clientWidth + 1 || r.right > innerWidth + 1) faults.push("cut off: " + e.outerHTML.slice(0, 120))
		boxes.push({e, name: e.outerHTML.slice(0, 80), l: r.left + 1, r: r.right - 1, t: r.top + 1, b: r.bottom - 1})
	}
	boxes.sort((a, b) => a.t - b.t)
	boxes.forEach((a, i) => {
		for (let j = i + 1; j < boxes.length && boxes[j].t < a.b; j++) {
			const b = boxes[j]
			if (a.e !== b.e && !a.e.contains(b.e) && !b.e.contains(a.e) && a.l < b.r && b.l < a.r) faults.push(a.name + " lies over " + b.name)
		}
	})
	if (document.documentElement.scrollWidth > innerWidth) faults.push("it scrolls sideways")
	return faults.slice(0, 5)
})()`

// forcedScript lists what cannot be told apart in the few colours of a forced palette.
const forcedScript = `(() => {
	const faults = [], style = e => getComputedStyle(e)
	const alike = (what, elements, look) => elements.forEach((e, i) => {
		if (elements.slice(0, i).some(other => look(other) === look(e))) faults.push(what + " look alike: " + e.outerHTML.slice(0, 100))
	})
	const line = e => { const s = style(e); return s.borderBottomStyle === "none" ? "" : s.borderBottomColor }
	const links = [...document.querySelectorAll("header nav a")], current = links.filter(e => e.ariaCurrent)
	if (current.length > 0) alike("links to the open page and to another", [current[0], links.find(e => !e.ariaCurrent)], line)
	alike("dots of the legend", [...document.querySelectorAll(".legend .dot")], e => [style(e).backgroundColor, style(e).borderTopWidth, style(e).borderTopColor].join())
	for (const e of document.querySelectorAll(".state, .findings .level")) {
		if (!/^[!…✓·]/u.test(e.textContent.trim())) faults.push("only the colour says " + e.textContent)
	}
	for (const e of document.querySelectorAll(".wide")) {
		if (style(e).backgroundImage !== "none") faults.push("a shadow has colours of its own: " + e.outerHTML.slice(0, 100))
	}
	return faults
})()`

// contrastScript judges the colours of a page for people who want more contrast: texts with WCAG 1.4.6, and the borders of
// controls with 1.4.11.
//
//nolint:misspell // as axe-core spells it
const contrastScript = `(() => {
	const channels = c => c.match(/[\d.]+/g).map(Number)
	const light = c => channels(c).slice(0, 3).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0)
	const paper = light(getComputedStyle(document.body).backgroundColor)
	const faint = [...document.querySelectorAll("input:not([type=hidden], [type=checkbox], [type=file]), select, textarea, button.quiet")].filter(e => e.checkVisibility()).filter(e => {
		const border = light(getComputedStyle(e).borderTopColor)
		return (Math.max(border, paper) + .05) / (Math.min(border, paper) + .05) < 3
	})
	return axe.run(document, {runOnly: {type: "rule", values: ["color-contrast-enhanced"]}}).then(r =>
		faint.slice(0, 3).map(e => "a faint border: " + e.outerHTML.slice(0, 100)).concat(r.violations.flatMap(v => v.nodes.slice(0, 4).map(n => n.failureSummary + " " + n.html.slice(0, 160)))))
})()`

// media opens a page on a screen of a size, with media features: names and values in turn.
func media(ctx context.Context, t *testing.T, address string, width, height int64, features ...string) {
	t.Helper()
	var p emulation.SetEmulatedMediaParams
	for i := 0; i < len(features); i += 2 {
		p.Features = append(p.Features, &emulation.MediaFeature{Name: features[i], Value: features[i+1]})
	}
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, p)
	if err == nil {
		err = chromedp.Do(ctx, chromedp.EmulateViewport(width, height), chromedp.Navigate(address))
	}
	if err != nil {
		t.Fatalf("%s: %v", address, err)
	}
}

// On the narrowest and the widest screens nothing is cut off and nothing overlaps, also if texts run from right to left. In
// forced colours the focus and the states can be told apart, and people who want more contrast get it.
//
//nolint:misspell // as CSS spells it
func TestLayoutInABrowser(t *testing.T) {
	ctx := browserFor(t, longtest.Pick(2*time.Minute, 6*time.Minute))
	b := newFullServer(t)
	const arabic = "https://h.example/arabic"
	b.node.publish(t, arabic, `<rss version="2.0"><channel><title>أخبار المدينة وما حولها من القرى والجبال</title><item><title>الجسر الجديد (2026) مفتوح</title><guid>1</guid><description>&lt;p&gt;يعبر الناس النهر من جديد.&lt;/p&gt;</description></item></channel></rss>`)
	b.node.Subscribe(t.Context(), arabic, false)
	served := httptest.NewServer(submitForm(b.server))
	defer served.Close()
	pages := append(fullPages(ctx, b), namedPage{"arabic", "/show?url=" + arabic})
	if err := chromedp.Do(ctx, chromedp.Navigate(b.server.OpenURL(served.URL))); err != nil {
		t.Fatal(err)
	}
	axe := axeCore(t)
	schemes := []string{"light", "dark"}
	for i, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			check := func(as, script string) {
				t.Helper()
				faults, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](script, chromedp.EvalAwaitPromise))
				for _, fault := range faults {
					t.Errorf("%s: %s", as, fault)
				}
				if err != nil {
					t.Fatalf("%s: %v", as, err)
				}
				savePicture(ctx, t, p.name+"-"+as)
			}
			for _, width := range []int64{320, 3840} {
				media(ctx, t, served.URL+p.path, width, 900, "prefers-color-scheme", schemes[i%2])
				check(fmt.Sprint(width), layoutScript)
			}
			media(ctx, t, served.URL+p.path, 1000, 900, "forced-colors", "active", "prefers-color-scheme", schemes[i%2])
			check("forced", forcedScript)
			if longtest.Long() || i%6 == 0 {
				for _, unseen := range tabThrough(ctx, t) {
					t.Errorf("in forced colours, by keyboard: %s", unseen)
				}
			}
			for j, scheme := range schemes {
				if longtest.Long() || j == i%2 {
					media(ctx, t, served.URL+p.path, 1000, 900, "prefers-contrast", "more", "prefers-color-scheme", scheme)
					check("contrast-"+scheme, axe+";"+contrastScript)
				}
			}
		})
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
}
