package proxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/internal/feed"
)

// memoryNode is a node that fetches nothing and stores nothing: it has the documents it was given, and
// subscriptions to them.
type memoryNode struct {
	mu            sync.Mutex
	now           func() time.Time
	sources       map[string]source
	subscribed    map[string]bool // by address; true if made by reading
	ended         map[string]bool // those that have ended
	quiet         []string        // those of them that members stand between
	reads         int
	inspected     int // calls of Inspect
	requests      int // of these calls
	version       uint64
	provenance    string // of the items that publish adds
	room          int
	status        Status
	findings      []Finding
	channels      map[string]Channel // additional fields for List
	network       Network
	pollers       Pollers
	polledSoon    []string // arguments of PollSoon
	trees         map[string]Tree
	inspections   map[string]Inspection
	inspectErrors map[string]error // returned by Inspect

	unsubscribeErrors map[string]error // returned by Unsubscribe
}

// A source is the document of an origin, or the error of fetching it.
type source struct {
	window Window
	err    error
}

func newMemoryNode(now func() time.Time) *memoryNode {
	return &memoryNode{
		now: now, sources: map[string]source{}, subscribed: map[string]bool{}, ended: map[string]bool{}, channels: map[string]Channel{}, inspections: map[string]Inspection{}, inspectErrors: map[string]error{}, room: 1000,
		status: Status{ID: "a1", PeerID: "12D3", Network: "test", State: "ok", Scheme: "bound"},
	}
}

// publish makes url serve a document.
func (m *memoryNode) publish(t testing.TB, url, doc string) {
	t.Helper()
	f, err := feed.Parse([]byte(doc), "")
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d := feed.Document{Base: url, Head: f.Head}
	for _, it := range f.Items {
		d.Entries = append(d.Entries, feed.Entry{Item: it, Arrived: m.now(), Provenance: m.provenance})
	}
	m.version++
	m.sources[url] = source{window: Window{Document: d, Version: m.version, Fetched: m.now(), State: StateOK}}
}

// fail makes url fail, and removes its copy.
func (m *memoryNode) fail(url string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	m.sources[url] = source{err: err}
}

// makeStale marks the copy of url as stale.
func (m *memoryNode) makeStale(url, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sources[url]
	m.version++
	s.window.Version, s.window.Stale, s.window.State = m.version, why, "unreachable"
	m.sources[url] = s
}

func (m *memoryNode) Version(url string) (uint64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.subscribed[url]
	return m.sources[url].window.Version, ok
}

func (m *memoryNode) Read(ctx context.Context, url string) (Window, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	s, ok := m.sources[url]
	if !ok {
		return Window{}, fmt.Errorf("read %s: %w", url, ErrNotFound)
	}
	return s.window, s.err
}

func (m *memoryNode) Subscribe(ctx context.Context, url string, auto bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, ok := m.subscribed[url]
	if !ok && len(m.subscribed) >= m.room {
		return fmt.Errorf("subscribe to %s: %w", url, ErrFull)
	}
	m.subscribed[url] = auto && (was || !ok)
	return nil
}

func (m *memoryNode) SubscribeAs(ctx context.Context, url string, d Description) error {
	if err := m.Subscribe(ctx, url, false); err != nil {
		return err
	}
	return m.Describe(ctx, url, d)
}

func (m *memoryNode) SubscribeQuietly(ctx context.Context, url string) error {
	if _, known := m.Version(url); known {
		return ErrKnown
	}
	m.mu.Lock()
	m.quiet = append(m.quiet, url)
	m.mu.Unlock()
	return m.Subscribe(ctx, url, false)
}

func (m *memoryNode) Unsubscribe(ctx context.Context, url string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.subscribed[url]; !ok {
		return fmt.Errorf("unsubscribe from %s: %w", url, ErrNoSubscription)
	}
	if err := m.unsubscribeErrors[url]; err != nil {
		return err
	}
	m.ended[url] = m.subscribed[url]
	delete(m.subscribed, url)
	return nil
}

func (m *memoryNode) Resubscribe(ctx context.Context, url string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	auto, ok := m.ended[url]
	if !ok {
		return fmt.Errorf("subscribe again to %s: %w", url, ErrNoSubscription)
	}
	m.subscribed[url] = auto
	delete(m.ended, url)
	return nil
}

func (m *memoryNode) Describe(ctx context.Context, url string, d Description) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.subscribed[url]; !ok {
		return fmt.Errorf("describe %s: %w", url, ErrNoSubscription)
	}
	c := m.channels[url]
	if d.Tags != nil {
		c.Tags = d.Tags
	}
	if c.Title, c.Site = cmp.Or(d.Title, c.Title), cmp.Or(d.Site, c.Site); d.OwnTitle {
		c.Title = d.Title
	}
	if d.Note != nil {
		c.Note = *d.Note
	}
	m.channels[url] = c
	return nil
}

func (m *memoryNode) List(ctx context.Context) ([]Channel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Channel
	for url, auto := range m.subscribed {
		s := m.sources[url]
		c := m.channels[url]
		c.URL, c.Kind, c.Auto, c.Subscribers = url, KindOf(url), auto, max(1, c.Subscribers)
		c.Title, c.Items = cmp.Or(c.Title, s.window.Document.Head.Title), len(s.window.Document.Entries)
		if c.State == "" {
			c.State = s.window.State
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Channel) int { return strings.Compare(a.URL, b.URL) })
	return list, nil
}

func (m *memoryNode) Each(ctx context.Context, see func(*Channel)) error {
	list, err := m.List(ctx)
	for i := range list {
		see(&list[i])
	}
	return err
}

func (m *memoryNode) ListPart(ctx context.Context, q ListQuery) (ListPart, error) {
	list, err := m.List(ctx)
	return partOf(list, q), err
}

func (m *memoryNode) CountShared(ctx context.Context) (n int, err error) {
	list, err := m.List(ctx)
	for _, c := range list {
		if !c.Private {
			n++
		}
	}
	return n, err
}

// partOf returns a part of a list that is in the order of addresses.
func partOf(list []Channel, q ListQuery) (p ListPart) {
	for _, c := range list {
		switch {
		case !q.Covers(c.URL) || !containsWords([]string{strings.ToLower(q.Filter)}, c.Title, c.URL, "", "", "", c.Tags):
		case len(p.Channels) == q.Limit:
			p.Next = c.URL
			return p
		default:
			p.Channels = append(p.Channels, c)
		}
	}
	return p
}

func (m *memoryNode) Status(ctx context.Context) (Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.status
	s.Subscriptions = len(m.subscribed)
	return s, nil
}

func (m *memoryNode) Network(context.Context) (Network, error) { return m.network, nil }

func (m *memoryNode) Pollers(context.Context, string) (Pollers, error) { return m.pollers, nil }

func (m *memoryNode) PollSoon(_ context.Context, url string) error {
	if _, known := m.Version(url); !known {
		return ErrNoSubscription
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.polledSoon = append(m.polledSoon, url)
	return nil
}
func (m *memoryNode) Tree(_ context.Context, url string) (Tree, error) { return m.trees[url], nil }

func (m *memoryNode) Inspect(ctx context.Context, url string) (Inspection, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inspected++
	m.requests += m.inspections[url].requests()
	return m.inspections[url], m.inspectErrors[url]
}

func (m *memoryNode) Doctor(ctx context.Context, see func(*Channel)) ([]Finding, error) {
	if see == nil {
		return m.findings, nil
	}
	return m.findings, m.Each(ctx, see)
}

// subscriptions returns the subscribed addresses, and whether each was made by reading.
func (m *memoryNode) subscriptions() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]bool{}
	for url, auto := range m.subscribed {
		out[url] = auto
	}
	return out
}

// memoryNews is a journal without events.
type memoryNews struct {
	items  int // returned by NewItems
	next   chan struct{}
	found  []NewItem
	health []HealthChange
}

func (n memoryNews) EachNewItem(_ string, since time.Time, each func(NewItem)) {
	for _, f := range n.found {
		if !f.At.Before(since) {
			each(f)
		}
	}
}
func (n memoryNews) HealthOf(string, int) ([]HealthChange, error) { return n.health, nil }

func (memoryNews) After(uint64, int) ([]Event, bool, error) { return nil, false, nil }
func (memoryNews) Last() uint64                             { return 0 }
func (n memoryNews) NewItems(time.Time) int                 { return n.items }
func (n memoryNews) Changed() <-chan struct{}               { return n.next }
