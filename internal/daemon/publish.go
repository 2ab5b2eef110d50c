package daemon

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/proxy"
)

// An Author signs for a publisher. last and head are number and hash of the last publication of a
// feed that the network has.
type Author interface {
	// Write signs the next item and pushes it, and says its number; what was signed before it and
	// the network does not have goes first. An error of push ends it: beside a number, the item is
	// signed and kept, and goes out the next time.
	Write(url string, last uint64, head feed.Hash, it *feed.Item, now time.Time, push func(envelope []byte) error) (seq uint64, err error)
	// Alive pushes that nothing came after what was signed last; or that itself, if the network does
	// not have it.
	Alive(url string, last uint64, head feed.Hash, now time.Time, push func(envelope []byte) error) error
	// Feeds are those that something was signed for, and whether any of it was ever taken. What is
	// refused and follows on nothing that was taken is forgotten.
	Feeds() map[string]bool
	// Public is the key by which readers know the publisher.
	Public() ed25519.PublicKey
}

var _ proxy.Publishing = (*Daemon)(nil)

// Token has to be shown by who wants something written; see proxy.Publishing.
func (d *Daemon) Token() string { return d.home.token }

// Push brings an item into its feed; see proxy.Publishing. This node has to follow that: tentatively, until
// something is taken.
func (d *Daemon) Push(ctx context.Context, envelope []byte) (w proxy.Written, err error) {
	p, err := difference.OpenPublication(envelope)
	if err != nil {
		if _, lost := ask(ctx, d, func(answer func(error)) { d.node.Feeds.Publish(envelope, answer) }); lost != nil { // it is refused, and noted
			return w, lost
		}
		return w, fmt.Errorf("%w: %w", proxy.ErrItem, err)
	}
	return d.push(ctx, p, func() {})
}

// push brings a publication into its feed. It calls sent, on the loop, when that is on its way.
func (d *Daemon) push(ctx context.Context, p *difference.Publication, sent func()) (w proxy.Written, err error) {
	if spelled, err := feed.Canonical(p.URL); err != nil || spelled != p.URL {
		return w, fmt.Errorf("%w: %q is not the canonical address of a feed", proxy.ErrItem, p.URL)
	}
	if _, isPage := feed.DocumentURL(p.URL); isPage {
		return w, fmt.Errorf("%w: %s is a page, not a feed", proxy.ErrItem, p.URL)
	}
	if err := d.tentatively(ctx, p.URL); err != nil {
		return w, err
	}
	failed, err := ask(ctx, d, func(answer func(error)) {
		d.node.Feeds.Publish(p.Raw, answer)
		sent()
	})
	switch {
	case err != nil:
		return w, err
	case errors.Is(failed, feedtree.ErrRefused):
		d.endTentative(ctx, p.URL)
		return w, fmt.Errorf("%w: %w", proxy.ErrUnpublished, failed)
	case failed != nil:
		return w, fmt.Errorf("%w: %w", proxy.ErrUntaken, failed)
	}
	if err := d.Subscribe(ctx, p.URL, false); err != nil {
		d.log.Warn("subscription to a published feed is only tentative", "url", p.URL, "err", err)
	}
	return proxy.Written{URL: p.URL, Seq: p.Seq}, nil
}

// tentatively follows a feed, unless it is followed already.
func (d *Daemon) tentatively(ctx context.Context, url string) error {
	return d.subscribe(ctx, url, attributes{Tentative: true, Read: time.Now().Unix()})
}

// endTentative ends a subscription if it is tentative still, also when who asked is gone.
func (d *Daemon) endTentative(ctx context.Context, url string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), firstTime)
	defer cancel()
	if err := d.unsubscribe(ctx, url, func(a attributes) bool { return a.Tentative }); err != nil && !errors.Is(err, proxy.ErrUnknown) {
		d.log.Warn("subscription to an unpublished feed could not be ended", "url", url, "err", err)
	}
}

// knownWithin is how long it may take to learn what a network has of a feed that the node has just
// begun to follow, and that may be published by nobody yet.
const knownWithin = 5 * time.Second

// Publisher says what the network has of a feed's publisher, or the feed's document; see proxy.Publishing.
func (d *Daemon) Publisher(ctx context.Context, url string) (p proxy.Publisher, err error) {
	if p, err = d.prepare(ctx, url); err != nil || len(p.Key) == 0 {
		return p, err
	}
	vouched := feedtree.ByPublisher
	if len(p.Claimed) > 0 { // what this one has signed is not confirmed here yet
		vouched = feedtree.Unconfirmed
	}
	p.Items, err = ask(ctx, d, func(answer func([]string)) {
		d.node.Feeds.Read(d.key(url), func(doc feedtree.Document) {
			items := []string{}
			for _, e := range doc.Entries {
				if e.Provenance == vouched {
					items = append(items, e.Item.ID.String()+e.Item.Hash.String())
				}
			}
			answer(items)
		})
	})
	return p, err
}

// prepare follows a feed, and returns what an item of it is signed by: what Publisher returns, without the
// items, which would be read one by one. It follows the feed no longer if nobody is known to publish in it.
func (d *Daemon) prepare(ctx context.Context, url string) (p proxy.Publisher, err error) {
	defer func() {
		if err != nil || len(p.Key)+len(p.Named) == 0 {
			d.endTentative(ctx, url)
		}
	}()
	if err := d.tentatively(ctx, url); err != nil { // which may be done all the same, if who asked is gone
		return p, err
	}
	if p, err = d.publisher(ctx, url); err != nil || p.Seq > 0 || d.config.Author != nil && bytes.Equal(p.Key, d.config.Author.Public()) {
		return p, err
	}
	named, words, unseen, err := d.named(ctx, url)
	if err != nil || len(named) == 0 { // the network may have come to know it meanwhile
		if now, lost := ask(ctx, d, d.publisherNow(url)); lost == nil && len(now.Key) > 0 {
			p, err = now, nil
		}
	}
	p.Named, p.Unnamed, p.Unseen = named, words, unseen
	return p, err
}

// namedLife is for how long a document is believed that names no key: who has forgotten that pastes it, and
// tries again.
const namedLife = 10 * time.Second

// named is the key that a feed's document names at its origin. If there is none, words say why; unseen says
// that the document cannot be read now.
func (d *Daemon) named(ctx context.Context, url string) (key []byte, words string, unseen bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, firstTime)
	defer cancel()
	copied, err := d.borrow(ctx, url, namedLife)
	var said feed.Publisher
	ok := false
	if copied.feed != nil {
		said, ok = copied.feed.Head.Publisher()
	}
	switch {
	case errors.Is(err, proxy.ErrTimeout):
		return nil, "no publisher of " + url + " is known, and its document, which has to name the key, did not arrive in time", true, nil
	case err != nil:
		return nil, "", true, err
	case ok:
		return said.Key, "", false, nil
	case copied.feed == nil && copied.offer.Page:
		return nil, url + " is a page: give the address of a feed", false, nil
	case copied.feed == nil:
		words = fmt.Sprintf("the feed's document, which has to name the key, cannot be read: %v", d.trouble(url, copied.state.String(), copied.state.Detail))
		switch copied.state.Kind {
		case coronapb.State_UNREACHABLE, coronapb.State_FAILING, coronapb.State_LIMITED:
			unseen = true
		}
		return nil, words, unseen, nil
	}
	return nil, "the document of " + url + " names no key: " + proxy.Paste("FILE", url), false, nil
}

// publisher is what the network has. A feed that the node did not follow takes a while to be known.
func (d *Daemon) publisher(ctx context.Context, url string) (p proxy.Publisher, err error) {
	ctx, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	for {
		changed := d.shelf.changed(url)
		if p, err = ask(ctx, d, d.publisherNow(url)); err != nil {
			return p, timely(err)
		}
		if len(p.Key) > 0 {
			return p, nil
		}
		select {
		case <-changed:
			if _, ok := d.shelf.known(url); !ok {
				return p, nil // somebody has ended that meanwhile
			}
		case <-ctx.Done():
			return p, nil // nobody publishes it, as far as is known
		}
	}
}

// publisherNow asks the loop what it knows.
func (d *Daemon) publisherNow(url string) func(answer func(proxy.Publisher)) {
	return func(answer func(proxy.Publisher)) {
		d.node.Feeds.Head(d.key(url), func(doc feedtree.Document) { answer(d.publisherOf(url, doc)) })
	}
}

func (d *Daemon) publisherOf(url string, doc feedtree.Document) proxy.Publisher {
	p := proxy.Publisher{URL: url, Items: []string{}}
	if doc.Head != nil {
		p.Format = doc.Head.Format.String()
	}
	s, ok := d.node.Feeds.Subscription(d.key(url))
	if !ok || doc.Pin == nil || s.Publisher == nil {
		return p
	}
	p.Key, p.Seq = s.Publisher.Key, doc.Pin.Seq
	if next := s.Publisher.Next; next != (feed.Hash{}) {
		p.Next = next[:]
	}
	if s.Doubt != nil {
		p.Claimed = s.Doubt.Key
	}
	for _, t := range s.Publisher.Former {
		p.Former = append(p.Former, t.Key)
	}
	if p.Seq > 0 {
		p.Head = doc.Pin.Head[:]
	}
	return p
}

// formats are those of feeds, by their names.
var formats = map[string]feed.Format{"rss": feed.RSS, "rdf": feed.RDF, "atom": feed.Atom, "json": feed.JSON}

// Write signs an item and brings it into its feed; see proxy.Publishing.
func (d *Daemon) Write(ctx context.Context, url string, said feed.Meaning) (w proxy.Written, err error) {
	if d.config.Author == nil {
		return w, proxy.ErrNoKey
	}
	turn, err := d.writing.begin(ctx, url)
	if err != nil {
		return w, fmt.Errorf("%w: other items of %s are being published: %w", proxy.ErrUntaken, url, err)
	}
	defer turn.end()
	p, err := d.prepare(ctx, url)
	if err != nil {
		return w, err
	}
	format, ok := formats[p.Format]
	if !ok {
		format = feed.RSS
	}
	now := time.Now()
	it, err := feed.NewItem(format, said, now)
	if err == nil {
		err = difference.Publishable(url, &it)
	}
	switch {
	case errors.Is(err, feed.ErrLimit):
		return w, because{proxy.ErrLarge, difference.TooLarge(len(said.Summary) + len(said.Content))}
	case errors.Is(err, difference.ErrLarge):
		return w, because{proxy.ErrLarge, err}
	case err != nil:
		return w, because{proxy.ErrItem, err}
	}
	if err := d.known(&p); err != nil {
		d.endTentative(ctx, url)
		return w, err
	}
	var head feed.Hash
	copy(head[:], p.Head)
	seq, head := turn.after(p.Seq, head)
	w.URL = url
	var unpushed error
	w.Seq, err = d.config.Author.Write(url, seq, head, &it, now, func(envelope []byte) error {
		unpushed = d.pushOwn(ctx, url, envelope, turn, &it)
		return unpushed
	})
	switch {
	case err != nil && unpushed == nil:
		err = fmt.Errorf("%w: %w", proxy.ErrUnpublished, err)
	case err != nil && w.Seq > 0 && !errors.Is(unpushed, feedtree.ErrRefused):
		w.Pending = err.Error()
		return w, nil
	}
	return w, err
}

// A because is an error of a kind in the words of another one, which say enough.
type because struct{ kind, words error }

func (b because) Error() string   { return b.words.Error() }
func (b because) Unwrap() []error { return []error{b.kind, b.words} }

// known refuses to sign for a feed that has another key, or none.
func (d *Daemon) known(p *proxy.Publisher) error {
	why := p.Refuses(d.config.Author.Public(), d.config.Author.Feeds()[p.URL])
	switch {
	case why == "":
		return nil
	case p.Unseen:
		return fmt.Errorf("%w: %s", proxy.ErrUntaken, why)
	}
	return fmt.Errorf("%w: %s", proxy.ErrUnpublished, why)
}

// pushOwn pushes what the node's author has signed in a turn. When it has sent the item that the turn is
// for, the turn is the next one's; without such an item (nil) it is not. What fails is tried again soon, and not when the beat
// interval is over.
func (d *Daemon) pushOwn(ctx context.Context, url string, envelope []byte, of *turn, it *feed.Item) error {
	p, err := difference.OpenPublication(envelope)
	if err != nil {
		return fmt.Errorf("%w: %w", proxy.ErrItem, err)
	}
	last := p.Item != nil && it != nil && p.Item.ID == it.ID && p.Item.Hash == it.Hash
	_, err = d.push(ctx, p, func() {
		if last {
			of.sent(p)
		}
	})
	of.answered(p, err == nil)
	d.writing.speaks(url, err == nil)
	return err
}

// Require has a subscription show items only for which something vouches; see proxy.Publishing.
func (d *Daemon) Require(ctx context.Context, url, least string) error {
	if least == proxy.LeastAny {
		least = ""
	}
	err := d.change(ctx, url, func(a *attributes) { a.Least = least })
	d.keywords.recent.forget(url) // of which some may have been brought as whatever it was
	return err
}

// Describe adds to a subscription what its user says of it; see proxy.Subscriptions.
func (d *Daemon) Describe(ctx context.Context, url string, of proxy.Description) error {
	return d.change(ctx, url, func(a *attributes) {
		if of.Tags != nil {
			a.Tags = of.Tags
		}
		a.Title, a.Site = cmp.Or(of.Title, a.Title), cmp.Or(of.Site, a.Site)
	})
}

// change changes what is kept beside a subscription, and returns when that is durable.
func (d *Daemon) change(ctx context.Context, url string, edit func(*attributes)) error {
	failed, err := ask(ctx, d, func(answer func(error)) {
		key := d.key(url)
		a, ok := d.wanted(key)
		if !ok {
			answer(fmt.Errorf("%s: %w", url, proxy.ErrUnknown))
			return
		}
		edit(&a)
		done := d.wishes.wish(key, a, true)
		d.node.Feeds.Subscribe(url, 1, a.encode(), func(err error) {
			done()
			if err == nil {
				d.shelf.add(url, key, a)
			}
			answer(err)
		})
	})
	return cmp.Or(failed, err)
}

// Trust believes that a feed has another key; see proxy.Publishing.
func (d *Daemon) Trust(ctx context.Context, url string) error {
	failed, err := ask(ctx, d, func(answer func(error)) {
		key := d.key(url)
		if !d.node.Feeds.Trust(key) {
			err := fmt.Errorf("trust %s: %w", url, proxy.ErrUnknown)
			if _, ok := d.node.Feeds.Subscription(key); ok {
				err = because{proxy.ErrUnknown, fmt.Errorf("trust %s: its key has not changed, so there is nothing to accept", url)}
			}
			answer(err)
			return
		}
		s, _ := d.node.Feeds.Subscription(key)
		d.node.Feeds.Subscribe(s.URL, s.Weight, s.Attributes, answer) // which is when it is on the disk
	})
	if err = cmp.Or(err, failed); err != nil {
		return err
	}
	d.shelf.touch(d.key(url))
	return nil
}
