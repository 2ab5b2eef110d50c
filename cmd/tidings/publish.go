package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/publisher"
	"tidings/proxy"
)

// A publishCommand is "tidings publish".
type publishCommand struct {
	client   `embed:""`
	keyFlags `embed:""`
	Key      string `required:"" placeholder:"FILE" help:"File with the publisher's key, made by tidings keygen."`
	URL      string `arg:"" name:"url" help:"Address of the feed."`

	Title   string   `group:"One item:" help:"Title."`
	Link    string   `group:"One item:" placeholder:"URL" help:"Address at which the item is read."`
	ID      string   `name:"id" group:"One item:" help:"Id, which stays the same when the item changes (default: the link)."`
	Content string   `group:"One item:" placeholder:"HTML" help:"Content."`
	Summary string   `group:"One item:" placeholder:"HTML" help:"Summary."`
	Author  string   `group:"One item:" placeholder:"NAME" help:"Author."`
	Date    timeFlag `group:"One item:" help:"Date of publication, such as 2026-11-24T20:00:00Z (default: now)."`
	Item    string   `group:"One item:" placeholder:"FILE" help:"File with the whole item, published byte for byte: an <item>, an <entry>, or an object of a JSON Feed. - for standard input."`

	Document string        `group:"A feed:" placeholder:"FILE|URL" help:"Publish the new items of this feed document. - for standard input."`
	Watch    bool          `group:"A feed:" help:"Keep running: publish new items when the document changes, and sign once per beat interval that nothing is new."`
	Every    time.Duration `group:"A feed:" help:"Time between two checks of the document, with --watch (10s)."`
	Alive    bool          `group:"A feed:" help:"Sign that nothing is new, so that no node has to poll the feed."`

	Metadata     bool          `group:"The metadata:" help:"Print the element to paste into the head of the feed document, and exit."`
	Format       string        `group:"The metadata:" enum:"rss,atom,json" default:"rss" help:"Format of the document: rss, atom or json (${default})."`
	BeatInterval time.Duration `group:"The metadata:" default:"1h" help:"Longest silence of the publisher, which --watch takes from the metadata. After two beat intervals, nodes poll the feed (${default})."`
	Certificate  string        `group:"The metadata:" placeholder:"URL" help:"Address of the publisher's certificate."`
	Fingerprint  string        `group:"The metadata:" placeholder:"HEX" help:"SHA-256 fingerprint of that certificate."`

	Resume bool `help:"Continue after the last item that the network has, if the feed's document names this key. Use this after restoring an old backup, or on another machine."`
}

// Run publishes.
func (c *publishCommand) Run(ctx context.Context, s streams) error {
	if err := c.check(); err != nil {
		return err
	}
	url, err := feed.Canonical(c.URL)
	if err != nil {
		return usagef("%q is not the address of a feed: %w", c.URL, err)
	}
	if _, isPage := feed.DocumentURL(url); isPage {
		return usagef("%s is a page: give the address of a feed", url)
	}
	author, err := publisher.Open(c.Key, c.askPassphrase(s.in))
	if err != nil {
		return err
	}
	w := &feedWriter{publishCommand: c, author: author, url: url, streams: s}
	if c.Resume {
		if err := w.resume(ctx); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
	}
	switch {
	case c.Metadata:
		return w.printMetadata()
	case c.Watch:
		return w.watch(ctx)
	case c.Document != "":
		return w.publishDocument(ctx)
	case c.Alive:
		if err := w.signAlive(ctx); err != nil {
			return err
		}
		w.printMessage("signed that nothing is new in " + url)
		return nil
	case c.Item != "":
		return w.publishItemFile(ctx)
	case c.hasItemFlags():
		return w.publishFlags(ctx)
	}
	return nil
}

// hasItemFlags reports whether flags describe an item.
func (c *publishCommand) hasItemFlags() bool {
	return c.Title+c.Link+c.ID+c.Content+c.Summary+c.Author != "" || !c.Date.IsZero()
}

// check rejects flags that would have no effect.
func (c *publishCommand) check() error {
	var actions []string
	for _, d := range []struct {
		wanted bool
		flags  string
	}{
		{c.hasItemFlags(), "the parts of an item (--title, --link, …)"}, {c.Item != "", "--item"}, {c.Document != "", "--document"},
		{c.Alive, "--alive"}, {c.Metadata, "--metadata"},
	} {
		if d.wanted {
			actions = append(actions, d.flags)
		}
	}
	switch {
	case len(actions) > 1:
		return usagef("%s: give only one of them", strings.Join(actions, ", "))
	case c.Watch && c.Document == "":
		return usagef("--watch needs --document")
	case c.Every != 0 && !c.Watch:
		return usagef("--every needs --watch")
	case c.BeatInterval < time.Second:
		return usagef("--beat-interval: give at least 1s")
	case c.Metadata && c.Resume:
		return usagef("--resume cannot be used with --metadata")
	case !c.Metadata && c.Certificate+c.Fingerprint != "":
		return usagef("--certificate and --fingerprint need --metadata")
	case len(actions) == 0 && !c.Resume:
		return usagef("what to publish? Give --title and --link, --item, --document, --alive or --metadata")
	}
	return nil
}

// A feedWriter publishes in one feed.
type feedWriter struct {
	*publishCommand
	author  *publisher.Signer
	url     string
	streams streams
	// resignAll says that the network has just accepted this key as the replacement of a key that had not named it.
	// All items that the old key signed must be signed again.
	resignAll       bool
	publishedBefore int       // number of items in the document that were published before
	omitted         string    // what readers do not get of the document
	slowNotice      sync.Once // reports once that a push takes long
}

// resume sets the local record to the last publication that the network has. If the feed had another key, this key
// replaces it.
func (w *feedWriter) resume(ctx context.Context) error {
	p, err := w.fetchPublisher(ctx)
	if err != nil {
		return err
	}
	f, err := w.fetchFeed(ctx)
	if err != nil {
		return fmt.Errorf("the feed's document has to name this key: %w", err)
	}
	own := w.author.Public()
	fingerprint, hash := difference.Fingerprint(own), difference.KeyHash(own)
	if named, ok := f.Head.Publisher(); !ok || !bytes.Equal(named.Key, own) {
		return fmt.Errorf("%s does not name this key, %s: %s, and publish with --resume again", w.url, fingerprint, w.pasteHint())
	}
	last := lastOf(&p)
	if err := w.author.Resume(w.url, last); err != nil {
		return err
	}
	switch {
	case p.Seq == 0:
		w.printMessage("nothing was published in " + w.url + " yet, so the next item is its first one")
	case bytes.Equal(p.Key, own), bytes.Equal(p.ClaimedKey, own):
		w.printMessage(fmt.Sprintf("%s has the key %s, and publishing goes on after number %d", w.url, fingerprint, p.Seq))
	default:
		if err := w.beat(ctx, last); err != nil {
			return err
		}
		w.resignAll = !bytes.Equal(p.NextKeyHash, hash[:])
		w.printMessage(w.url + " now has the key " + fingerprint)
	}
	return nil
}

// pasteHint says what to do about a document that does not name the key.
func (w *feedWriter) pasteHint() string { return proxy.PasteHint(proxy.ShellWord(w.Key), w.url) }

// printMetadata prints the element to paste into the feed's document.
func (w *feedWriter) printMetadata() error {
	key := w.author.Key()
	p := feed.Publisher{Key: key.Public(), Next: key.Next(), Beat: w.BeatInterval, Certificate: w.Certificate}
	if w.Fingerprint != "" {
		b, err := hex.DecodeString(w.Fingerprint)
		if err == nil && len(b) == len(p.Fingerprint) {
			p.Fingerprint = feed.Hash(b)
		}
		if p.Fingerprint == (feed.Hash{}) {
			return usagef("--fingerprint: give the SHA-256 of the certificate in 64 hexadecimal digits, not all of them 0")
		}
	}
	if err := p.Check(); err != nil {
		return usageError{error: err}
	}
	format := feed.FormatOf(w.Format)
	text := p.Metadata(format)
	if format == feed.JSON {
		text += "," // other members follow
	}
	_, err := fmt.Fprintln(w.streams.out, text)
	return err
}

// A timeFlag is a time on the command line.
type timeFlag struct{ time.Time }

// UnmarshalText parses a time.
func (t *timeFlag) UnmarshalText(b []byte) (err error) {
	if t.Time, err = time.Parse(time.RFC3339, string(b)); err != nil {
		return fmt.Errorf("%q is not a time: give one such as 2026-11-24T20:00:00Z", b)
	}
	return nil
}

// publishItemFile publishes one item byte for byte.
func (w *feedWriter) publishItemFile(ctx context.Context) error {
	raw, err := w.openDocument(ctx, w.Item)
	if err != nil {
		return err
	}
	if !utf8.Valid(raw) {
		return fmt.Errorf("%s: the item is not in UTF-8", fileName(w.Item))
	}
	it, err := readItem(raw)
	if err != nil {
		return fmt.Errorf("%s: %s", fileName(w.Item), strings.TrimPrefix(err.Error(), "read item: "+feed.ErrBroken.Error()+": "))
	}
	if m, _ := it.Meaning(w.url); m.GUID == "" && m.Link == "" {
		return fmt.Errorf("%s: the item needs an id (guid) or a link", fileName(w.Item))
	}
	return w.publish(ctx, &it)
}

// publishFlags publishes one item that flags describe.
func (w *feedWriter) publishFlags(ctx context.Context) error {
	if w.ID == "" && w.Link == "" {
		return usagef("the item needs a --link or an --id")
	}
	p, err := w.fetchPublisher(ctx)
	if err != nil {
		return err
	}
	it, err := feed.NewItem(cmp.Or(feed.FormatOf(p.Format), feed.RSS), feed.Meaning{
		GUID: w.ID, Link: w.Link, Title: w.Title, Summary: w.Summary, Content: w.Content, Authors: feed.AuthorNamed(w.Author), Published: w.Date.Time,
	}, time.Now())
	if errors.Is(err, feed.ErrLimit) {
		return difference.TooLarge(len(w.Summary) + len(w.Content))
	}
	if err != nil {
		return usageError{error: err}
	}
	return w.write(ctx, p, &it)
}

// readItem parses an item in any format.
func readItem(raw []byte) (it feed.Item, err error) {
	raw = bytes.TrimSpace(raw)
	atom := []feed.Binding{{Prefix: "", URI: "http://www.w3.org/2005/Atom"}}
	switch {
	case bytes.HasPrefix(raw, []byte("{")):
		return feed.ReadItem(feed.JSON, raw, nil, 0)
	case bytes.HasPrefix(raw, []byte("<entry")):
		if it, err = feed.ReadItem(feed.Atom, raw, nil, 0); err != nil {
			it, err = feed.ReadItem(feed.Atom, raw, atom, 0)
		}
		return it, err
	}
	if it, err = feed.ReadItem(feed.RSS, raw, nil, 0); err != nil {
		if other, e := feed.ReadItem(feed.Atom, raw, nil, 0); e == nil { // with its own namespace prefix
			return other, nil
		}
	}
	return it, err
}

// fetchPublisher asks the node about the feed's publisher.
func (w *feedWriter) fetchPublisher(ctx context.Context) (proxy.Publisher, error) {
	return call[proxy.Publisher](ctx, w.client, "publisher", proxy.SubscribeMessage{URL: w.url})
}

// errOtherKey says that the feed accepts nothing that this key signs, and that waiting does not help.
var errOtherKey = errors.New("this feed has another key")

// errKeyNotNamed says that the feed accepts nothing as long as its document does not name the key.
var errKeyNotNamed = errors.New("nothing was signed")

// checkAccepted returns an error if the feed accepts nothing that the key signs.
func (w *feedWriter) checkAccepted(p *proxy.Publisher) error {
	if w.Resume { // the network has accepted the key, although this node may not know it yet
		return nil
	}
	why := strings.ReplaceAll(p.RejectReason(w.author.Public(), w.author.Feeds()[w.url]), " --key FILE ", " --key "+proxy.ShellWord(w.Key)+" ")
	switch {
	case why == "":
		return nil
	case p.Seq > 0:
		return fmt.Errorf("%w: %s", errOtherKey, why)
	default: // may change soon
		return fmt.Errorf("%w: %s", errKeyNotNamed, why)
	}
}

// lastOf returns the last publication that the network has.
func lastOf(p *proxy.Publisher) publisher.Head {
	last := publisher.Head{Seq: p.Seq}
	copy(last.Hash[:], p.Head)
	return last
}

// publish signs an item and pushes it, after items that were signed earlier and did not arrive.
func (w *feedWriter) publish(ctx context.Context, it *feed.Item) error {
	p, err := w.fetchPublisher(ctx)
	if err != nil {
		return err
	}
	return w.write(ctx, p, it)
}

// write is publish for a caller that has already fetched the publisher's state.
func (w *feedWriter) write(ctx context.Context, p proxy.Publisher, it *feed.Item) error {
	if err := w.checkAccepted(&p); err != nil {
		return err
	}
	last := lastOf(&p)
	_, errs := w.author.SignAndPush(w.url, last.Seq, last.Hash, []*feed.Item{it}, time.Now(), func(signed []*difference.Publication) []error {
		return []error{w.push(ctx, signed[0].Raw)}
	})
	if errs[0] != nil {
		return errs[0]
	}
	m, _ := it.Meaning(w.url)
	_, err := fmt.Fprintln(w.streams.out, oneLine(m.Title))
	return err
}

// signAlive signs that nothing is new, and pushes that.
func (w *feedWriter) signAlive(ctx context.Context) error {
	p, err := w.fetchPublisher(ctx)
	if err == nil {
		err = w.checkAccepted(&p)
	}
	if err != nil {
		return err
	}
	return w.beat(ctx, lastOf(&p))
}

func (w *feedWriter) beat(ctx context.Context, last publisher.Head) error {
	return w.author.PushHeartbeat(w.url, last.Seq, last.Hash, time.Now(), func(p *difference.Publication) error { return w.push(ctx, p.Raw) })
}

func (w *feedWriter) push(ctx context.Context, envelope []byte) error {
	defer time.AfterFunc(slowPush, func() {
		w.slowNotice.Do(func() {
			w.printMessage("waiting for the nodes that keep the feed's log; what is published is signed and recorded, and Ctrl-C is safe")
		})
	}).Stop()
	_, err := call[proxy.PublishResult](ctx, w.client, "publish", proxy.Draft{Envelope: envelope})
	return err
}

// slowPush is how long a push may take before the user is told why.
const slowPush = 3 * time.Second

// A trustCommand is "tidings trust".
type trustCommand struct {
	client `embed:""`
	URLs   []string `arg:"" name:"url" help:"Addresses of feeds whose publishers have a new key."`
}

// Run accepts keys, and confirms it.
func (c *trustCommand) Run(ctx context.Context, s streams) error {
	return forEachAddress("trust", c.URLs, proxy.WithoutPassword, func(address string) error {
		answer, err := call[proxy.SubscribeMessage](ctx, c.client, "trust", proxy.SubscribeMessage{URL: address})
		if err == nil {
			_, err = fmt.Fprintf(s.out, "The new key of %s is accepted: items signed with it are shown as the publisher's.\n", answer.URL)
		}
		return err
	})
}
