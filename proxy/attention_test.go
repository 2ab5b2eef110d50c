package proxy

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chromedp/chromedp"
)

// The start page is told when something needs attention and when it no longer does, in updates of at most 1 kB.
func TestAttentionIsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestServer(t, func(c *Config) { c.News = memoryNews{next: make(chan struct{})} })
		b.node.Subscribe(t.Context(), rssURL, false)
		ctx, end := context.WithCancel(t.Context())
		w, ended := &streamReader{ResponseRecorder: httptest.NewRecorder()}, make(chan struct{})
		go func() {
			defer close(ended)
			b.server.ServeHTTP(w, request("GET", "/live?attention=1", nil).WithContext(ctx))
		}()
		synctest.Wait()
		if all := strings.Count(w.take(), "event: part"); all != maxAttention+3 { // with what concerns the node, what is not shown, and the words of the timeline
			t.Errorf("the stream begins with %d parts", all)
		}
		change := func(c Channel) (parts []string) {
			b.node.mu.Lock()
			b.node.channels[rssURL] = c
			b.node.mu.Unlock()
			time.Sleep(liveInterval)
			synctest.Wait()
			for event := range strings.SplitSeq(w.take(), "\n\n") {
				if data, isPart := strings.CutPrefix(event, "event: part\ndata: "); isPart {
					parts = append(parts, data)
				}
			}
			return parts
		}
		if got := change(Channel{State: StateOK}); got != nil {
			t.Errorf("all is well, and it says %q", got)
		}
		got := change(Channel{State: "gone", Error: "gone for good (410)"})
		if len(got) != 1 || !strings.HasPrefix(got[0], `{"id":"a-0","trouble":true,"html":"<div`) || !strings.Contains(got[0], "gone for good (410)") || len(got[0]) > 1000 {
			t.Errorf("a feed is gone, and it says %q", got)
		}
		if got := change(Channel{State: StateOK}); len(got) != 1 || strings.TrimSpace(got[0]) != `{"id":"a-0","trouble":false,"html":"","why":""}` {
			t.Errorf("the feed is back, and it says %q", got)
		}
		end()
		<-ended
	})
	gone, end := context.WithCancel(t.Context())
	end()
	w := httptest.NewRecorder()
	newManyServer(t, 1000).server.ServeHTTP(w, request("GET", "/live?attention=1", nil).WithContext(gone))
	if parts := strings.Count(w.Body.String(), "event: part"); parts != maxAttention+3 {
		t.Errorf("a page gets %d parts", parts)
	}
	for event := range strings.SplitSeq(w.Body.String(), "\n\n") {
		if len(event) > 1000 {
			t.Errorf("%d bytes: %s", len(event), event)
		}
	}
}

// The script shows what needs attention now, and hides the section when nothing does. The focus stays where it is.
func TestAttentionInABrowser(t *testing.T) {
	ctx := browser(t)
	news := memoryNews{next: make(chan struct{})}
	b := newTestServer(t, func(c *Config) { c.News = news })
	b.node.Subscribe(t.Context(), rssURL, false)
	served := httptest.NewServer(b.server)
	defer served.Close()
	if err := chromedp.Do(ctx, chromedp.Navigate(b.server.OpenURL(served.URL)), chromedp.WaitNotVisible("#attention"), chromedp.WaitVisible("#subscriptions")); err != nil {
		t.Fatal(err)
	}
	b.node.mu.Lock()
	b.node.channels[rssURL] = Channel{State: "gone", Error: "gone for good (410)"}
	b.node.mu.Unlock()
	close(news.next)
	if err := chromedp.Do(ctx, chromedp.WaitVisible("#attention"), chromedp.Focus("#a-0.trouble h3 a")); err != nil {
		t.Fatal(err)
	}
	b.node.mu.Lock()
	b.node.channels[rssURL] = Channel{State: "gone", Error: "gone for good (410)", Since: &b.clock}
	b.node.mu.Unlock()
	if err := chromedp.Do(ctx, chromedp.WaitVisible("#a-0 time[data-for]")); err != nil {
		t.Fatal(err)
	}
	if focused, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.activeElement.closest("#a-0") !== null`)); err != nil || !focused {
		t.Errorf("an update takes the focus away from what it changes: %v", err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
}
