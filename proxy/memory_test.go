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

// memory is a node that fetches nothing and forgets all: it has the documents it
// was given, and keeps subscriptions to them.
type memory struct {
	mu         sync.Mutex
	now        func() time.Time
	sources    map[string]source
	subscribed map[string]bool // by address; true: made by reading
	reads      int
	version    uint64
	provenance string // of the items that publish brings
	room       int
	status     Status
	findings   []Finding
	channels   map[string]Channel // what List says besides
	network    Network
	looks      map[string]Look
	unseen     map[string]error // by Look
}

// source is what an origin has, or why it has nothing.
type source struct {
	window Window
	err    error
}

func newMemory(now func() time.Time) *memory {
	return &memory{
		now: now, sources: map[string]source{}, subscribed: map[string]bool{}, channels: map[string]Channel{}, looks: map[string]Look{}, unseen: map[string]error{}, room: 1000,
		status: Status{ID: "a1", PeerID: "12D3", Network: "test", State: "ok", Scheme: "bound"},
	}
}

// publish makes url serve a document.
func (m *memory) publish(t testing.TB, url, doc string) {
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

// fail makes url fail, and forgets its copy.
func (m *memory) fail(url string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	m.sources[url] = source{err: err}
}

// age makes the copy of url a stale one.
func (m *memory) age(url, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sources[url]
	m.version++
	s.window.Version, s.window.Stale, s.window.State = m.version, why, "unreachable"
	m.sources[url] = s
}

func (m *memory) Version(url string) (uint64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.subscribed[url]
	return m.sources[url].window.Version, ok
}

func (m *memory) Read(ctx context.Context, url string) (Window, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	s, ok := m.sources[url]
	if !ok {
		return Window{}, fmt.Errorf("read %s: %w", url, ErrNotFound)
	}
	return s.window, s.err
}

func (m *memory) Subscribe(ctx context.Context, url string, auto bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, ok := m.subscribed[url]
	if !ok && len(m.subscribed) >= m.room {
		return fmt.Errorf("subscribe to %s: %w", url, ErrFull)
	}
	m.subscribed[url] = auto && (was || !ok)
	return nil
}

func (m *memory) Unsubscribe(ctx context.Context, url string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.subscribed[url]; !ok {
		return fmt.Errorf("unsubscribe from %s: %w", url, ErrUnknown)
	}
	delete(m.subscribed, url)
	return nil
}

func (m *memory) Describe(ctx context.Context, url string, d Description) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.subscribed[url]; !ok {
		return fmt.Errorf("describe %s: %w", url, ErrUnknown)
	}
	c := m.channels[url]
	if d.Tags != nil {
		c.Tags = d.Tags
	}
	c.Title, c.Site = cmp.Or(d.Title, c.Title), cmp.Or(d.Site, c.Site)
	m.channels[url] = c
	return nil
}

func (m *memory) List(ctx context.Context) ([]Channel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Channel
	for url, auto := range m.subscribed {
		s := m.sources[url]
		c := m.channels[url]
		c.URL, c.Kind, c.Auto, c.Subscribers = url, KindOf(url), auto, max(1, c.Subscribers)
		c.Title, c.Items = cmp.Or(s.window.Document.Head.Title, c.Title), len(s.window.Document.Entries)
		if c.State == "" {
			c.State = s.window.State
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Channel) int { return strings.Compare(a.URL, b.URL) })
	return list, nil
}

func (m *memory) Status(ctx context.Context) (Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.status
	s.Subscriptions = len(m.subscribed)
	return s, nil
}

func (m *memory) Network(context.Context) (Network, error) { return m.network, nil }

func (m *memory) Look(ctx context.Context, url string) (Look, error) {
	return m.looks[url], m.unseen[url]
}

func (m *memory) Doctor(ctx context.Context) ([]Finding, error) { return m.findings, nil }

// subscriptions are the addresses subscribed to, and how.
func (m *memory) subscriptions() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]bool{}
	for url, auto := range m.subscribed {
		out[url] = auto
	}
	return out
}
