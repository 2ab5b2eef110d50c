package publishing

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/script"
	"tidings/sim"
)

// A publisher writes items for a feed at one peer. It goes on to the next item when the last one is
// committed; a failed push is repeated.
type publisher struct {
	world *world
	feed  *trackedFeed
	peer  *sim.Peer
	key   ed25519.PrivateKey
	rng   *rand.Rand

	seq      uint64
	prevHash feed.Hash
	backlog  int                     // items that wait for their turn
	inFlight *difference.Publication // the item that is being pushed
	signed   time.Time
	counted  bool // the item in flight is one of those that count
	closed   bool
}

// itemText gives items a typical length.
var itemText = strings.Repeat("What has happened is told here at some length, so that there is something to carry. ", 10)

// retryPause is the pause before a failed push is repeated.
const retryPause = time.Second

// newPublisher serves a feed whose publisher writes at a peer.
func newPublisher(w *world, f *trackedFeed, p *sim.Peer, seed uint64) *publisher {
	head := binary.BigEndian.AppendUint64(nil, seed)
	d := &publisher{
		world: w, feed: f, peer: p, rng: rand.New(rand.NewPCG(seed, 0xde5c)),
		key: ed25519.NewKeyFromSeed(append(head, bytes.Repeat([]byte{1}, ed25519.SeedSize-len(head))...)),
	}
	said := feed.Publisher{Key: d.key.Public().(ed25519.PublicKey), Beat: time.Hour}
	w.Serve(f.url, staticDocument(fmt.Sprintf(`<rss version="2.0"><channel>%s<title>A feed</title><link>%s</link><description/></channel></rss>`,
		said.Metadata(feed.RSS), f.url)))
	p.SubscribeFeed(f.url)
	return d
}

// A staticDocument never changes: all items come from publishers.
type staticDocument string

func (s staticDocument) At(time.Duration) script.Version { return script.Version{Body: []byte(s)} }

func (s staticDocument) Next(time.Duration) (time.Duration, bool) { return 0, false }

// start starts writing, at a random time within an interval.
func (d *publisher) start() {
	d.world.After(time.Duration(d.rng.Int64N(int64(d.world.scenario.Every))), d.next)
}

func (d *publisher) next() {
	if d.closed {
		return
	}
	d.write()
	half := int64(d.world.scenario.Every / 2)
	d.world.After(time.Duration(half+d.rng.Int64N(2*half)), d.next)
}

// write creates the next item, as soon as the one before is committed.
func (d *publisher) write() {
	d.backlog++
	if d.inFlight != nil {
		return
	}
	d.backlog--
	now := d.world.Now()
	it, err := feed.NewItem(feed.RSS, feed.Meaning{
		GUID: fmt.Sprintf("%s#%d", d.feed.url, d.seq+1), Title: fmt.Sprintf("Item %d", d.seq+1), Summary: itemText,
	}, now)
	if err != nil {
		panic(fmt.Sprintf("publishing: make an item: %v", err))
	}
	if d.inFlight, err = difference.Publish(d.key, d.feed.url, d.seq+1, d.prevHash, now, &it); err != nil {
		panic(fmt.Sprintf("publishing: sign an item: %v", err))
	}
	d.signed, d.counted = now, d.world.counting
	if d.counted {
		d.world.tracker.itemPublished(d.feed, it.ID)
		d.world.items++
	}
	d.push()
}

// push sends the item in flight to the feed's sequencer.
func (d *publisher) push() {
	of := d.inFlight
	d.peer.Do(func() {
		d.peer.Layers().Feeds.Publish(of.Raw, func(err error) {
			d.world.After(0, func() { d.pushed(of, err) }) // not within the node's turn
		})
	})
}

func (d *publisher) pushed(of *difference.Publication, err error) {
	switch {
	case of != d.inFlight:
	case err != nil:
		if d.counted {
			d.world.retried++
			d.world.refused = err.Error()
		}
		d.world.After(retryPause, d.push)
	default:
		if d.counted {
			d.world.commitTimes = append(d.world.commitTimes, d.world.Now().Sub(d.signed))
		}
		d.seq, d.prevHash, d.inFlight = of.Seq, of.Hash, nil
		if d.backlog > 0 && !d.closed {
			d.backlog--
			d.write()
		}
	}
}
