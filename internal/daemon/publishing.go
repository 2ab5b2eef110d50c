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
	// SignAndPush signs items, pushes them together, and returns the number of each, or an error. push returns an error
	// for each. Items that were signed before and that the network lacks are pushed first. An item that has a number and
	// an error is signed and stored, and is pushed the next time.
	SignAndPush(url string, last uint64, head feed.Hash, items []*feed.Item, now time.Time, push func([]*difference.Publication) []error) (seqs []uint64, errs []error)
	// PushHeartbeat pushes the last signed item if the network lacks it, or else a signed statement that no
	// item followed it.
	PushHeartbeat(url string, last uint64, head feed.Hash, now time.Time, push func(*difference.Publication) error) error
	// Feeds returns the feeds for which something was signed, and whether the network ever accepted any of
	// it. A feed that refuses its first item is forgotten.
	Feeds() map[string]bool
	// Signed reports the same of one feed.
	Signed(url string) (signed, accepted bool)
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
	if err := b.push(ctx, []*difference.Publication{p}, func() {})[0]; err != nil {
		return w, err
	}
	return proxy.PublishResult{URL: p.URL, Seq: p.Seq}, nil
}

// push brings publications into their feed, and returns an error for each that is not accepted. It calls sent on the loop
// once they are on their way.
func (b *publishing) push(ctx context.Context, all []*difference.Publication, sent func()) []error {
	errs, url := make([]error, len(all)), all[0].URL
	fail := func(err error) []error {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	if spelled, err := feed.Canonical(url); err != nil || spelled != url {
		return fail(fmt.Errorf("%w: %q is not the canonical address of a feed", proxy.ErrInvalidItem, url))
	}
	if _, isPage := feed.DocumentURL(url); isPage {
		return fail(fmt.Errorf("%w: %s is a page, not a feed", proxy.ErrInvalidItem, url))
	}
	if err := b.subscriptions.subscribeTentatively(ctx, url); err != nil {
		return fail(err)
	}
	results, err := ask(ctx, b, func(answer func([]error)) {
		b.node.Feeds.PublishAll(all, answer)
		sent()
	})
	if err != nil {
		return fail(err)
	}
	accepted := false
	for i, failed := range results {
		switch {
		case failed == nil:
			accepted = true
		case errors.Is(failed, feedtree.ErrRefused):
			errs[i] = fmt.Errorf("%w: %w", proxy.ErrRejected, failed)
		default:
			errs[i] = fmt.Errorf("%w: %w", proxy.ErrPending, failed)
		}
	}
	if accepted {
		if err := b.subscriptions.Subscribe(ctx, url, false); err != nil {
			b.log.Warn("subscription to a published feed is only tentative", "url", url, "err", err)
		}
	} else if errors.Is(results[0], feedtree.ErrRefused) {
		b.endTentative(ctx, url)
	}
	return errs
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

// publisherTimeout bounds how long a request waits until this node has learned the publisher of a feed that it has just begun
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
	case errors.Is(err, proxy.ErrTimeout), errors.Is(err, proxy.ErrBusy):
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
// to follow, it waits until that is known. How long a busy node takes to answer is up to ctx.
func (b *publishing) awaitPublisher(ctx context.Context, url string) (p proxy.Publisher, err error) {
	patience, cancel := context.WithTimeout(ctx, publisherTimeout)
	defer cancel()
	for {
		changed := b.subscriptions.changed(url)
		if p, err = ask(ctx, b, b.queryPublisher(url)); err != nil {
			return p, asBusy(err)
		}
		if len(p.Key) > 0 {
			return p, nil
		}
		select {
		case <-changed:
			if _, ok := b.subscriptions.version(url); !ok {
				return p, nil // the subscription was ended meanwhile
			}
		case <-patience.Done():
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

// Write signs an item and brings it into its feed; see proxy.Publishing. Items of one feed that come at the same time share
// a turn.
func (b *publishing) Write(ctx context.Context, url string, meaning feed.Meaning) (w proxy.PublishResult, err error) {
	if b.signer == nil {
		return w, proxy.ErrNoKey
	}
	d := &draft{meaning, make(chan draftAnswer, 1)}
	turn, err := b.queues.begin(ctx, url, d)
	if err != nil {
		return w, fmt.Errorf("%w: other items of %s are being published: %w", proxy.ErrPending, url, err)
	}
	switch {
	case turn == nil: // another request answers
	case len(turn.drafts) == 1:
		b.writeAll(ctx, turn)
	default:
		b.writeAll(context.WithoutCancel(ctx), turn) // others rely on it
	}
	if turn != nil {
		a := <-d.answer
		return a.result, a.err
	}
	select {
	case a := <-d.answer:
		return a.result, a.err
	case <-ctx.Done():
		return w, fmt.Errorf("%w: the item of %s is being published: %w", proxy.ErrPending, url, asBusy(ctx.Err()))
	}
}

// writeAll signs the items of a turn, brings them into their feed, and answers those who sent them.
func (b *publishing) writeAll(ctx context.Context, t *turn) {
	defer t.end()
	answer := func(d *draft, seq uint64, err error) {
		a := draftAnswer{proxy.PublishResult{URL: t.url, Seq: seq}, err}
		if seq > 0 && err != nil && !errors.Is(err, feedtree.ErrRefused) { // it is in the record, and is sent again
			a.result.Pending, a.err = err.Error(), nil
		}
		d.answer <- a
	}
	p, err := b.publisherForSigning(ctx, t.url)
	var drafts []*draft
	var items []*feed.Item
	now := time.Now()
	for _, d := range t.drafts {
		if err != nil {
			answer(d, 0, err)
			continue
		}
		if it, wrong := publishable(t.url, &p, d.meaning, now); wrong != nil {
			answer(d, 0, wrong)
		} else {
			drafts, items = append(drafts, d), append(items, it)
		}
	}
	if len(items) == 0 {
		return
	}
	if err := b.checkKey(&p); err != nil {
		b.endTentative(ctx, t.url)
		for _, d := range drafts {
			answer(d, 0, err)
		}
		return
	}
	var head feed.Hash
	copy(head[:], p.Head)
	seq, head := t.predecessor(p.Seq, head)
	pushed := false
	seqs, errs := b.signer.SignAndPush(t.url, seq, head, items, now, func(signed []*difference.Publication) []error {
		pushed = true
		return b.pushSigned(ctx, t, signed, items)
	})
	for i, d := range drafts {
		err := errs[i]
		if err != nil && !pushed {
			err = fmt.Errorf("%w: %w", proxy.ErrRejected, err)
		}
		answer(d, seqs[i], err)
	}
}

// publishable makes an item of what a program has sent.
func publishable(url string, p *proxy.Publisher, meaning feed.Meaning, now time.Time) (*feed.Item, error) {
	it, err := feed.NewItem(cmp.Or(feed.FormatOf(p.Format), feed.RSS), meaning, now)
	if err == nil {
		err = difference.Publishable(url, &it)
	}
	switch {
	case errors.Is(err, feed.ErrLimit):
		return nil, kindError{proxy.ErrTooLarge, difference.TooLarge(len(meaning.Summary) + len(meaning.Content))}
	case errors.Is(err, difference.ErrLarge):
		return nil, kindError{proxy.ErrTooLarge, err}
	case err != nil:
		return nil, kindError{proxy.ErrInvalidItem, err}
	}
	return &it, nil
}

// checkKey returns an error if the feed has another key than the node's signer, or none.
func (b *publishing) checkKey(p *proxy.Publisher) error {
	_, accepted := b.signer.Signed(p.URL)
	why := p.RejectReason(b.signer.Public(), accepted)
	switch {
	case why == "":
		return nil
	case p.DocumentUnreachable:
		return fmt.Errorf("%w: %s", proxy.ErrPending, why)
	}
	return fmt.Errorf("%w: %s", proxy.ErrRejected, why)
}

// pushSigned pushes publications of the node's signer. items are those that the turn is for; none for a heartbeat. Once
// they are on their way, the turn passes to the next request. After a failure the next heartbeat is tried soon.
func (b *publishing) pushSigned(ctx context.Context, t *turn, signed []*difference.Publication, items []*feed.Item) []error {
	last := signed[len(signed)-1].Item
	isLast := last != nil && len(items) > 0 && last.ID == items[len(items)-1].ID && last.Hash == items[len(items)-1].Hash
	errs := b.push(ctx, signed, func() {
		if isLast {
			t.sent(signed)
		}
	})
	for i, p := range signed {
		t.answered(p, errs[i] == nil)
		b.queues.notePush(t.url, errs[i] == nil)
	}
	return errs
}
