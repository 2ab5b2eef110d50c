package daemon

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/overlay"
	"tidings/proxy"
)

// inQuickSuccession starts calls in their order while the loop is busy, and returns their errors. None of the
// calls has an effect before the last one is queued.
func (m *member) inQuickSuccession(t *testing.T, calls ...func(context.Context) error) []error {
	t.Helper()
	release, errs := make(chan struct{}), make([]chan error, len(calls))
	busy := make(chan struct{})
	var returned atomic.Int64
	m.loop.Deliver(func() { close(busy); <-release })
	<-busy
	for i, call := range calls {
		errs[i] = make(chan error, 1)
		go func() {
			err := call(t.Context())
			returned.Add(1)
			errs[i] <- err
		}()
		within(t, awaitTimeout, "a call is queued", func() error {
			if runtime.Gosched(); waitingCalls()+int(returned.Load()) <= i { // some calls do not wait for the loop
				return errors.New("it is not")
			}
			return nil
		})
	}
	close(release)
	results := make([]error, len(calls))
	for i := range errs {
		results[i] = <-errs[i]
	}
	return results
}

// waitingCalls returns how many calls of inQuickSuccession wait for an answer of the loop, by the stacks of all goroutines: the
// loop gets answers to other requests, too, so its own numbers do not tell.
func waitingCalls() (n int) {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(stack, []byte("inQuickSuccession")) && bytes.Contains(stack, []byte("[select")) && bytes.Contains(stack, []byte("daemon.ask[")) {
			n++
		}
	}
	return n
}

// The last of several requests decides, even if the earlier ones are still being written. What the node does
// after a restart is the same as before it.
func TestTheLastRequestDecides(t *testing.T) {
	t.Parallel()
	c := founding(t, "quick")
	c.AllowPrivateOrigins = true
	m := running(t, c)
	m.awaitMembers(t, 1)
	url := func(i int) string { return fmt.Sprintf("http://127.0.0.1:9/%d.xml", i) }
	subscribe := func(i int) func(context.Context) error {
		return func(ctx context.Context) error { return m.Subscribe(ctx, url(i), false) }
	}
	unsubscribe := func(i int) func(context.Context) error {
		return func(ctx context.Context) error { return m.Unsubscribe(ctx, url(i)) }
	}
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	// The user unsubscribes from feed 1 and changes his mind.
	must(m.Subscribe(t.Context(), url(1), false))
	must(m.inQuickSuccession(t, unsubscribe(1), subscribe(1))...)
	// The user had unsubscribed from feed 2; he subscribes again and changes his mind.
	must(m.Subscribe(t.Context(), url(2), false), m.Unsubscribe(t.Context(), url(2)))
	must(m.inQuickSuccession(t, subscribe(2), unsubscribe(2))...)
	// Feed 3 was subscribed to by reading and is read again while the user subscribes to it.
	must(m.subscribe(t.Context(), url(3), attributes{Auto: true, LastRead: time.Now().Add(-2 * lapseCheckInterval).Unix()}))
	must(m.inQuickSuccession(t, subscribe(3), func(context.Context) error { m.Version(url(3)); return nil })...)
	check := func(when string) {
		t.Helper()
		channels, err := m.List(t.Context())
		must(err)
		listed := map[string]bool{}
		for _, c := range channels {
			if listed[c.URL] = true; c.Auto {
				t.Errorf("%s: %s lapses, although the user subscribed to it", when, c.URL)
			}
			if _, ok := m.Version(c.URL); !ok {
				t.Errorf("%s: %s is listed, and its readers are told that it is not subscribed to", when, c.URL)
			}
		}
		if !listed[url(1)] || listed[url(2)] || !listed[url(3)] || len(channels) != 2 {
			t.Errorf("%s: subscribed to %v", when, listed)
		}
	}
	check("at once")
	m.stop(t)
	m = running(t, Config{Dir: c.Dir, AllowPrivateOrigins: true})
	m.awaitMembers(t, 1)
	check("after a restart")
	if err := m.Subscribe(t.Context(), url(2), true); !errors.Is(err, errUnsubscribed) {
		t.Errorf("reading a feed that the user unsubscribed from: %v", err)
	}
	m.stop(t)
}

// A memory is a store and a feedStore. It refuses what it is told to.
type memory struct {
	records map[string][]byte
	feeds   map[string]feedtree.Subscription // by URL
	refuse  func(what string) error
}

func newMemory() *memory {
	return &memory{map[string][]byte{}, map[string]feedtree.Subscription{}, func(string) error { return nil }}
}

func (m *memory) Commit(ops []env.Op, done func(error)) {
	err := m.refuse("commit")
	for _, op := range ops {
		if err == nil {
			m.records[string(op.Key)] = op.Value
			if op.Value == nil {
				delete(m.records, string(op.Key))
			}
		}
	}
	done(err)
}

func (m *memory) Get(key []byte) ([]byte, error) { return m.records[string(key)], nil }

func (m *memory) Range(_ []byte, each func(key, value []byte) bool) error {
	for key, value := range m.records {
		each([]byte(key), value)
	}
	return nil
}

func (m *memory) Subscribe(url string, _ bool, weight int, attributes []byte, done func(error)) {
	err := m.refuse("subscribe")
	if err == nil {
		m.feeds[url] = feedtree.Subscription{Key: overlay.Key("", url), URL: url, Weight: weight, Attributes: attributes}
	}
	done(err)
}

func (m *memory) Unsubscribe(url string, done func(error)) {
	err := m.refuse("unsubscribe")
	if err == nil {
		delete(m.feeds, url)
	}
	done(err)
}

func (m *memory) Subscriptions() iter.Seq[feedtree.Subscription] { return maps.Values(m.feeds) }
func (m *memory) Trust(overlay.ID) bool                          { return false }

// runs does nothing on a loop.
type runs struct{}

func (runs) Run(time.Time) time.Time { return time.Time{} }

// loaded returns the subscriptions of a memory, without a node.
func loaded(t *testing.T, m *memory) *subscriptions {
	t.Helper()
	s := newSubscriptions(newNodeLoop(), m, newDocumentCopies(), slog.New(slog.DiscardHandler))
	if _, err := s.load(m); err != nil {
		t.Fatal(err)
	}
	close(s.joined)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.loop.Run(ctx, runs{})
	}()
	t.Cleanup(func() { end(); <-ended })
	return s
}

// An attempt to unsubscribe that fails, or that a crash interrupts, leaves nothing behind: after the
// subscription lapses, reading the feed subscribes again.
func TestAFailedUnsubscribeLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	const url = "https://example.org/feed"
	full := errors.New("the disk is full")
	for name, crash := range map[string]bool{"the store refuses": false, "crash": true} {
		m := newMemory()
		s := loaded(t, m)
		if err := s.Subscribe(t.Context(), url, true); err != nil {
			t.Fatal(err)
		}
		m.refuse = func(what string) error {
			if what == "unsubscribe" {
				return full
			}
			return nil
		}
		if err := s.Unsubscribe(t.Context(), url); !errors.Is(err, full) {
			t.Fatal(err)
		}
		m.refuse = func(string) error { return nil }
		if crash { // between the two writes
			m.records[string(unsubscribedKey(s.key(url)))] = binary.BigEndian.AppendUint64(nil, 1)
			s = loaded(t, m)
		}
		if _, ok := s.Version(url); !ok {
			t.Errorf("%s: the subscription is gone", name)
		}
		s.endLapsed(t.Context(), time.Now().Add(lapseAge+time.Hour))
		if _, ok := s.Version(url); ok {
			t.Errorf("%s: the subscription does not lapse", name)
		}
		if err := s.Subscribe(t.Context(), url, true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(m.records) != 0 || len(s.byKey) != 1 {
			t.Errorf("%s: %d records of feeds that the user left, and %d in all", name, len(m.records), len(s.byKey))
		}
	}
}

// A subscription that the user has ended can be made again as it was, as long as nothing else was asked for.
func TestASubscriptionIsMadeAgain(t *testing.T) {
	t.Parallel()
	const url = "https://example.org/feed"
	m := newMemory()
	s := loaded(t, m)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Resubscribe(t.Context(), url); !errors.Is(err, proxy.ErrNoSubscription) {
		t.Errorf("there was no subscription: %v", err)
	}
	must(s.SubscribeQuietly(t.Context(), url))
	must(s.Describe(t.Context(), url, proxy.Description{Title: "Mine", Site: "https://mine.example/", Tags: []string{"a", "b"}, Note: new("Ask Ann")}))
	must(s.edit(t.Context(), url, func(a *attributes) { a.RequiredProvenance = proxy.ProvenanceWitnessed }))
	before := attributesOf(m.feeds[url])
	must(s.Unsubscribe(t.Context(), url))
	must(s.Resubscribe(t.Context(), url))
	after := attributesOf(m.feeds[url])
	after.LastRead = before.LastRead
	if !reflect.DeepEqual(before, after) || len(m.records) != 0 {
		t.Errorf("%+v became %+v, and %d feeds count as left", before, after, len(m.records))
	}
	must(s.Unsubscribe(t.Context(), url))
	must(s.Subscribe(t.Context(), url, false)) // the user has asked for something else meanwhile
	must(s.Resubscribe(t.Context(), url))
	if a := attributesOf(m.feeds[url]); a.Title != "" || a.Quiet {
		t.Errorf("the later subscription became %+v", a)
	}
	must(s.Describe(t.Context(), url, proxy.Description{Title: "Mine"}))
	must(s.Unsubscribe(t.Context(), url))
	must(s.subscribeForContact(t.Context(), url)) // less than what the user had
	must(s.Resubscribe(t.Context(), url))
	if a := attributesOf(m.feeds[url]); a.Title != "Mine" || a.Messenger {
		t.Errorf("after a contact of the messenger asked for the feed, it became %+v", a)
	}
	must(s.Describe(t.Context(), url, proxy.Description{OwnTitle: true}))
	if a := attributesOf(m.feeds[url]); a.Title != "" {
		t.Errorf("the title is %q, not that of the feed", a.Title)
	}
	s = loaded(t, m) // a node that starts again remembers nothing
	must(s.Unsubscribe(t.Context(), url))
	s = loaded(t, m)
	if err := s.Resubscribe(t.Context(), url); !errors.Is(err, proxy.ErrNoSubscription) {
		t.Errorf("after a restart: %v", err)
	}
}

// A feed of a list is subscribed to and described in one write. What the user has said of an existing subscription stays, and one
// made by reading becomes one that was asked for.
func TestAListedFeedIsDescribedAtOnce(t *testing.T) {
	t.Parallel()
	const url = "https://example.org/feed"
	m := newMemory()
	s := loaded(t, m)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	shows := func(want attributes) {
		t.Helper()
		got := attributesOf(m.feeds[url])
		if got.LastRead == 0 {
			t.Error("it was never read")
		}
		if got.LastRead = 0; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, not %+v", got, want)
		}
	}
	must(s.Subscribe(t.Context(), url, true))
	must(s.SubscribeAs(t.Context(), url, proxy.Description{Title: "Mine", Tags: []string{"a"}}))
	shows(attributes{Title: "Mine", Tags: []string{"a"}})
	must(s.SubscribeAs(t.Context(), url, proxy.Description{Site: "https://mine.example/"}))
	shows(attributes{Title: "Mine", Site: "https://mine.example/", Tags: []string{"a"}})
	r := s.byKey[s.key(url)]
	version := r.version
	must(s.SubscribeAs(t.Context(), url, proxy.Description{Title: "Mine"}))
	if r.version != version || r.waiting != nil {
		t.Errorf("nothing new: version %d after %d, %d changes waiting", r.version, version, len(r.waiting))
	}
	must(s.Unsubscribe(t.Context(), url))
	must(s.SubscribeAs(t.Context(), url, proxy.Description{Note: new("again")}))
	shows(attributes{Note: "again"})
	must(s.Unsubscribe(t.Context(), url))
	must(s.SubscribeQuietly(t.Context(), url))
	must(s.SubscribeAs(t.Context(), url, proxy.Description{Title: "Mine"}))
	shows(attributes{Quiet: true, Title: "Mine"})
}

// The order of addresses, which a list keeps from one part to the next, is that of the subscriptions at any time.
func TestTheListKeepsItsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := newMemory()
		s := loaded(t, m)
		subscribed := map[string]bool{}
		for range rapid.IntRange(0, 40).Draw(rt, "changes") {
			url := fmt.Sprintf("https://example.org/%d", rapid.IntRange(0, 9).Draw(rt, "feed"))
			switch rapid.IntRange(0, 5).Draw(rt, "change") {
			case 2:
				s = loaded(t, m)
			case 0:
				if err := s.Unsubscribe(t.Context(), url); (err == nil) != subscribed[url] {
					rt.Fatal(err)
				}
				delete(subscribed, url)
			case 1:
				from := fmt.Sprintf("https://example.org/%d", rapid.IntRange(0, 9).Draw(rt, "from"))
				want := slices.DeleteFunc(slices.Sorted(maps.Keys(subscribed)), func(url string) bool { return url < from })
				limit := rapid.IntRange(1, 12).Draw(rt, "limit")
				var got []string
				for _, l := range s.listed(proxy.ListQuery{From: from, Limit: limit}) {
					got = append(got, l.url)
				}
				if !slices.Equal(got, want[:min(len(want), limit+1)]) {
					rt.Fatalf("%d from %s: %q of %q", limit, from, got, want)
				}
			default:
				if err := s.Subscribe(t.Context(), url, false); err != nil {
					rt.Fatal(err)
				}
				subscribed[url] = true
			}
		}
	})
}

// The feeds that the user unsubscribed from are bounded; the oldest one is forgotten.
func TestUnsubscribedFeedsAreBounded(t *testing.T) {
	t.Parallel()
	m := newMemory()
	for i := range maxUnsubscribed {
		m.records[string(unsubscribedKey(overlay.ID{byte(i >> 8), byte(i)}))] = binary.BigEndian.AppendUint64(nil, uint64(1000+i))
	}
	s := loaded(t, m)
	const url = "https://example.org/feed"
	if err := errors.Join(s.Subscribe(t.Context(), url, false), s.Unsubscribe(t.Context(), url)); err != nil {
		t.Fatal(err)
	}
	if err := s.Subscribe(t.Context(), url, true); !errors.Is(err, errUnsubscribed) {
		t.Error(err)
	}
	if len(m.records) != maxUnsubscribed || len(s.byKey) != maxUnsubscribed || s.byKey[overlay.ID{}] != nil {
		t.Errorf("%d records, %d in the store", len(s.byKey), len(m.records))
	}
}
