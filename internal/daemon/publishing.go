package daemon

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/proxy"
)

// A Signer signs items for a publisher. last and head are the number and the hash of the last publication of
// the feed that the network has.
type Signer interface {
	// SignAndPush signs an item, pushes it, and returns its number. Items that were signed before and that
	// the network lacks are pushed first. An error of push ends the call. If seq is not 0 then, the item is
	// signed and stored, and is pushed the next time.
	SignAndPush(url string, last uint64, head feed.Hash, it *feed.Item, now time.Time, push func(envelope []byte) error) (seq uint64, err error)
	// PushHeartbeat pushes the last signed item if the network lacks it, or else a signed statement that no
	// item followed it.
	PushHeartbeat(url string, last uint64, head feed.Hash, now time.Time, push func(envelope []byte) error) error
	// Feeds returns the feeds for which something was signed, and whether the network ever accepted any of
	// it. A feed that refuses its first item is forgotten.
	Feeds() map[string]bool
	// Public returns the key by which readers know the publisher.
	Public() ed25519.PublicKey
}

// publishing brings items into the feeds of publishers, and signs items for programs on this machine.
type publishing struct {
	*nodeLoop
	subscriptions *subscriptions
	reading       *reading
	signer        Signer // nil: the node cannot sign
	token         string // authorises programs to publish
	queues        publishQueues
	log           *slog.Logger
}

// Token returns the token that authorises programs to publish; see proxy.Publishing.
func (b *publishing) Token() string { return b.token }

// Push brings a signed item into its feed; see proxy.Publishing. The node has to follow the feed for that.
// The subscription is tentative until an item is accepted.
func (b *publishing) Push(ctx context.Context, envelope []byte) (w proxy.PublishResult, err error) {
	p, err := difference.OpenPublication(envelope)
	if err != nil {
		if _, lost := ask(ctx, b, func(answer func(error)) { b.node.Feeds.Publish(envelope, answer) }); lost != nil { // feedtree refuses it, and shows it in the status
			return w, lost
		}
		return w, fmt.Errorf("%w: %w", proxy.ErrInvalidItem, err)
	}
	return b.push(ctx, p, func() {})
}

// push brings a publication into its feed. It calls sent on the loop once the publication is on its way.
func (b *publishing) push(ctx context.Context, p *difference.Publication, sent func()) (w proxy.PublishResult, err error) {
	if spelled, err := feed.Canonical(p.URL); err != nil || spelled != p.URL {
		return w, fmt.Errorf("%w: %q is not the canonical address of a feed", proxy.ErrInvalidItem, p.URL)
	}
	if _, isPage := feed.DocumentURL(p.URL); isPage {
		return w, fmt.Errorf("%w: %s is a page, not a feed", proxy.ErrInvalidItem, p.URL)
	}
	if err := b.subscriptions.subscribeTentatively(ctx, p.URL); err != nil {
		return w, err
	}
	failed, err := ask(ctx, b, func(answer func(error)) {
		b.node.Feeds.Publish(p.Raw, answer)
		sent()
	})
	switch {
	case err != nil:
		return w, err
	case errors.Is(failed, feedtree.ErrRefused):
		b.endTentative(ctx, p.URL)
		return w, fmt.Errorf("%w: %w", proxy.ErrRejected, failed)
	case failed != nil:
		return w, fmt.Errorf("%w: %w", proxy.ErrPending, failed)
	}
	if err := b.subscriptions.Subscribe(ctx, p.URL, false); err != nil {
		b.log.Warn("subscription to a published feed is only tentative", "url", p.URL, "err", err)
	}
	return proxy.PublishResult{URL: p.URL, Seq: p.Seq}, nil
}

// endTentative ends a subscription if it is still tentative. It works even if the caller's ctx has ended.
func (b *publishing) endTentative(ctx context.Context, url string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), firstReadTimeout)
	defer cancel()
	err := b.subscriptions.unsubscribe(ctx, url, func(r *subscription) bool { return r.attributes.Tentative })
	if err != nil && !errors.Is(err, proxy.ErrNoSubscription) {
		b.log.Warn("subscription to an unpublished feed could not be ended", "url", url, "err", err)
	}
}

// publisherTimeout bounds the time for learning what the network has of a feed that the node has just begun
// to follow. The feed may have no publisher at all.
const publisherTimeout = 5 * time.Second

// Publisher returns what the network, or else the feed's document, says of the feed's publisher; see
// proxy.Publishing.
func (b *publishing) Publisher(ctx context.Context, url string) (p proxy.Publisher, err error) {
	if p, err = b.publisherForSigning(ctx, url); err != nil || len(p.Key) == 0 {
		return p, err
	}
	provenance := feedtree.ByPublisher
	if len(p.ClaimedKey) > 0 { // items of the claimed key are still unconfirmed here
		provenance = feedtree.Unconfirmed
	}
	p.Items, err = ask(ctx, b, func(answer func([]string)) {
		b.node.NodeOf(b.key(url)).Feeds.Read(b.key(url), func(doc feedtree.Document) {
			items := []string{}
			for _, e := range doc.Entries {
				if e.Provenance == provenance {
					items = append(items, e.Item.ID.String()+e.Item.Hash.String())
				}
			}
			answer(items)
		})
	})
	return p, err
}

// publisherForSigning follows a feed and returns what is needed to sign an item: the same as Publisher,
// without the items, which take long to read. If no publisher is known, the node stops following the feed.
func (b *publishing) publisherForSigning(ctx context.Context, url string) (p proxy.Publisher, err error) {
	defer func() {
		if err != nil || len(p.Key)+len(p.DocumentKey) == 0 {
			b.endTentative(ctx, url)
		}
	}()
	if err := b.subscriptions.subscribeTentatively(ctx, url); err != nil { // the subscription may still be made if ctx has ended
		return p, err
	}
	if p, err = b.awaitPublisher(ctx, url); err != nil || p.Seq > 0 || b.signer != nil && bytes.Equal(p.Key, b.signer.Public()) {
		return p, err
	}
	named, unnamed, unseen, err := b.keyAtOrigin(ctx, url)
	if err != nil || len(named) == 0 { // the network may have learned the key meanwhile
		if now, askErr := ask(ctx, b, b.queryPublisher(url)); askErr == nil && len(now.Key) > 0 {
			p, err = now, nil
		}
	}
	p.DocumentKey, p.NoDocumentKey, p.DocumentUnreachable = named, unnamed, unseen
	return p, err
}

// namedKeyMaxAge bounds the age of a copied document that names no key. It is short, because a publisher who
// forgot to paste the key does so now and tries again.
const namedKeyMaxAge = 10 * time.Second

// keyAtOrigin returns the key that a feed's document at the origin names. If there is none, why says the
// reason; unseen reports that the document cannot be read now.
func (b *publishing) keyAtOrigin(ctx context.Context, url string) (key []byte, why string, unseen bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, firstReadTimeout)
	defer cancel()
	copied, err := b.reading.fetchCopy(ctx, url, namedKeyMaxAge)
	var publisher feed.Publisher
	ok := false
	if copied.feed != nil {
		publisher, ok = copied.feed.Head.Publisher()
	}
	switch {
	case errors.Is(err, proxy.ErrTimeout):
		return nil, "no publisher of " + url + " is known, and its document, which has to name the key, did not arrive in time", true, nil
	case err != nil:
		return nil, "", true, err
	case ok:
		return publisher.Key, "", false, nil
	case copied.feed == nil && copied.offer.Page:
		return nil, url + " is a page: give the address of a feed", false, nil
	case copied.feed == nil:
		why = fmt.Sprintf("the feed's document, which has to name the key, cannot be read: %v", b.reading.trouble(url, copied.state.String(), copied.state.Detail))
		switch copied.state.Kind {
		case coronapb.State_UNREACHABLE, coronapb.State_FAILING, coronapb.State_LIMITED:
			unseen = true
		}
		return nil, why, unseen, nil
	}
	return nil, "the document of " + url + " names no key: " + proxy.PasteHint("FILE", url), false, nil
}

// awaitPublisher returns what the network says of a feed's publisher. For a feed that the node has just begun
// to follow, it waits until that is known.
func (b *publishing) awaitPublisher(ctx context.Context, url string) (p proxy.Publisher, err error) {
	ctx, cancel := context.WithTimeout(ctx, publisherTimeout)
	defer cancel()
	for {
		changed := b.subscriptions.changed(url)
		if p, err = ask(ctx, b, b.queryPublisher(url)); err != nil {
			return p, asTimeout(err)
		}
		if len(p.Key) > 0 {
			return p, nil
		}
		select {
		case <-changed:
			if _, ok := b.subscriptions.version(url); !ok {
				return p, nil // the subscription was ended meanwhile
			}
		case <-ctx.Done():
			return p, nil // no publisher is known
		}
	}
}

// queryPublisher returns a function for the loop, which answers with what is known of a feed's publisher.
func (b *publishing) queryPublisher(url string) func(answer func(proxy.Publisher)) {
	return func(answer func(proxy.Publisher)) {
		b.node.NodeOf(b.key(url)).Feeds.Head(b.key(url), func(doc feedtree.Document) { answer(b.publisherOf(url, doc)) })
	}
}

func (b *publishing) publisherOf(url string, doc feedtree.Document) proxy.Publisher {
	p := proxy.Publisher{URL: url, Items: []string{}}
	if doc.Head != nil {
		p.Format = doc.Head.Format.String()
	}
	s, ok := b.node.NodeOf(b.key(url)).Feeds.Subscription(b.key(url))
	if !ok || doc.Pin == nil || s.Publisher == nil {
		return p
	}
	p.Key, p.Seq = s.Publisher.Key, doc.Pin.Seq
	if next := s.Publisher.Next; next != (feed.Hash{}) {
		p.NextKeyHash = next[:]
	}
	if s.Doubt != nil {
		p.ClaimedKey = s.Doubt.Key
	}
	for _, former := range s.Publisher.Former {
		p.FormerKeys = append(p.FormerKeys, former.Key)
	}
	if p.Seq > 0 {
		p.Head = doc.Pin.Head[:]
	}
	return p
}

// Write signs an item and brings it into its feed; see proxy.Publishing.
func (b *publishing) Write(ctx context.Context, url string, meaning feed.Meaning) (w proxy.PublishResult, err error) {
	if b.signer == nil {
		return w, proxy.ErrNoKey
	}
	turn, err := b.queues.begin(ctx, url)
	if err != nil {
		return w, fmt.Errorf("%w: other items of %s are being published: %w", proxy.ErrPending, url, err)
	}
	defer turn.end()
	p, err := b.publisherForSigning(ctx, url)
	if err != nil {
		return w, err
	}
	now := time.Now()
	it, err := feed.NewItem(cmp.Or(feed.FormatOf(p.Format), feed.RSS), meaning, now)
	if err == nil {
		err = difference.Publishable(url, &it)
	}
	switch {
	case errors.Is(err, feed.ErrLimit):
		return w, kindError{proxy.ErrTooLarge, difference.TooLarge(len(meaning.Summary) + len(meaning.Content))}
	case errors.Is(err, difference.ErrLarge):
		return w, kindError{proxy.ErrTooLarge, err}
	case err != nil:
		return w, kindError{proxy.ErrInvalidItem, err}
	}
	if err := b.checkKey(&p); err != nil {
		b.endTentative(ctx, url)
		return w, err
	}
	var head feed.Hash
	copy(head[:], p.Head)
	seq, head := turn.predecessor(p.Seq, head)
	w.URL = url
	var pushErr error
	w.Seq, err = b.signer.SignAndPush(url, seq, head, &it, now, func(envelope []byte) error {
		pushErr = b.pushSigned(ctx, url, envelope, turn, &it)
		return pushErr
	})
	switch {
	case err != nil && pushErr == nil:
		err = fmt.Errorf("%w: %w", proxy.ErrRejected, err)
	case err != nil && w.Seq > 0 && !errors.Is(pushErr, feedtree.ErrRefused):
		w.Pending = err.Error()
		return w, nil
	}
	return w, err
}

// checkKey returns an error if the feed has another key than the node's signer, or none.
func (b *publishing) checkKey(p *proxy.Publisher) error {
	why := p.RejectReason(b.signer.Public(), b.signer.Feeds()[p.URL])
	switch {
	case why == "":
		return nil
	case p.DocumentUnreachable:
		return fmt.Errorf("%w: %s", proxy.ErrPending, why)
	}
	return fmt.Errorf("%w: %s", proxy.ErrRejected, why)
}

// pushSigned pushes a publication of the node's signer. it is the item that the turn is for, nil for a
// heartbeat. Once that item is on its way, the turn passes to the next request. After a failure the next
// heartbeat is tried soon.
func (b *publishing) pushSigned(ctx context.Context, url string, envelope []byte, turn *turn, it *feed.Item) error {
	p, err := difference.OpenPublication(envelope)
	if err != nil {
		return fmt.Errorf("%w: %w", proxy.ErrInvalidItem, err)
	}
	last := p.Item != nil && it != nil && p.Item.ID == it.ID && p.Item.Hash == it.Hash
	_, err = b.push(ctx, p, func() {
		if last {
			turn.sent(p)
		}
	})
	turn.answered(p, err == nil)
	b.queues.notePush(url, err == nil)
	return err
}
