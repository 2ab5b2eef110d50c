package websub

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
)

func TestDiscovery(t *testing.T) {
	const at = "https://a.example/feed"
	for _, c := range []struct {
		what      string
		d         Document
		hub, self string // "": there is no hub
	}{
		{"elements", Document{URL: at, Links: page.Hubs{Self: "https://a.example/Feed", Hubs: []string{"https://hub.example"}}}, "https://hub.example/", "https://a.example/Feed"},
		{"header", Document{URL: at, Header: []string{`<https://hub.example/>; rel=hub, <https://b.example/x>; rel=self`}}, "https://hub.example/", "https://b.example/x"},
		{"header before elements", Document{URL: at, Header: []string{`<https://hub.example/>; rel=hub`}, Links: page.Hubs{Self: "https://b.example/", Hubs: []string{"https://other.example/"}}}, "https://hub.example/", "https://b.example/"},
		{"self is missing", Document{URL: at, Links: page.Hubs{Hubs: []string{"https://hub.example/"}}}, "https://hub.example/", at},
		{"relative", Document{URL: at, Base: "/x/", Links: page.Hubs{Self: "y", Hubs: []string{"/hub"}}}, "https://a.example/hub", "https://a.example/x/y"},
		{"the header's links have no base", Document{URL: at, Base: "/x/", Header: []string{`<h>; rel="hub self"`}}, "https://a.example/h", "https://a.example/h"},
		{"spelling of the topic", Document{URL: at, Links: page.Hubs{Self: "HTTPS://A.example/%7e", Hubs: []string{"HTTPS://Hub.example/%7e"}}}, "https://hub.example/%7e", "HTTPS://A.example/%7e"},
		{"no hub", Document{URL: at, Links: page.Hubs{Self: at}}, "", ""},
		{"a hub without HTTPS", Document{URL: at, Links: page.Hubs{Hubs: []string{"http://hub.example/"}}}, "", ""},
		{"the second hub has HTTPS", Document{URL: at, Links: page.Hubs{Hubs: []string{"http://hub.example/", "https://two.example/"}}}, "https://two.example/", at},
		{"neither has HTTPS", Document{URL: "http://a.example/", Links: page.Hubs{Hubs: []string{"http://hub.example/"}}}, "http://hub.example/", "http://a.example/"},
		{"no address", Document{URL: at, Links: page.Hubs{Self: "mailto:a@b", Hubs: []string{"javascript:1", "https://hub.example/"}}}, "https://hub.example/", at},
		{"a long hub", Document{URL: at, Links: page.Hubs{Hubs: []string{"https://hub.example/" + strings.Repeat("x", MaxURL)}}}, "", ""},
		{"by documentation", Document{URL: "http://www.youtube.com/feeds/videos.xml?channel_id=1"}, "https://pubsubhubbub.appspot.com/subscribe", "https://www.youtube.com/feeds/videos.xml?channel_id=1"},
		{"other addresses there", Document{URL: "https://www.youtube.com/watch?v=1"}, "", ""},
	} {
		topic, ok := Discover(c.d)
		if ok != (c.hub != "") || ok && topic != (Topic{c.hub, c.self}) || ok && !topic.Valid() {
			t.Errorf("%s: %v, %v", c.what, topic, ok)
		}
	}
}

func FuzzDiscover(f *testing.F) {
	f.Add("https://a.example/feed", "<https://hub.example/>; rel=hub", "/x/", "https://a.example/Feed", "https://hub.example")
	f.Fuzz(func(t *testing.T, at, header, base, self, hub string) {
		if canonical, err := feed.Canonical(at); err != nil || canonical != at {
			return // no document comes from there
		}
		if topic, ok := Discover(Document{URL: at, Header: []string{header}, Base: base, Links: page.Hubs{Self: self, Hubs: []string{hub}}}); ok && !topic.Valid() {
			t.Errorf("%+v", topic)
		}
	})
}

// A hub's question is answered only if the node has just asked for that.
func TestOnlyWhatIsPendingIsConfirmed(t *testing.T) {
	for what, change := range map[string]func(l *lab) (path string, q url.Values){
		"another address": func(l *lab) (string, url.Values) { return strings.Repeat("0", 32), question(l.last()) },
		"no address":      func(l *lab) (string, url.Values) { return "", question(l.last()) },
		"another topic": func(l *lab) (string, url.Values) {
			return path(l.last()), question(l.last(), "hub.topic", "https://a.example/feed")
		},
		"another mode": func(l *lab) (string, url.Values) {
			return path(l.last()), question(l.last(), "hub.mode", "unsubscribe")
		},
		"no mode":      func(l *lab) (string, url.Values) { return path(l.last()), question(l.last(), "hub.mode", "") },
		"no challenge": func(l *lab) (string, url.Values) { return path(l.last()), question(l.last(), "hub.challenge", "") },
		"a denial of another topic": func(l *lab) (string, url.Values) {
			return path(l.last()), question(l.last(), "hub.mode", "denied", "hub.topic", "x")
		},
		"once more": func(l *lab) (string, url.Values) {
			l.Confirm(path(l.last()), question(l.last()))
			return path(l.last()), question(l.last())
		},
		"subscribe while it ends": func(l *lab) (string, url.Values) { r := l.last(); l.Drop(channel); return path(r), question(r) },
		"a subscription that is over": func(l *lab) (string, url.Values) {
			l.Drop(channel)
			l.Confirm(path(l.last()), question(l.last()))
			return path(l.last()), question(l.last())
		},
	} {
		l := newLab(t)
		l.Want(channel, aTopic, false)
		p, q := change(l)
		before := l.stats
		if r := l.Confirm(p, q); r.Status != 404 || r.Body != "" || l.stats.Confirmed != before.Confirmed {
			t.Errorf("%s: answered %+v", what, r)
		}
	}
}

// A node that has no room for a request makes it soon, and not as if the hub had failed.
func TestARequestWaitsForRoom(t *testing.T) {
	l := newLab(t)
	l.answer = env.Answer{Err: env.ErrBusy}
	l.Want(channel, aTopic, false)
	l.run(time.Minute)
	if n := len(l.requests); n < 8 {
		t.Errorf("%d requests in a minute", n)
	}
	l.expect(coronapb.PushStatus_ASKED)
	l.answer = env.Answer{Status: anAnswer}
	l.run(2 * busyRetry)
	n := len(l.requests)
	if l.run(firstRetry / 2); len(l.requests) != n {
		t.Error("the hub is asked again, and has had no time to answer")
	}
	l.Confirm(path(l.last()), question(l.last()))
	l.expect(coronapb.PushStatus_SUBSCRIBED)
}

// Each subscription has an address and a secret of its own, which nobody can guess.
func TestAddressesAndSecretsAreNotShared(t *testing.T) {
	l := newLab(t)
	seen := map[string]bool{}
	for _, c := range []string{"https://a.example/", "https://b.example/", "https://c.example/"} {
		l.Want(c, aTopic, false)
		p, secret := path(l.last()), l.last().Get("hub.secret")
		if len(p) != 32 || len(secret) != 64 || seen[p] || seen[secret] || strings.Contains(secret, p) {
			t.Errorf("address %q, secret %q", p, secret)
		}
		seen[p], seen[secret] = true, true
	}
}

func TestLeasesAreRenewedInTime(t *testing.T) {
	l := subscribed(t)
	first := l.last()
	for range 20 {
		n, at := len(l.requests), l.now
		l.run(aLease - time.Minute)
		if len(l.requests) <= n {
			t.Fatal("no renewal before the lease ended")
		}
		if after := l.asked[n].Sub(at); after < aLease*3/4 || after > aLease*17/20 {
			t.Errorf("renewed after %v", after)
		}
		if l.last().Get("hub.callback") != first.Get("hub.callback") || l.last().Get("hub.secret") != first.Get("hub.secret") {
			t.Error("a renewal has another address or secret")
		}
		l.expect(coronapb.PushStatus_SUBSCRIBED)
		l.Confirm(path(l.last()), question(l.last()))
	}
}

func TestALeaseThatIsNotRenewedEnds(t *testing.T) {
	l := subscribed(t)
	l.answer = env.Answer{Err: env.ErrDial, Message: "connection refused"}
	l.changed = nil
	l.run(aLease - time.Minute)
	l.expect(coronapb.PushStatus_SUBSCRIBED)
	l.run(2 * time.Minute)
	if st := l.expect(coronapb.PushStatus_FAILED); !strings.Contains(st.Detail, "connection refused") || len(l.changed) != 2 {
		t.Errorf("%v, %d changes", st, len(l.changed))
	}
	n := len(l.requests)
	l.run(24 * time.Hour)
	if n = len(l.requests) - n; n < 12 || n > 40 {
		t.Errorf("a hub that is down was asked %d times in a day", n)
	}
	l.answer = env.Answer{Status: 202}
	l.run(2 * lastRetry)
	l.Confirm(path(l.last()), question(l.last()))
	l.expect(coronapb.PushStatus_SUBSCRIBED)
}

func TestLeasesHaveBounds(t *testing.T) {
	for seconds, want := range map[string]time.Duration{
		"": wantedLease, "x": wantedLease, "-1": wantedLease, "0": wantedLease, "99999999999999999999": wantedLease,
		"1": minLease, "3600": time.Hour, "86400": 24 * time.Hour, "999999999": maxLease, "9223372036854775807": maxLease,
	} {
		if got := leaseOf(seconds); got != want {
			t.Errorf("%q: %v, want %v", seconds, got, want)
		}
	}
}

// Subscriptions outlive a restart, and so do requests that the hub has not confirmed.
func TestSubscriptionsOutliveRestarts(t *testing.T) {
	l := subscribed(t)
	r := l.last()
	l.start()
	l.expect(coronapb.PushStatus_SUBSCRIBED)
	l.run(aLease - time.Minute)
	if len(l.requests) < 2 || path(l.last()) != path(r) {
		t.Error("the lease was not renewed after a restart")
	}
	l.start()
	if got := l.Confirm(path(l.last()), question(l.last())); got.Status != 200 {
		t.Errorf("answered %+v", got)
	}
	l.Drop(channel)
	l.start()
	if got := l.Confirm(path(l.last()), question(l.last())); got.Status != 200 || len(l.disk) != 0 {
		t.Errorf("answered %+v, %d records", got, len(l.disk))
	}
}

// The store has a subscription before the hub hears of it.
func TestNothingIsAskedThatIsNotStored(t *testing.T) {
	l := newLab(t)
	l.full = true
	l.Want(channel, aTopic, false)
	if l.run(10 * time.Minute); len(l.requests) != 0 {
		t.Error("the hub was asked")
	}
	l.full = false
	if l.run(2 * lastRetry); len(l.requests) == 0 {
		t.Error("the hub was not asked when the store had room")
	}
}

func TestRecordsThatAreOfNoUseAreDropped(t *testing.T) {
	l := subscribed(t)
	for key := range l.disk {
		good := l.disk[key]
		for _, bad := range []struct{ key, value string }{{keyPrefix + "x", string(good)}, {key, "\xff"}, {key, ""}, {key, strings.Replace(string(good), "node.example", "nods.example", 1)}} {
			l.disk = map[string][]byte{bad.key: []byte(bad.value)}
			if l.start(); len(l.byPath) != 0 || len(l.disk) != 0 {
				t.Errorf("%q: %d subscriptions, %d records", bad.value, len(l.byPath), len(l.disk))
			}
		}
	}
}

func TestAHubThatRefusesIsAskedAgainTheNextDay(t *testing.T) {
	l := subscribed(t)
	n := len(l.requests)
	if r := l.Confirm(path(l.last()), question(l.last(), "hub.mode", "denied", "hub.reason", strings.Repeat("ü", maxReason))); r.Status != 200 {
		t.Errorf("answered %+v", r)
	}
	if st := l.expect(coronapb.PushStatus_DENIED); len(st.Detail) > maxReason+40 {
		t.Errorf("a reason of %d bytes", len(st.Detail))
	}
	if l.run(12 * time.Hour); len(l.requests) != n {
		t.Error("asked again on the same day")
	}
	if l.run(24 * time.Hour); len(l.requests) == n {
		t.Error("not asked again")
	}
	l.Confirm(path(l.last()), question(l.last()))
	l.expect(coronapb.PushStatus_SUBSCRIBED)
}

func TestAFailedHubIsAskedAgain(t *testing.T) {
	l := subscribed(t)
	n := len(l.requests)
	for range 12 {
		l.run(5 * time.Minute)
		l.Want(channel, aTopic, true)
		if r := l.last(); len(l.requests) > n {
			l.Confirm(path(r), question(r))
		}
	}
	if n = len(l.requests) - n; n < 3 || n > 4 {
		t.Errorf("asked %d times in an hour", n)
	}
}

func TestAnotherTopicIsAnotherSubscription(t *testing.T) {
	l := subscribed(t)
	old := l.last()
	l.Want(channel, Topic{aHub, "https://b.example/"}, false)
	modes := ""
	for _, r := range l.requests {
		modes += r.Get("hub.mode") + " " + r.Get("hub.topic") + "\n"
	}
	if modes != "subscribe https://a.example/Feed\nunsubscribe https://a.example/Feed\nsubscribe https://b.example/\n" || path(l.last()) == path(old) {
		t.Error(modes)
	}
	l.expect(coronapb.PushStatus_ASKED)
	l.run(24 * time.Hour) // the hub confirms nothing
	if len(l.byPath) != 1 || len(l.disk) != 1 {
		t.Errorf("%d subscriptions, %d records", len(l.byPath), len(l.disk))
	}
}

func TestNotificationsAreProven(t *testing.T) {
	l := subscribed(t)
	secret, body := l.last().Get("hub.secret"), []byte("<rss/>")
	sign := func(newHash func() hash.Hash, secret string) string {
		mac := hmac.New(newHash, []byte(secret))
		mac.Write(body)
		return hex.EncodeToString(mac.Sum(nil))
	}
	for signature, want := range map[string]bool{
		"sha256=" + sign(sha256.New, secret):                  true,
		"sha384=" + sign(sha512.New384, secret):               true,
		"sha512=" + sign(sha512.New, secret):                  true,
		"SHA256=" + strings.ToUpper(sign(sha256.New, secret)): true,
		"sha1=" + sign(sha1.New, secret):                      false,
		"sha256=" + sign(sha256.New, "another"):               false,
		"sha512=" + sign(sha256.New, secret):                  false,
		"sha256=" + sign(sha256.New, secret)[2:]:              false,
		"sha256=" + sign(sha256.New, secret) + "00":           false,
		"sha256=":                      false,
		"sha256=xyz":                   false,
		sign(sha256.New, secret):       false,
		"":                             false,
		"=" + sign(sha256.New, secret): false,
	} {
		l.notified = nil
		if r := l.Notify(path(l.last()), signature, "text/xml", body); r.Status != 202 || len(l.notified) != 1 || l.notified[0].Channel != channel {
			t.Fatalf("%+v, %d notifications", r, len(l.notified))
		}
		if got := l.notified[0].Proven(); got != want {
			t.Errorf("%q: proven %v, want %v", signature, got, want)
		}
	}
}

func TestNotificationsForNobodyAreRefused(t *testing.T) {
	l := subscribed(t)
	r := l.last()
	if got := l.Notify(path(r), "", "", make([]byte, MaxNotification+1)); got.Status != 413 {
		t.Errorf("a large one: answered %+v", got)
	}
	if got := l.Notify("x", "", "", nil); got.Status != 410 {
		t.Errorf("an unknown address: answered %+v", got)
	}
	if l.Drop(channel); l.Notify(path(r), "", "", nil).Status != 410 {
		t.Error("one that has been ended")
	}
	if len(l.notified) != 0 {
		t.Errorf("%d notifications", len(l.notified))
	}
}

// Whatever is sent to the callback address, only a proven notification counts as the hub's.
func FuzzCallback(f *testing.F) {
	f.Add("hub.mode=subscribe&hub.topic=https%3A%2F%2Fa.example%2FFeed&hub.challenge=x&hub.lease_seconds=1", "sha256=00", []byte("x"))
	f.Add("hub.mode=denied&hub.topic=https%3A%2F%2Fa.example%2FFeed&hub.reason=%ff", "sha512=", []byte{})
	f.Fuzz(func(t *testing.T, query, signature string, body []byte) {
		l := newLab(t)
		l.Want(channel, aTopic, false)
		q, _ := url.ParseQuery(query)
		if r := l.Confirm(path(l.last()), q); r.Status != 404 && r.Body != q.Get("hub.challenge") {
			t.Errorf("answered %+v", r)
		}
		l.Notify(path(l.last()), signature, "", body)
		for _, n := range l.notified {
			if n.Proven() {
				t.Error("proven without the secret")
			}
		}
		l.start()
		if _, ok := l.Status(channel); !ok {
			t.Error("the subscription is lost after a restart")
		}
	})
}
