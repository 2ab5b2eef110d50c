package daemon

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"tidings/corona/coronapb"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/proxy"
)

// version returns the version of a feed; see proxy.Subscriptions.
func (p *privateFeeds) version(name string) (version uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.byName[name]
	if f == nil || f.trial {
		return 0, false
	}
	return minuteVersion(f.version, time.Now()), true
}

// names returns the names of all private feeds.
func (p *privateFeeds) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.byName))
}

// peek returns what readers of a private feed see now; ok is false if there is no such feed.
func (p *privateFeeds) peek(name string) (w proxy.Window, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.byName[name]
	if f == nil || f.trial {
		return w, false
	}
	return f.window(time.Now()), true
}

// read returns the window of a private feed. If nothing was read yet, it waits for the first answer.
func (p *privateFeeds) read(ctx context.Context, name string) (proxy.Window, error) {
	ctx, cancel := context.WithTimeout(ctx, firstReadTimeout)
	defer cancel()
	for {
		p.mu.Lock()
		f := p.byName[name]
		if f == nil {
			p.mu.Unlock()
			return proxy.Window{}, fmt.Errorf("read %s: %w", name, proxy.ErrNoSubscription)
		}
		w, changed := f.window(time.Now()), f.changed
		p.mu.Unlock()
		switch {
		case w.Document.Head.Raw != nil:
			return w, nil
		case w.State != proxy.StateNew && w.State != proxy.StateOK:
			return w, &proxy.ReadError{URL: name, Kind: proxy.ErrUnreachable, Reason: w.StateDetail}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return w, &proxy.ReadError{URL: name, Kind: proxy.ErrTimeout, Reason: "the node has not read it yet: try again in a minute"}
		}
	}
}

// window returns what readers see. The caller holds the mutex.
func (f *privateFeed) window(now time.Time) proxy.Window {
	w := proxy.Window{Version: minuteVersion(f.version, now), Fetched: f.State.Polled, State: f.stateName(), StateDetail: f.State.Detail}
	if f.contents.head != nil {
		w.Document = feed.Document{Base: f.base(), Head: *f.contents.head, Entries: slices.Clone(f.contents.entries)}
	}
	if f.State.Kind != coronapb.State_OK && f.State.Kind != coronapb.State_NEW {
		w.Stale, w.Fetched = f.State.Detail, f.State.Since
	}
	return w
}

// base returns the address to which relative addresses of the feed refer. Its last part and its query may be secret, and
// do not matter for them.
func (f *privateFeed) base() string {
	address, _, _ := strings.Cut(cmp.Or(f.ValidatedURL, f.URL), "?")
	return address[:strings.LastIndexByte(address, '/')+1]
}

// stateNoAccess is the state of a private feed whose password or token the origin does not accept.
const stateNoAccess = "no access"

func (f *privateFeed) stateName() string {
	if f.NoAccess {
		return stateNoAccess
	}
	return f.State.String()
}

// list returns the private feeds as lists show them.
func (p *privateFeeds) list() (channels []proxy.Channel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.byName {
		if f.trial {
			continue
		}
		c := proxy.Channel{
			URL: f.Name, Title: f.Title, Site: f.Site, Kind: proxy.KindFeed, Private: true, ReadURL: proxy.PrivateReadPath(f.Token),
			Subscribers: 1, Pollers: 1, Polls: true, LastPoll: proxy.OptionalTime(f.State.Polled), NextPoll: proxy.OptionalTime(f.State.Next),
			Why: f.State.Why, State: f.stateName(), Error: f.State.Detail, Since: proxy.OptionalTime(f.State.Since),
			Items: len(f.contents.entries), Newest: proxy.OptionalTime(f.contents.newest()), Tags: f.Tags, Note: f.Note, Added: proxy.OptionalTime(f.Added),
		}
		if h := f.contents.head; h != nil {
			c.Title, c.Site = cmp.Or(f.Title, f.hide(feed.PlainTitle(h.Title))), cmp.Or(f.Site, f.hide(feed.AbsoluteLink(f.base(), h.Link)))
			c.Provenance = feedtree.Single
		}
		if c.Failing() {
			c.Do = f.remedy()
		}
		channels = append(channels, c)
	}
	return channels
}

// remedy says what a person can do about a failure.
func (f *privateFeed) remedy() string {
	switch {
	case f.NoAccess && f.User != "":
		return "subscribe again with the right password, and your reader keeps its address: tidings subscribe https://USER:PASSWORD@" + f.host() + "/…"
	case f.NoAccess && len(f.Headers) > 0:
		return "subscribe again with the right headers, and your reader keeps its address: tidings subscribe --header-file FILE " + proxy.ShellWord(f.Name)
	case f.NoAccess:
		return "get a new address from the web server, and run: tidings subscribe --private ADDRESS; tidings unsubscribe " + proxy.ShellWord(f.Name)
	case f.State.Kind == coronapb.State_GONE:
		return "tidings unsubscribe " + proxy.ShellWord(f.Name)
	}
	return ""
}

func (f *privateFeed) host() string {
	host, _, _ := strings.Cut(strings.TrimPrefix(f.Name, proxy.PrivateName), "/")
	return host
}

// minSecret is the size in bytes from which a password, or a value in a query, is removed from texts that may
// contain words of the origin, and minSecretPath that of a part of a path. Shorter ones occur in any text.
const minSecret, minSecretPath = 4, 16

// withoutPaths cuts the addresses in a text behind their hosts. An origin may have been asked for them, or may have named
// them, and any part of them may be secret.
func withoutPaths(text string) string {
	return address.ReplaceAllStringFunc(text, func(found string) string {
		whole := strings.TrimRight(found, addressEnd)
		u, err := url.Parse(whole)
		switch {
		case err != nil || u.Host == "":
			return "…"
		case u.RequestURI() == "/" && u.Fragment == "":
			return u.Scheme + "://" + u.Host + found[len(whole):]
		}
		return u.Scheme + "://" + u.Host + "/…" + found[len(whole):]
	})
}

// hide removes the secret parts of a feed from a text that may contain words of the origin.
func (f *privateFeed) hide(text string) string {
	var secrets []string
	add := func(parts ...string) {
		for _, s := range parts {
			if len(s) >= minSecret {
				secrets = append(secrets, s)
			}
		}
	}
	if u, err := url.Parse(f.URL); err == nil {
		if u.RequestURI() != "/" {
			add(strings.TrimPrefix(f.URL, u.Scheme+"://")) // another scheme does not make it another secret
		}
		add(u.RawQuery)
		for pair := range strings.SplitSeq(u.RawQuery, "&") {
			key, value, _ := strings.Cut(pair, "=")
			value = cmp.Or(value, key)
			plain, _ := url.QueryUnescape(value) // empty if it is not valid
			add(value, plain)
		}
		for part := range strings.SplitSeq(u.EscapedPath(), "/") {
			if len(part) >= minSecretPath {
				add(part)
			}
		}
	}
	for _, value := range f.Headers {
		_, word, _ := strings.Cut(value, " ")
		add(value, word)
		if plain, err := base64.StdEncoding.DecodeString(word); err == nil {
			user, password, _ := strings.Cut(string(plain), ":")
			add(user+":"+password, password)
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "…")
	}
	return text
}
