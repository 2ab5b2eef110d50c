package daemon

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"tidings/corona"
	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/proxy"
)

// privateFeeds keeps and polls the feeds that this node alone polls, because their addresses or headers are secret; see
// docs/decisions/018-private-feeds.md. The layers of the network never see such a feed. It is safe for concurrent use.
type privateFeeds struct {
	dir          string
	fetch        func(env.Handle, env.Request)
	shared       func(url string) bool // the node follows an address as a feed of the network
	marked       func(name string)     // called when the items of a feed may have changed, or it is gone
	log          *slog.Logger
	allowPrivate bool          // the node may poll origins on private addresses
	wake         chan struct{} // holds one token if a poll may be due earlier
	answer       sync.Mutex    // held while an answer is read and stored: one document at a time takes memory

	mu          sync.Mutex // guards the fields below; answer is taken before it
	rules       corona.Rules
	byName      map[string]*privateFeed
	ended       map[string]*privateFeed     // by name, those whose subscription the user has ended since the start, at most maxPrivateFeeds
	polled      map[env.Handle]*privateFeed // polls without an answer
	lastHandle  env.Handle
	lastVersion uint64
	limited     map[string]time.Time // domains that ask for fewer requests, until when
	damaged     []string             // files that were set aside at the start
}

const (
	// maxPrivateFeeds bounds the private feeds of a node, because each keeps its items in memory. Most people have
	// fewer than ten. Beyond it, subscribing fails.
	maxPrivateFeeds = 256
	// maxPrivateHeaders and maxPrivateHeaderBytes bound the headers of a private feed. Web servers refuse more than
	// 8 KiB.
	maxPrivateHeaders     = 16
	maxPrivateHeaderBytes = 8 << 10
)

// privateHandles marks the handles of private polls. The node counts its own from 1.
const privateHandles env.Handle = 1 << 63

// A privateFeed is a private feed. The fields of its file are in privateRecord.
type privateFeed struct {
	privateRecord
	contents    privateContents
	interval    time.Duration
	why         string     // the rule that set interval
	poll        env.Handle // of the poll in flight; 0: none
	asked       time.Time
	localOrigin bool // the origin has a private address
	trial       bool // subscribed to only if the first poll succeeds
	changing    bool // new headers are being tried; they are stored if the next poll succeeds
	unsaved     bool // the file lacks the outcome of the last poll
	version     uint64
	changed     chan struct{} // closed by the next answer
}

func newPrivateFeeds(dir string, fetch func(env.Handle, env.Request), allowPrivate bool, log *slog.Logger) *privateFeeds {
	return &privateFeeds{
		dir: dir, fetch: fetch, allowPrivate: allowPrivate, shared: func(string) bool { return false }, marked: func(string) {}, log: log, wake: make(chan struct{}, 1),
		byName: map[string]*privateFeed{}, ended: map[string]*privateFeed{}, polled: map[env.Handle]*privateFeed{}, limited: map[string]time.Time{},
	}
}

// isPrivateName reports whether the name of a private feed stands in place of an address.
func isPrivateName(url string) bool { return strings.HasPrefix(url, proxy.PrivateName) }

// FindPrivate returns the name of a private feed; see proxy.PrivateFeeds. The digits of a name may be left out if the
// host has one private feed.
func (p *privateFeeds) FindPrivate(address string) (name string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.find(address); f != nil && !f.trial {
		return f.Name, true
	}
	return "", false
}

// find returns a private feed. The caller holds the mutex.
func (p *privateFeeds) find(address string) *privateFeed {
	if isPrivateName(address) {
		if f := p.byName[address]; f != nil {
			return f
		}
		return p.only(func(f *privateFeed) bool { return strings.HasPrefix(f.Name, address+"/") })
	}
	if f := p.only(func(f *privateFeed) bool {
		return subtle.ConstantTimeCompare([]byte(proxy.PrivateReadPath(f.Token)), []byte(address)) == 1
	}); f != nil {
		return f
	}
	canonical, user, _, err := feed.SplitCredentials(address)
	if err != nil {
		return nil
	}
	if f := p.only(func(f *privateFeed) bool { return f.URL == canonical && f.User == user }); f != nil || user != "" {
		return f
	}
	return p.only(func(f *privateFeed) bool { return f.URL == canonical })
}

// only returns the one feed for which is is true; nil if there is none, or several. The caller holds the mutex.
func (p *privateFeeds) only(is func(*privateFeed) bool) (found *privateFeed) {
	for _, f := range p.byName {
		if !is(f) {
			continue
		}
		if found != nil {
			return nil
		}
		found = f
	}
	return found
}

// SubscribePrivately subscribes to a private feed; see proxy.PrivateFeeds.
func (p *privateFeeds) SubscribePrivately(ctx context.Context, q proxy.PrivateFeed) (done proxy.SubscribeMessage, err error) {
	headers, err := checkHeaders(q.Headers)
	if err != nil {
		return done, err
	}
	t, err := p.open(q.Address, headers, q.Later)
	if err != nil {
		return done, err
	}
	f := t.feed
	if t.answered != nil && !q.Later {
		p.signal()
		select {
		case <-t.answered:
		case <-ctx.Done():
		}
		done.Warning, err = p.verdict(t)
	}
	if err != nil {
		p.undo(t)
		return proxy.SubscribeMessage{}, err
	}
	p.mu.Lock()
	f.trial, f.changing = false, false
	p.marked(f.Name)
	f.describe(q.Description)
	done.URL, done.ReadURL, done.Already, done.Private = f.Name, proxy.PrivateReadPath(f.Token), !t.added, true
	p.mu.Unlock()
	if err := p.save(f); err != nil {
		p.undo(t)
		return proxy.SubscribeMessage{}, fmt.Errorf("subscribe to %s: %w", f.Name, err)
	}
	p.signal()
	return done, nil
}

// A trial is an attempt to subscribe, or to change the headers of a feed.
type trial struct {
	feed     *privateFeed
	added    bool            // there was no such feed
	replaced bool            // it has new headers
	before   privateRecord   // the feed with the old ones
	answered <-chan struct{} // closed by the answer to the poll that decides; nil: none is needed
}

// open returns the private feed with an address, a new one on trial if there is none, and sets its headers. If it is
// new, has new headers or fails, it is polled at once. A feed whose subscription is only to be kept keeps its headers:
// those of a list may be old.
func (p *privateFeeds) open(address string, headers map[string]string, keep bool) (t trial, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.find(address)
	if f != nil && (f.trial || f.changing) {
		return t, fmt.Errorf("subscribe to %s: %w: another request does so", f.Name, proxy.ErrBusy)
	}
	var canonical, user, password string
	if !isPrivateName(address) {
		if canonical, user, password, err = feed.SplitCredentials(address); err != nil {
			return t, kindError{proxy.ErrForbidden, err}
		}
	}
	var old map[string]string
	if f != nil {
		old = f.Headers
	}
	headers, err = mergeHeaders(old, headers, user, password)
	if err != nil {
		return t, err
	}
	switch {
	case f != nil:
		t.feed = f
		if !keep && !maps.Equal(headers, f.Headers) {
			t.replaced, t.before, f.Headers, f.changing = true, f.privateRecord, headers, true
			delete(p.polled, f.poll) // its answer would be about the old headers, and so is the state
			f.poll, f.NoAccess = 0, false
			f.State = corona.State{Kind: coronapb.State_NEW, Since: time.Now(), Polled: f.State.Polled}
		}
		if t.replaced || f.State.Kind != coronapb.State_OK && f.State.Kind != coronapb.State_LIMITED {
			t.answered = f.changed
			if f.poll == 0 {
				f.State.Next = time.Now()
			}
		}
		return t, nil
	case isPrivateName(address):
		return t, fmt.Errorf("%s: %w", address, proxy.ErrNoSubscription)
	case len(p.byName) >= maxPrivateFeeds:
		return t, kindError{proxy.ErrFull, errFullPrivate}
	case p.shared(canonical):
		return t, kindError{proxy.ErrForbidden, errors.New("the node follows this address as a shared feed already, so other nodes know it: unsubscribe from it first, and get a new token from the web server if the address has one")}
	}
	f = &privateFeed{trial: true, changed: make(chan struct{})}
	f.URL, f.User, f.Headers, f.Added = canonical, user, headers, time.Now()
	f.State = corona.State{Kind: coronapb.State_NEW, Since: f.Added, Next: f.Added}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	f.Token = proxy.NewPrivateToken(random)
	u, err := url.Parse(canonical)
	if err != nil {
		return t, kindError{proxy.ErrForbidden, errors.New("the address is not a URL")}
	}
	for f.Name == "" || p.isTaken(f.Name) {
		_, _ = rand.Read(random[:4])
		f.Name = proxy.PrivateName + u.Host + "/" + hex.EncodeToString(random[:4])
	}
	p.setInterval(f)
	p.touch(f)
	p.byName[f.Name] = f
	return trial{feed: f, added: true, answered: f.changed}, nil
}

// isTaken reports whether a feed would have the file of another one with that name. The caller holds the mutex.
func (p *privateFeeds) isTaken(name string) bool {
	for _, f := range p.byName {
		if p.path(f.Name) == p.path(name) {
			return true
		}
	}
	return false
}

// refusedHeaders are headers that the node sets itself, or that concern the connection.
var refusedHeaders = []string{"Host", "Connection", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade",
	"Accept-Encoding", "If-None-Match", "If-Modified-Since", "If-Range", "Range", "Proxy-Authorization", "Proxy-Connection", "Keep-Alive"}

// checkHeaders returns headers by their canonical names. Its errors do not repeat values.
func checkHeaders(headers map[string]string) (map[string]string, error) {
	checked, size := map[string]string{}, 0
	for name, value := range headers {
		canonical := canonicalHeader(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
			return nil, kindError{proxy.ErrQuery, fmt.Errorf("the header %.40q is not valid: write Name: value", name)}
		case slices.Contains(refusedHeaders, canonical):
			return nil, kindError{proxy.ErrQuery, fmt.Errorf("the header %s cannot be set, because the node sets it itself", canonical)}
		}
		if _, twice := checked[canonical]; twice {
			return nil, kindError{proxy.ErrQuery, fmt.Errorf("the header %s is given twice: give one value", canonical)}
		}
		checked[canonical] = value
		size += len(name) + len(value)
	}
	if len(checked) > maxPrivateHeaders || size > maxPrivateHeaderBytes {
		return nil, kindError{proxy.ErrQuery, fmt.Errorf("a private feed has at most %d headers with %d KiB together", maxPrivateHeaders, maxPrivateHeaderBytes>>10)}
	}
	return checked, nil
}

// mergeHeaders returns the headers of a feed after some of them were given anew. An empty one is removed.
func mergeHeaders(old, given map[string]string, user, password string) (map[string]string, error) {
	merged := map[string]string{}
	maps.Copy(merged, old)
	maps.Copy(merged, given)
	if user != "" || password != "" {
		merged["Authorization"] = "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	maps.DeleteFunc(merged, func(_, value string) bool { return value == "" })
	return checkHeaders(merged)
}

// describe adds what the user says.
func (f *privateFeed) describe(d proxy.Description) {
	if d.Tags != nil {
		f.Tags = d.Tags
	}
	if d.Title != "" || d.OwnTitle {
		f.Title = d.Title
	}
	if d.Site != "" {
		f.Site = d.Site
	}
	if d.Note != nil {
		f.Note = *d.Note
	}
}

// verdict returns why a feed cannot be read: an error if it is not to be subscribed to for that reason, or is to keep
// its old headers, else a warning.
func (p *privateFeeds) verdict(t trial) (warning string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := t.feed
	var kind error
	switch f.State.Kind {
	case coronapb.State_OK:
		return "", nil
	case coronapb.State_NEW:
		return strings.TrimSuffix("no answer yet: "+f.State.Why, ": "), nil
	case coronapb.State_NOT_A_FEED, coronapb.State_BROKEN, coronapb.State_TOO_LARGE:
		kind = proxy.ErrNotFeed
	case coronapb.State_MISSING:
		kind = proxy.ErrNotFound
	case coronapb.State_GONE:
		kind = proxy.ErrGone
	case coronapb.State_REFUSED:
		kind = proxy.ErrForbidden
	default:
		return f.State.Detail, nil
	}
	switch {
	case t.added:
		return "", kindError{kind, fmt.Errorf("%s: %s; not subscribed", f.host(), f.State.Detail)}
	case t.replaced:
		return "", kindError{kind, fmt.Errorf("%s: %s; nothing is changed", f.Name, f.State.Detail)}
	}
	return f.State.Detail, nil
}

// undo takes back an attempt to subscribe: a new feed is dropped, and a known one gets its old headers and its state with
// them.
func (p *privateFeeds) undo(t trial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case t.added:
		p.drop(t.feed)
	case t.replaced:
		f := t.feed
		delete(p.polled, f.poll)
		f.poll = 0
		f.Headers, f.State, f.Fails, f.NoAccess, f.changing = t.before.Headers, t.before.State, t.before.Fails, t.before.NoAccess, false
		p.signal()
	}
}

// drop forgets a feed. The caller holds the mutex.
func (p *privateFeeds) drop(f *privateFeed) {
	delete(p.byName, f.Name)
	delete(p.polled, f.poll)
	f.trial = true // no answer is stored any more
	p.wakeReaders(f)
}

// unsubscribe ends the subscription to a private feed and removes its file.
func (p *privateFeeds) unsubscribe(name string) error {
	p.answer.Lock() // no answer is being stored
	defer p.answer.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.byName[name]
	if f == nil {
		return fmt.Errorf("unsubscribe from %s: %w", name, proxy.ErrNoSubscription)
	}
	if err := p.remove(f); err != nil {
		return fmt.Errorf("unsubscribe from %s: %w", name, err)
	}
	p.drop(f)
	if len(p.ended) >= maxPrivateFeeds {
		clear(p.ended)
	}
	p.ended[name] = f
	p.marked(name)
	return nil
}

// resubscribe makes the subscription to a private feed again that the user has ended, with its headers and the address of
// its readers.
func (p *privateFeeds) resubscribe(name string) error {
	p.answer.Lock() // as in unsubscribe
	defer p.answer.Unlock()
	f, err := p.revive(name)
	if err == nil && f != nil {
		if err = p.store(f); err != nil {
			p.mu.Lock()
			p.drop(f)
			p.ended[name] = f
			p.mu.Unlock()
		}
	}
	if err != nil {
		return fmt.Errorf("subscribe again to %s: %w", name, err)
	}
	p.marked(name)
	p.signal()
	return nil
}

// revive takes a private feed back among the others; it returns nil if it is there.
func (p *privateFeeds) revive(name string) (*privateFeed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.ended[name]
	switch {
	case p.byName[name] != nil:
		return nil, nil
	case f == nil:
		return nil, fmt.Errorf("%w that this node remembers", proxy.ErrNoSubscription)
	case len(p.byName) >= maxPrivateFeeds:
		return nil, kindError{proxy.ErrFull, errFullPrivate}
	case p.shared(f.URL):
		return nil, kindError{proxy.ErrForbidden, errors.New("the node follows this address as a shared feed meanwhile")}
	}
	f.poll, f.trial = 0, false
	p.touch(f)
	p.byName[name] = f
	delete(p.ended, name)
	return f, nil
}

// errFullPrivate says that there is no room for another private feed.
var errFullPrivate = fmt.Errorf("a node has at most %d private feeds; unsubscribe from another one first", maxPrivateFeeds)

// describe stores the user's description of a private feed.
func (p *privateFeeds) describe(name string, d proxy.Description) error {
	p.mu.Lock()
	f := p.byName[name]
	if f != nil {
		f.describe(d)
	}
	p.mu.Unlock()
	if f == nil {
		return fmt.Errorf("%s: %w", name, proxy.ErrNoSubscription)
	}
	return p.save(f)
}

// touch gives a feed a new version. The caller holds the mutex.
func (p *privateFeeds) touch(f *privateFeed) {
	p.lastVersion++
	f.version = p.lastVersion
}

// wakeReaders wakes everybody who waits for an answer. The caller holds the mutex.
func (p *privateFeeds) wakeReaders(f *privateFeed) {
	close(f.changed)
	f.changed = make(chan struct{})
}
