package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidings/internal/feed"
	"tidings/proxy"
)

// Two nodes follow one page by what counts on it: a list to which something is added, and a price that falls below a
// bound. They are told of that alone.
func TestOnlyWhatCountsOnAPageIsTold(t *testing.T) {
	t.Parallel()
	type state struct{ notice, offers, price string }
	var now atomic.Pointer[state]
	var polls atomic.Int64
	show := func(s state) { now.Store(&s); polls.Store(0) }
	show(state{"Open until six.", "<li>Apples<li>Pears", "60,00"})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/shop" {
			http.NotFound(w, r)
			return
		}
		s := now.Load()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<title>Shop</title><h1>Shop</h1><p>%s</p><ul id="offers">%s</ul><table><tr><td>Kettle<td class="price">%s €</table>`, s.notice, s.offers, s.price)
		polls.Add(1)
	}))
	defer origin.Close()
	network := laboratory("select")
	network.PollInterval = 2 * time.Second
	founder := running(t, Config{Dir: t.TempDir(), Found: &network, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true})
	second := running(t, Config{Dir: t.TempDir(), Bootstrap: founder.awaitMembers(t, 1).Addrs, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true})
	second.awaitMembers(t, 2)
	members := []*member{founder, second}
	page := feed.PageChannel(origin.URL + "/shop")
	channels := map[string]string{} // their beginnings, by address
	for fragment, want := range map[string]string{"only=added&select=%23offers": "Apples|Pears", "number=.price%3C50": "60"} {
		channels[page+"#"+fragment] = want
	}
	read := map[string]string{} // paths for readers, by the channel and the HTTP address of the node
	for channel, want := range channels {
		for _, m := range members {
			var done proxy.SubscribeMessage
			m.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, channel), &done)
			if got := strings.Join(done.Counts, "|"); got != want || done.URL != channel {
				t.Errorf("subscribed to %s, of which %q counts; want %s and %q", done.URL, got, channel, want)
			}
			at, err := url.Parse(done.ReadURL)
			if err != nil {
				t.Fatal(err)
			}
			read[channel+m.HTTPAddr().String()] = at.RequestURI()
		}
	}
	titles := func(m *member, channel string) (titles []string) {
		f, err := feed.Parse([]byte(m.get(t, "/feed?url="+url.QueryEscape(channel))), "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.Items {
			meaning, _ := f.Items[i].Meaning("")
			titles = append(titles, meaning.Title)
		}
		return titles
	}
	polled := func() { // each channel is polled, twice by each node
		within(t, awaitTimeout, "polls of the page", func() error {
			if n := polls.Load(); n < 10 {
				return fmt.Errorf("%d polls", n)
			}
			return nil
		})
	}
	within(t, awaitTimeout, "the first version", func() error {
		for _, m := range members {
			for url := range channels {
				if c := m.channel(t, url); c.State != proxy.StateOK {
					return fmt.Errorf("%s: %s %s", url, c.State, c.Error)
				}
			}
		}
		return nil
	})
	show(state{"Closed today.", "<li>Apples", "55,00"}) // removes, and stays above the bound
	polled()
	show(state{"Closed tomorrow.", "<li>Apples<li>Quinces", "49,90"})
	for _, m := range members {
		for channel, want := range map[string]string{"select": "Quinces", "number": "Shop: 55 → 49.9"} {
			for c := range channels {
				if !strings.Contains(c, channel) {
					continue
				}
				within(t, awaitTimeout, "what counts", func() error {
					if got := strings.Join(titles(m, c), "|"); got != want {
						return fmt.Errorf("%s tells %q, want %q", c, got, want)
					}
					return nil
				})
				if got := m.get(t, read[c+m.HTTPAddr().String()]); !strings.Contains(got, strings.Split(want, " ")[0]) {
					t.Errorf("the address for readers serves %s", got)
				}
			}
		}
	}
	// When the selected list is gone, the channel says so and tells nothing of a removal.
	show(state{"Closed.", "</ul><ul id=gone><li>Nothing", "52"})
	within(t, awaitTimeout, "the state of a list that is gone", func() error {
		if c := second.channel(t, page+"#only=added&select=%23offers"); !strings.Contains(c.Error, "elements without text") {
			return fmt.Errorf("%s %q", c.State, c.Error)
		}
		return nil
	})
	if got := strings.Join(titles(second, page+"#only=added&select=%23offers"), "|"); got != "Quinces" {
		t.Errorf("a list that is gone is told as %q", got)
	}
}
