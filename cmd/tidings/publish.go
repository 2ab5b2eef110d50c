package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
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

	Title   string  `group:"One item:" help:"Title."`
	Link    string  `group:"One item:" placeholder:"URL" help:"Address at which the item is read."`
	ID      string  `name:"id" group:"One item:" help:"Id, which stays the same when the item changes (default: the link)."`
	Content string  `group:"One item:" placeholder:"HTML" help:"Content."`
	Summary string  `group:"One item:" placeholder:"HTML" help:"Summary."`
	Author  string  `group:"One item:" placeholder:"NAME" help:"Author."`
	Date    instant `group:"One item:" help:"Date of publication, such as 2026-11-24T20:00:00Z (default: now)."`
	Item    string  `group:"One item:" placeholder:"FILE" help:"File with the whole item, published byte for byte: an <item>, an <entry>, or an object of a JSON Feed. - for standard input."`

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
	if _, isPage := feed.AtOrigin(url); isPage {
		return usagef("%s is a page: give the address of a feed", url)
	}
	author, err := publisher.Open(c.Key, c.ask(s.in))
	if err != nil {
		return err
	}
	w := &writer{publishCommand: c, author: author, url: url, s: s}
	if c.Resume {
		if err := w.resume(ctx); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
	}
	switch {
	case c.Metadata:
		return w.metadata()
	case c.Watch:
		return w.watch(ctx)
	case c.Document != "":
		return w.document(ctx)
	case c.Alive:
		if err := w.alive(ctx); err != nil {
			return err
		}
		w.tell("signed that nothing is new in " + url)
		return nil
	case c.Item != "":
		return w.whole(ctx)
	case c.described():
		return w.one(ctx)
	}
	return nil
}

// described says whether an item is described by flags.
func (c *publishCommand) described() bool {
	return c.Title+c.Link+c.ID+c.Content+c.Summary+c.Author != "" || !c.Date.IsZero()
}

// check refuses flags that would be without effect.
func (c *publishCommand) check() error {
	var deeds []string
	for _, d := range []struct {
		wanted bool
		flags  string
	}{
		{c.described(), "the parts of an item (--title, --link, …)"}, {c.Item != "", "--item"}, {c.Document != "", "--document"},
		{c.Alive, "--alive"}, {c.Metadata, "--metadata"},
	} {
		if d.wanted {
			deeds = append(deeds, d.flags)
		}
	}
	switch {
	case len(deeds) > 1:
		return usagef("%s: give only one of them", strings.Join(deeds, ", "))
	case c.Watch && c.Document == "":
		return usagef("--watch needs --document")
	case c.Every != 0 && !c.Watch:
		return usagef("--every needs --watch")
	case c.BeatInterval < time.Second:
		return usagef("--beat-interval: give at least 1s")
	case c.Metadata && c.Resume:
		return usagef("--resume does not go with --metadata")
	case !c.Metadata && c.Certificate+c.Fingerprint != "":
		return usagef("--certificate and --fingerprint need --metadata")
	case len(deeds) == 0 && !c.Resume:
		return usagef("what to publish? Give --title and --link, --item, --document, --alive or --metadata")
	}
	return nil
}

// A writer publishes in one feed.
type writer struct {
	*publishCommand
	author *publisher.Signer
	url    string
	s      streams
	// anew says that the network has just taken this key in the place of one that had not named it: what that one has
	// signed is to be signed again.
	anew   bool
	before int       // items of the document that were published before
	wait   sync.Once // it was said that a push takes long
}

// resume has the record go on from what the network has, and this key take the place of another one.
func (w *writer) resume(ctx context.Context) error {
	p, err := w.known(ctx)
	if err != nil {
		return err
	}
	f, err := w.fetchFeed(ctx)
	if err != nil {
		return fmt.Errorf("the feed's document has to name this key: %w", err)
	}
	own := w.author.Public()
	fingerprint, hash := difference.Fingerprint(own), difference.KeyHash(own)
	if said, ok := f.Head.Publisher(); !ok || !bytes.Equal(said.Key, own) {
		return fmt.Errorf("%s does not name this key, %s: %s, and publish with --resume again", w.url, fingerprint, w.paste())
	}
	last := lastOf(&p)
	if err := w.author.Resume(w.url, last); err != nil {
		return err
	}
	switch {
	case p.Seq == 0:
		w.tell("nothing was published in " + w.url + " yet, so the next item is its first one")
	case bytes.Equal(p.Key, own), bytes.Equal(p.Claimed, own):
		w.tell(fmt.Sprintf("%s has the key %s, and publishing goes on after number %d", w.url, fingerprint, p.Seq))
	default:
		if err := w.beat(ctx, last); err != nil {
			return err
		}
		w.anew = !bytes.Equal(p.Next, hash[:])
		w.tell(w.url + " now has the key " + fingerprint)
	}
	return nil
}

// paste is what to do about a document that does not name the key.
func (w *writer) paste() string { return proxy.Paste(shellWord(w.Key), w.url) }

// metadata prints what is pasted into the feed's document.
func (w *writer) metadata() error {
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
	format := map[string]feed.Format{"rss": feed.RSS, "atom": feed.Atom, "json": feed.JSON}[w.Format]
	words := p.Metadata(format)
	if format == feed.JSON {
		words += "," // other members follow
	}
	_, err := fmt.Fprintln(w.s.out, words)
	return err
}

// An instant is a time on the command line.
type instant struct{ time.Time }

// UnmarshalText reads a time.
func (i *instant) UnmarshalText(b []byte) (err error) {
	if i.Time, err = time.Parse(time.RFC3339, string(b)); err != nil {
		return fmt.Errorf("%q is not a time: give one such as 2026-11-24T20:00:00Z", b)
	}
	return nil
}

// whole publishes one item as it is.
func (w *writer) whole(ctx context.Context) error {
	raw, err := w.open(ctx, w.Item)
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

// one publishes one item that flags describe.
func (w *writer) one(ctx context.Context) error {
	if w.ID == "" && w.Link == "" {
		return usagef("the item needs a --link or an --id")
	}
	p, err := w.known(ctx)
	if err != nil {
		return err
	}
	format := feed.RSS
	for f := feed.RSS; f <= feed.JSON; f++ {
		if f.String() == p.Format {
			format = f
		}
	}
	it, err := feed.NewItem(format, feed.Meaning{
		GUID: w.ID, Link: w.Link, Title: w.Title, Summary: w.Summary, Content: w.Content, Author: w.Author, Published: w.Date.Time,
	}, time.Now())
	if errors.Is(err, feed.ErrLimit) {
		return difference.TooLarge(len(w.Summary) + len(w.Content))
	}
	if err != nil {
		return usageError{error: err}
	}
	return w.write(ctx, p, &it)
}

// readItem reads an item in whatever format it is.
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
		if other, e := feed.ReadItem(feed.Atom, raw, nil, 0); e == nil { // with a prefix of its own
			return other, nil
		}
	}
	return it, err
}

// known is what the node knows of the feed's publisher.
func (w *writer) known(ctx context.Context) (proxy.Publisher, error) {
	body, err := json.Marshal(proxy.Subscribed{URL: w.url})
	if err != nil {
		return proxy.Publisher{}, err
	}
	raw, err := w.post(ctx, "publisher", "application/json", body)
	if err != nil {
		return proxy.Publisher{}, err
	}
	return read[proxy.Publisher](w.client, raw)
}

// errOtherKey says that nothing which this key signs is taken, and that waiting does not help.
var errOtherKey = errors.New("this feed has another key")

// errUnnamed says that nothing is taken as long as the feed's document does not name the key.
var errUnnamed = errors.New("nothing was signed")

// taken is an error if nothing is taken that the key signs.
func (w *writer) taken(p *proxy.Publisher) error {
	if w.Resume { // the network has taken the key, which this node may not have heard yet
		return nil
	}
	why := strings.ReplaceAll(p.Refuses(w.author.Public(), w.author.Feeds()[w.url]), " --key FILE ", " --key "+shellWord(w.Key)+" ")
	switch {
	case why == "":
		return nil
	case p.Seq > 0:
		return fmt.Errorf("%w: %s", errOtherKey, why)
	default: // which may be otherwise in a while
		return fmt.Errorf("%w: %s", errUnnamed, why)
	}
}

// lastOf is the last publication that the network has.
func lastOf(p *proxy.Publisher) publisher.Head {
	last := publisher.Head{Seq: p.Seq}
	copy(last.Hash[:], p.Head)
	return last
}

// publish signs an item and brings it into the feed, after what was signed and got lost on its way.
func (w *writer) publish(ctx context.Context, it *feed.Item) error {
	p, err := w.known(ctx)
	if err != nil {
		return err
	}
	return w.write(ctx, p, it)
}

// write is publish for who has asked what is known of the feed's publisher.
func (w *writer) write(ctx context.Context, p proxy.Publisher, it *feed.Item) error {
	if err := w.taken(&p); err != nil {
		return err
	}
	last := lastOf(&p)
	_, err := w.author.SignAndPush(w.url, last.Seq, last.Hash, it, time.Now(), func(envelope []byte) error { return w.push(ctx, envelope) })
	if err != nil {
		return err
	}
	m, _ := it.Meaning(w.url)
	_, err = fmt.Fprintln(w.s.out, oneLine(m.Title))
	return err
}

// alive says that nothing is new.
func (w *writer) alive(ctx context.Context) error {
	p, err := w.known(ctx)
	if err == nil {
		err = w.taken(&p)
	}
	if err != nil {
		return err
	}
	return w.beat(ctx, lastOf(&p))
}

func (w *writer) beat(ctx context.Context, last publisher.Head) error {
	return w.author.PushHeartbeat(w.url, last.Seq, last.Hash, time.Now(), func(envelope []byte) error { return w.push(ctx, envelope) })
}

func (w *writer) push(ctx context.Context, envelope []byte) error {
	body, err := json.Marshal(proxy.Draft{Envelope: envelope})
	if err != nil {
		return err
	}
	defer time.AfterFunc(slow, func() {
		w.wait.Do(func() {
			w.tell("waiting for the nodes that keep the feed's log; what is published is signed and recorded, and Ctrl-C is safe")
		})
	}).Stop()
	_, err = w.post(ctx, "publish", "application/json", body)
	return err
}

// slow is how long a push may take before the user is told why.
const slow = 3 * time.Second

// A trustCommand is "tidings trust".
type trustCommand struct {
	client `embed:""`
	URLs   []string `arg:"" name:"url" help:"Addresses of feeds whose publishers have a new key."`
}

// Run accepts keys, and says so.
func (c *trustCommand) Run(ctx context.Context, s streams) error {
	return all("trust", c.URLs, func(address string) error {
		answer, err := c.tell(ctx, "trust", address)
		if err == nil {
			_, err = fmt.Fprintf(s.out, "The new key of %s is accepted: items signed with it are shown as the publisher's.\n", answer.URL)
		}
		return err
	})
}
