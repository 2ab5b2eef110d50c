package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // the zones of the test of quiet hours

	"tidings/internal/feed"
	"tidings/internal/news"
	"tidings/internal/notify"
	"tidings/proxy"
)

// A hook is a receiver of webhooks.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	titles []string
	ids    map[string]bool
}

func newHook(t *testing.T) *hook {
	h := &hook{status: http.StatusOK, ids: map[string]bool{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e news.EventJSON
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &e)
		}
		var item struct{ Title string }
		if err == nil && e.Item != nil {
			err = json.Unmarshal(e.Item, &item)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		id := r.Header.Get("Webhook-Id")
		if err != nil || id == "" || h.ids[id] && h.status == http.StatusOK {
			t.Errorf("a message %s with the body %s: %v", id, body, err)
		}
		h.ids[id] = true
		if e.Health != nil {
			item.Title = e.Health.Kind + ": " + e.Health.Text
		}
		h.titles = append(h.titles, e.URL+e.Query+" "+item.Title)
		w.WriteHeader(h.status)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) answer(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = status
}

// expect waits until the receiver has got messages, in any order, and nothing else.
func (h *hook) expect(t *testing.T, want ...string) {
	t.Helper()
	within(t, awaitTimeout, strings.Join(want, ", "), func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		got := slices.Sorted(slices.Values(h.titles))
		if !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			return fmt.Errorf("got %q", got)
		}
		h.titles = nil
		return nil
	})
}

// notify adds a target.
func (m *member) notify(t *testing.T, request string) proxy.NotifyTarget {
	t.Helper()
	var done proxy.NotifyResponse
	m.post(t, "notify", request, &done)
	if len(done.Targets) != 1 {
		t.Fatalf("the answer is %+v", done)
	}
	return done.Targets[0]
}

// target returns a target as lists show it.
func (m *member) target(t *testing.T, id string) proxy.NotifyTarget {
	t.Helper()
	status, body := m.api(t, http.MethodGet, "/api/v1/notify", "")
	var all proxy.NotifyResponse
	if err := json.Unmarshal([]byte(body), &all); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	if strings.Contains(body, "gangway") || strings.Contains(body, "whsec_") {
		t.Errorf("the list shows a secret: %s", body)
	}
	i := slices.IndexFunc(all.Targets, func(n proxy.NotifyTarget) bool { return n.ID == id })
	if i < 0 {
		t.Fatalf("no target %s in %s", id, body)
	}
	return all.Targets[i]
}

// Webhooks are told what is new, what they do not take can be looked at, and all that is known after a restart.
func TestNotificationsOfANode(t *testing.T) {
	t.Parallel()
	feed, feeds, search, both := newFerryFeed(t), newHook(t), newHook(t), newHook(t)
	feed.add("Pier 1")
	c := founding(t, "notifications")
	c.Found.PollInterval = 2 * time.Second
	c.HTTP, c.AllowPrivateOrigins = "127.0.0.1:0", true
	m := running(t, c)
	m.awaitMembers(t, 1)
	url := feed.URL + "/news.xml"
	m.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, url), &struct{}{})
	m.await(t, url, "Pier 1")
	m.post(t, "watch", `{"query":"bridge"}`, &struct{}{})

	first := m.notify(t, fmt.Sprintf(`{"to":"%s/hooks/gangway","feeds":[%q]}`, feeds.URL, url))
	if !strings.HasPrefix(first.Secret, "whsec_") || first.Kind != "webhook" || first.To != feeds.URL+"/…" {
		t.Errorf("the target is %+v", first)
	}
	m.notify(t, fmt.Sprintf(`{"to":%q,"queries":["  bridge "]}`, search.URL))
	all := m.notify(t, fmt.Sprintf(`{"to":%q,"queries":["bridge"],"feeds":[%q,%q],"health":true}`, both.URL, url, url))
	m.post(t, "notify/test", fmt.Sprintf(`{"id":%q}`, first.ID), &struct{}{})
	feeds.expect(t, " A test of your notifications")

	both.answer(http.StatusBadRequest)
	feed.add("Bridge 2")
	feeds.expect(t, url+" Bridge 2")
	search.expect(t, "bridge Bridge 2")
	both.expect(t, url+" Bridge 2", "bridge Bridge 2")
	within(t, awaitTimeout, "dead letters", func() error {
		if n := m.target(t, all.ID).Dead; n != 2 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	_, dead := m.api(t, http.MethodGet, "/api/v1/notify/dead?id="+all.ID, "")
	if strings.Count(dead, "the receiver answers 400 Bad Request") != 2 || strings.Count(dead, `"title":"Bridge 2"`) != 2 {
		t.Errorf("the dead letters are %s", dead)
	}

	both.answer(http.StatusGone)
	search.answer(http.StatusOK)
	feed.add("Pier 3")
	feeds.expect(t, url+" Pier 3")
	within(t, awaitTimeout, "the end", func() error {
		if m.target(t, all.ID).Ended == nil {
			return fmt.Errorf("%+v", m.target(t, all.ID))
		}
		return nil
	})
	both.expect(t, url+" Pier 3")
	m.stop(t)

	file := filepath.Join(c.Dir, targetsFile)
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file of targets: %v, %v", info, err)
	}
	feed.add("Pier 4")
	again := running(t, Config{Dir: c.Dir, HTTP: c.HTTP, AllowPrivateOrigins: true})
	feeds.expect(t, url+" Pier 4")
	if ended := again.target(t, all.ID); ended.Ended == nil || ended.Dead != 3 {
		t.Errorf("after a restart the target is %+v", ended)
	}
	both.expect(t)
	_, findings := again.api(t, http.MethodGet, "/api/v1/doctor", "")
	if !strings.Contains(findings, "410 Gone") {
		t.Errorf("the doctor says %s", findings)
	}
	again.post(t, "notify/remove", fmt.Sprintf(`{"id":%q}`, first.ID), &struct{}{})
	feed.add("Pier 5 bridge")
	search.expect(t, "bridge Pier 5 bridge")
	feeds.expect(t)
	if status, body := again.api(t, http.MethodPost, "/api/v1/notify/remove", fmt.Sprintf(`{"id":%q}`, first.ID)); status != http.StatusNotFound {
		t.Errorf("a second removal: %d %s", status, body)
	}
	again.stop(t)

	// A node that may not reach private addresses says so, and loses nothing.
	strict := running(t, Config{Dir: c.Dir, HTTP: c.HTTP})
	if left := strict.target(t, all.ID); left.Kind != "unusable" {
		t.Errorf("the target is %+v", left)
	}
	if status, body := strict.api(t, http.MethodPost, "/api/v1/notify/test", fmt.Sprintf(`{"id":%q}`, all.ID)); status != http.StatusBadGateway || !strings.Contains(body, "--allow-private-origins") {
		t.Errorf("a test at a private address: %d %s", status, body)
	}
	strict.stop(t)

	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := running(t, Config{Dir: c.Dir, HTTP: c.HTTP, AllowPrivateOrigins: true})
	if _, findings := damaged.api(t, http.MethodGet, "/api/v1/doctor", ""); !strings.Contains(findings, file+damagedFileEnd) {
		t.Errorf("the doctor says %s", findings)
	}
	damaged.stop(t)
}

func TestTargetsThatAreNotAccepted(t *testing.T) {
	t.Parallel()
	c := founding(t, "targets")
	c.HTTP = "127.0.0.1:0"
	m := running(t, c)
	m.awaitMembers(t, 1)
	m.post(t, "watch", `{"query":"bridge"}`, &struct{}{})
	const to = `"to":"https://hooks.example/gangway"`
	for _, c := range []struct {
		request string
		status  int
		why     string
	}{
		{`{}`, 400, "no address"},
		{`{"to":"  ","health":true}`, 400, "no address"},
		{`{` + to + `}`, 400, "told nothing"},
		{`{` + to + `,"health":"yes"}`, 400, "health"},
		{`{` + to + `,"helath":true}`, 400, "helath"},
		{`{"to":"http://hooks.example/gangway","health":true}`, 400, "needs https"},
		{`{"to":"hooks.example/gangway","health":true}`, 400, "no scheme"},
		{`{` + to + `,"feeds":["https://elsewhere.example/feed"]}`, 404, "subscribe first"},
		{`{` + to + `,"feeds":["not an address"]}`, 400, ""},
		{`{` + to + `,"feeds":["private:ferry.example/1"]}`, 404, "private feed"},
		{`{` + to + `,"queries":["tunnel"]}`, 404, "tidings watch tunnel"},
		{`{` + to + `,"queries":["(bridge"]}`, 400, "(bridge"},
		{`{` + to + `,"queries":[""]}`, 400, ""},
		{`{` + to + `,"health":true,"quiet_hours":"night"}`, 400, "22:00-07:00"},
		{`{` + to + `,"health":true,"quiet_hours":"22:00-24:01"}`, 400, "22:00-07:00"},
		{`{` + to + `,"health":true,"quiet_hours":"22-7"}`, 400, "22:00-07:00"},
		{`{` + to + `,"health":true,"quiet_hours":"07:00-07:00"}`, 400, "same time"},
		{`{` + to + `,"health":true,"digest":"daily"}`, 400, "webhook"},
		{`{"to":"ntfy://ntfy.sh/gangway","health":true,"digest":"hourly"}`, 400, "daily or weekly"},
		{`{"to":"smtp://mail.example/?from=gangway&to=a@b.example","health":true}`, 400, "no sender"},
		{`{` + to + `,"health":true,"pause_s":-1}`, 400, "pause"},
		{`{` + to + `,"health":true,"pause_s":86401}`, 400, "pause"},
		{`{` + to + `,"queries":[` + strings.Repeat(`"b",`, maxTargetSources) + `"b"]}`, 400, "at most 1000"},
		{`[]`, 400, "object"}, {``, 400, "body"},
	} {
		status, body := m.api(t, http.MethodPost, "/api/v1/notify", c.request)
		if status != c.status || !strings.Contains(body, c.why) || strings.Contains(body, "gangway") {
			t.Errorf("%.80s: %d %s, want %d and %q", c.request, status, body, c.status, c.why)
		}
	}
	for _, path := range []string{"notify/test", "notify/remove"} {
		for _, request := range []string{`{}`, `{"id":"nobody"}`} {
			if status, body := m.api(t, http.MethodPost, "/api/v1/"+path, request); status != http.StatusNotFound {
				t.Errorf("%s %s: %d %s", path, request, status, body)
			}
		}
	}
	for range maxTargets {
		m.notify(t, `{`+to+`,"health":true}`)
	}
	if status, body := m.api(t, http.MethodPost, "/api/v1/notify", `{`+to+`,"health":true}`); status != http.StatusInsufficientStorage {
		t.Errorf("one target too many: %d %s", status, body)
	}
	m.stop(t)
}

// Quiet hours are those of the clock on the wall, also in the nights in which it is changed.
func TestQuietHours(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ hours, now, end string }{
		{"", "2026-11-28 03:00:00 +0100", "2026-11-28 03:00:00 +0100"},
		{"22:00-07:00", "2026-11-28 21:59:59 +0100", "2026-11-28 21:59:59 +0100"},
		{"22:00-07:00", "2026-11-28 22:00:00 +0100", "2026-11-29 07:00:00 +0100"},
		{"22:00-07:00", "2026-11-28 06:59:59 +0100", "2026-11-28 07:00:00 +0100"},
		{"22:00-07:00", "2026-11-28 07:00:00 +0100", "2026-11-28 07:00:00 +0100"},
		{"12:00-13:30", "2026-11-28 12:29:59 +0100", "2026-11-28 13:30:00 +0100"},
		{" 9:00 - 23:59 ", "2026-11-28 12:29:59 +0100", "2026-11-28 23:59:00 +0100"},
		{"00:00-23:59", "2026-11-28 12:29:59 +0100", "2026-11-28 23:59:00 +0100"},
		{"07:01-07:00", "2026-11-28 07:01:00 +0100", "2026-11-29 07:00:00 +0100"},
		{"22:00-07:00", "2026-03-28 23:00:00 +0100", "2026-03-29 07:00:00 +0200"}, // eight hours later, less one
		{"22:00-07:00", "2026-10-24 23:00:00 +0200", "2026-10-25 07:00:00 +0100"}, // eight hours later, and one
		{"22:00-02:30", "2026-03-29 01:59:00 +0100", "2026-03-29 03:00:00 +0200"}, // 02:30 does not exist
		{"22:00-02:30", "2026-10-25 01:59:00 +0200", "2026-10-25 02:30:00 +0200"}, // and exists twice
		{"22:00-02:30", "2026-10-25 02:00:00 +0100", "2026-10-25 02:30:00 +0100"},
	} {
		q, err := parseQuietHours(c.hours)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse("2006-01-02 15:04:05 -0700", c.now)
		if err != nil {
			t.Fatal(err)
		}
		if end := q.end(now.In(berlin)).Format("2006-01-02 15:04:05 -0700"); end != c.end {
			t.Errorf("%q at %s: until %s, want %s", c.hours, c.now, end, c.end)
		}
	}
}

func FuzzTargets(f *testing.F) {
	b, err := encodeTargets([]*targetRecord{{ID: "a", To: "https://hooks.example/", QuietHours: "22:00-07:00"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"Targets":[null,{"ID":"a"},{"ID":"a"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		records, err := decodeTargets(b)
		if err != nil {
			return
		}
		again, err := encodeTargets(records)
		if err != nil {
			t.Fatal(err)
		}
		if others, err := decodeTargets(again); err != nil || len(others) != len(records) {
			t.Errorf("%s: %v", again, err)
		}
	})
}

func TestDigestsAreSentInTheMorning(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	const layout = "Mon 2006-01-02 15:04 -0700"
	for _, c := range []struct{ digest, quiet, oldest, now, until string }{
		{"daily", "", "Sat 2026-11-28 07:59 +0100", "Sat 2026-11-28 07:59 +0100", "Sat 2026-11-28 08:00 +0100"},
		{"daily", "", "Sat 2026-11-28 07:59 +0100", "Sat 2026-11-28 08:00 +0100", "Sat 2026-11-28 08:00 +0100"},
		{"daily", "", "Sat 2026-11-28 08:00 +0100", "Sat 2026-11-28 08:00 +0100", "Sun 2026-11-29 08:00 +0100"},
		{"daily", "", "Sat 2026-11-28 07:00 +0100", "Sat 2026-11-28 21:00 +0100", "Sat 2026-11-28 21:00 +0100"}, // it was off, or the server was
		{"daily", "07:00-09:30", "Sat 2026-11-28 10:00 +0100", "Sat 2026-11-28 10:00 +0100", "Sun 2026-11-29 09:30 +0100"},
		{"daily", "", "Sat 2026-03-28 20:00 +0100", "Sat 2026-03-28 20:00 +0100", "Sun 2026-03-29 08:00 +0200"},
		{"daily", "", "Sat 2026-10-24 20:00 +0200", "Sat 2026-10-24 20:00 +0200", "Sun 2026-10-25 08:00 +0100"},
		{"weekly", "", "Mon 2026-11-23 08:00 +0100", "Sat 2026-11-28 10:00 +0100", "Mon 2026-11-30 08:00 +0100"},
		{"weekly", "", "Mon 2026-11-23 07:59 +0100", "Sat 2026-11-28 10:00 +0100", "Sat 2026-11-28 10:00 +0100"},
		{"weekly", "", "Mon 2026-10-19 08:00 +0200", "Mon 2026-10-19 08:00 +0200", "Mon 2026-10-26 08:00 +0100"},
		{"weekly", "", "Mon 2026-11-30 07:00 +0100", "Mon 2026-11-30 07:00 +0100", "Mon 2026-11-30 08:00 +0100"},
	} {
		s, err := parseSchedule(c.quiet, c.digest)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(layout, c.now)
		oldest, wrong := time.Parse(layout, c.oldest)
		if err != nil || wrong != nil {
			t.Fatal(err, wrong)
		}
		if until := s.heldUntil(now.In(berlin), oldest).Format(layout); until != c.until {
			t.Errorf("%s %s of %s at %s: until %s, want %s", c.digest, c.quiet, c.oldest, c.now, until, c.until)
		}
	}
}

// form sends a form, or, without values, asks for a page.
func (m *member) form(t *testing.T, path string, values url.Values) (status int, page string) {
	t.Helper()
	method := http.MethodPost
	if values == nil {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("http://%s%s", m.HTTPAddr(), path), strings.NewReader(values.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Tidings-Token", m.dataDir.apiToken)
	if values != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

// The page does what the commands do, and works without a script.
func TestPageOfNotifications(t *testing.T) {
	t.Parallel()
	feed, hook := newFerryFeed(t), newHook(t)
	feed.add("Pier 1")
	c := founding(t, "page")
	c.Found.PollInterval = time.Second
	c.HTTP, c.AllowPrivateOrigins = "127.0.0.1:0", true
	m := running(t, c)
	m.awaitMembers(t, 1)
	address := feed.URL + "/news.xml"
	m.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, address), &struct{}{})
	m.post(t, "watch", `{"query":"bridge <b>"}`, &struct{}{})
	m.await(t, address, "Pier 1")
	if status, page := m.form(t, "/notify", nil); status != http.StatusOK || !strings.Contains(page, "None yet") || !strings.Contains(page, `value="`+address) || !strings.Contains(page, "bridge &lt;b&gt;") {
		t.Errorf("the page: %d %s", status, page)
	}
	status, page := m.form(t, "/notify", url.Values{"to": {hook.URL + "/gangway"}, "feed": {address}, "query": {"bridge <b>"}, "health": {"1"}, "quiet_hours": {""}, "digest": {""}})
	if status != http.StatusOK || !strings.Contains(page, "whsec_") || !strings.Contains(page, "Health of all feeds") {
		t.Fatalf("a new target: %d %s", status, page)
	}
	id := m.notifications.Targets()[0].ID
	if status, page := m.form(t, "/notify/test", url.Values{"id": {id}}); status != http.StatusOK || !strings.Contains(page, "has taken the message") || strings.Contains(page, "whsec_") || strings.Contains(page, "gangway") {
		t.Errorf("a test: %d %s", status, page)
	}
	hook.expect(t, " A test of your notifications")
	hook.answer(http.StatusBadRequest)
	feed.add("Pier <2>")
	hook.expect(t, address+" Pier <2>")
	within(t, awaitTimeout, "a dead letter", func() error {
		if _, page := m.form(t, "/notify?dead="+id, nil); !strings.Contains(page, "1 dead letter<") || !strings.Contains(page, "Pier &lt;2&gt;") || !strings.Contains(page, "answers 400") {
			return fmt.Errorf("%s", page)
		}
		return nil
	})
	for _, c := range []struct {
		path   string
		values url.Values
		status int
		why    string
	}{
		{"/notify", url.Values{"to": {"gopher://gangway"}, "health": {"1"}}, 400, "begins with https"},
		{"/notify", url.Values{"to": {hook.URL}}, 400, "told nothing"},
		{"/notify/test", url.Values{"id": {"nobody"}}, 404, "no target"},
		{"/notify/remove", url.Values{"id": {"<nobody>"}}, 404, "&lt;nobody&gt;"},
		{"/notify?dead=nobody", nil, 404, "no target"},
		{"/notify/test", url.Values{"id": {id}}, 502, "400"},
		{"/notify/remove", url.Values{"id": {id}}, 200, "None yet"},
	} {
		if status, page := m.form(t, c.path, c.values); status != c.status || !strings.Contains(page, c.why) || strings.Contains(page, "gangway") {
			t.Errorf("%s %v: %d %s", c.path, c.values, status, page)
		}
	}
}

// The doctor explains a target that has failed for a day, and a list of dead letters that is full.
func TestFindingsAboutTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal, disk, err := openNews(filepath.Join(t.TempDir(), newsFile))
		if err != nil {
			t.Fatal(err)
		}
		n := &notifications{path: filepath.Join(t.TempDir(), targetsFile), courier: news.NewCourier(journal, slog.New(slog.DiscardHandler)), log: slog.New(slog.DiscardHandler)}
		add := func(id string, answer *notify.Failure) {
			to := &notify.Target{Kind: notify.Webhook, Shown: "https://hooks.example/…", Batch: 100, Send: func(context.Context, []notify.Message) error {
				if answer == nil {
					return nil
				}
				return answer
			}}
			if err := n.begin(&openTarget{targetRecord{ID: id, Feeds: []string{"https://ferry.example/"}}, to}); err != nil {
				t.Fatal(err)
			}
		}
		add("good", nil)
		add("down", &notify.Failure{Text: "the receiver answers 500"})
		add("refuser", &notify.Failure{Text: "the receiver answers 400", Final: true})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { n.courier.Run(ctx) })
		record := func(items int) {
			t.Helper()
			var b strings.Builder
			for i := range items {
				fmt.Fprintf(&b, `<item><guid>%d</guid><title>Pier</title></item>`, i)
			}
			f, err := feed.Parse([]byte(`<rss version="2.0"><channel><title>Ferry news</title><link>https://ferry.example/</link><description/>`+b.String()+`</channel></rss>`), "")
			if err != nil {
				t.Fatal(err)
			}
			doc := &feed.Document{Base: "https://ferry.example/", Head: f.Head}
			for _, it := range f.Items {
				doc.Entries = append(doc.Entries, feed.Entry{Item: it})
			}
			if _, err := journal.Record(news.Source{URL: "https://ferry.example/"}, news.Document{Document: doc, Complete: true}); err != nil {
				t.Fatal(err)
			}
		}
		record(1) // the past
		record(2)
		time.Sleep(failingTarget - time.Hour)
		if f := n.findings(time.Now()); len(f) != 0 {
			t.Errorf("before a day: %+v", f)
		}
		time.Sleep(2 * time.Hour)
		if f := n.findings(time.Now()); len(f) != 1 || !strings.Contains(f[0].What.String(), "down (https://hooks.example/…) of notifications has taken nothing since") || !strings.Contains(f[0].Do.String(), "tidings notify test down") {
			t.Errorf("after a day: %+v", f)
		}
		record(1 + news.MaxDeadLetters)
		time.Sleep(time.Minute)
		if f := n.findings(time.Now()); len(f) != 2 || !strings.Contains(f[1].What.String(), "refuser") || !strings.Contains(f[1].What.String(), "1,000 events") || !strings.Contains(f[1].Do.String(), "tidings notify dead refuser") {
			t.Errorf("a full list: %+v", f)
		}
		if letters, err := n.DeadLetters("refuser"); err != nil || len(letters) != news.MaxDeadLetters {
			t.Errorf("%d dead letters, %v", len(letters), err)
		}
		if s := n.Targets()[0]; s.Sent != news.MaxDeadLetters || s.Dead != 0 {
			t.Errorf("the good target is %+v", s)
		}
		cancel()
		running.Wait()
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
}
