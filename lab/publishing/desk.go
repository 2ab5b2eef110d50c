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

// A desk is where a publisher writes for a feed. It goes on to the next item when the last one is
// held; a push that comes to nothing is made again.
type desk struct {
	world *world
	feed  *followed
	peer  *sim.Peer
	key   ed25519.PrivateKey
	dice  *rand.Rand

	seq    uint64
	prev   feed.Hash
	due    int                     // items that wait for their turn
	out    *difference.Publication // on its way
	signed time.Time
	counts bool // it is one of the items that count
	shut   bool
}

// itemText makes items as long as many are.
var itemText = strings.Repeat("What has happened is told here at some length, so that there is something to carry. ", 10)

// againPause is waited before a push is made again.
const againPause = time.Second

// newDesk has a feed served whose publisher writes at a peer.
func newDesk(w *world, f *followed, p *sim.Peer, seed uint64) *desk {
	head := binary.BigEndian.AppendUint64(nil, seed)
	d := &desk{
		world: w, feed: f, peer: p, dice: rand.New(rand.NewPCG(seed, 0xde5c)),
		key: ed25519.NewKeyFromSeed(append(head, bytes.Repeat([]byte{1}, ed25519.SeedSize-len(head))...)),
	}
	said := feed.Publisher{Key: d.key.Public().(ed25519.PublicKey), Beat: time.Hour}
	w.Serve(f.url, still(fmt.Sprintf(`<rss version="2.0"><channel>%s<title>A feed</title><link>%s</link><description/></channel></rss>`,
		said.Metadata(feed.RSS), f.url)))
	p.SubscribeFeed(f.url)
	return d
}

// still is a document that stays as it is: items come from publishers only.
type still string

func (s still) At(time.Duration) script.Version { return script.Version{Body: []byte(s)} }

func (s still) Next(time.Duration) (time.Duration, bool) { return 0, false }

// tick has items come due, from a moment within an interval on.
func (d *desk) tick() {
	d.world.After(time.Duration(d.dice.Int64N(int64(d.world.is.Every))), d.next)
}

func (d *desk) next() {
	if d.shut {
		return
	}
	d.write()
	half := int64(d.world.is.Every / 2)
	d.world.After(time.Duration(half+d.dice.Int64N(2*half)), d.next)
}

// write makes the next item, as soon as the one before is held.
func (d *desk) write() {
	d.due++
	if d.out != nil {
		return
	}
	d.due--
	now := d.world.Now()
	it, err := feed.NewItem(feed.RSS, feed.Meaning{
		GUID: fmt.Sprintf("%s#%d", d.feed.url, d.seq+1), Title: fmt.Sprintf("Item %d", d.seq+1), Summary: itemText,
	}, now)
	if err != nil {
		panic(fmt.Sprintf("publishing: make an item: %v", err))
	}
	if d.out, err = difference.Publish(d.key, d.feed.url, d.seq+1, d.prev, now, &it); err != nil {
		panic(fmt.Sprintf("publishing: sign an item: %v", err))
	}
	d.signed, d.counts = now, d.world.counting
	if d.counts {
		d.world.ledger.published(d.feed, it.ID)
		d.world.items++
	}
	d.push()
}

// push brings what was written to the feed's sequencer.
func (d *desk) push() {
	of := d.out
	d.peer.Do(func() {
		d.peer.Layers().Feeds.Publish(of.Raw, func(err error) {
			d.world.After(0, func() { d.pushed(of, err) }) // now it is the node's turn
		})
	})
}

func (d *desk) pushed(of *difference.Publication, err error) {
	switch {
	case of != d.out:
	case err != nil:
		if d.counts {
			d.world.pushedAgain++
			d.world.refused = err.Error()
		}
		d.world.After(againPause, d.push)
	default:
		if d.counts {
			d.world.held = append(d.world.held, d.world.Now().Sub(d.signed))
		}
		d.seq, d.prev, d.out = of.Seq, of.Hash, nil
		if d.due > 0 && !d.shut {
			d.due--
			d.write()
		}
	}
}
