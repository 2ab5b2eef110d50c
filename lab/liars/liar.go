package liars

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/owner"
	"tidings/overlay/owner/ownerpb"
	"tidings/overlay/scribe/scribepb"
)

// A Lie is one way of lying.
type Lie string

const (
	// Forge: each document that the node fetches has one more item, which it reports, appends and signs as honest nodes
	// would.
	Forge Lie = "forge"
	// Withhold: the node passes nothing down trees, sends no entry to other owners, and answers no pull.
	Withhold Lie = "withhold"
	// Heads: the node refuses all epochs, and its promises and answers name an entry that nobody has.
	Heads Lie = "heads"
	// Replay: the node sends old frames of Corona again, grants and orders among them.
	Replay Lie = "replay"
)

// Lies are all of them.
var Lies = []Lie{Forge, Withhold, Heads, Replay}

// ForgedTitle begins the titles of all forged items.
const ForgedTitle = "Forged"

const (
	// leap is how far a false head is ahead of the true one. It is within what owners believe of a number.
	leap = 1 << 16
	// kept is the number of old frames that a replaying node remembers, and again says that it sends one of them with one in
	// so many others.
	kept, again = 64, 3
)

// A Liar stands between a real node and the world (daemon.World), and lies from a given time on.
type Liar struct {
	lies   map[Lie]bool
	since  time.Time
	signer *wire.Signer // of the node

	mu      sync.Mutex
	fetches map[env.Handle]string // URLs of requests in progress

	real env.Network
	old  []sent
	rng  *rand.Rand
}

// sent is a frame that was sent.
type sent struct {
	to    env.Peer
	class env.Class
	frame []byte
}

// NewLiar returns a liar.
func NewLiar(lies []Lie, since time.Time) *Liar {
	l := &Liar{lies: map[Lie]bool{}, since: since, fetches: map[env.Handle]string{}}
	for _, what := range lies {
		l.lies[what] = true
	}
	return l
}

// does reports whether the node lies in this way now.
func (l *Liar) does(what Lie) bool { return l.lies[what] && time.Now().After(l.since) }

// Env implements daemon.World.
func (l *Liar) Env(e env.Env, signer *wire.Signer) env.Env {
	l.real, l.rng, l.signer = e.Network, e.Rand, signer
	fetcher := e.Fetcher
	e.Network = l
	e.Fetcher = fetcherFunc(func(h env.Handle, r env.Request) {
		l.mu.Lock()
		l.fetches[h] = r.URL
		l.mu.Unlock()
		fetcher.Fetch(h, r)
	})
	return e
}

type fetcherFunc func(env.Handle, env.Request)

func (f fetcherFunc) Fetch(h env.Handle, r env.Request) { f(h, r) }

// Answer implements daemon.World.
func (l *Liar) Answer(h env.Handle, a env.Answer) env.Answer {
	l.mu.Lock()
	url := l.fetches[h]
	delete(l.fetches, h)
	l.mu.Unlock()
	if l.does(Forge) {
		lie := fmt.Sprintf("<item><title>%s %s</title><guid isPermaLink=\"false\">forged %s</guid></item>\n<item>", ForgedTitle, url, url)
		a.Body = bytes.Replace(a.Body, []byte("<item>"), []byte(lie), 1)
	}
	return a
}

// Send implements env.Network.
func (l *Liar) Send(to env.Peer, class env.Class, frame []byte) {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil {
		l.real.Send(to, class, frame)
		return
	}
	if frame = l.distorted(layer, body, frame); frame == nil {
		return
	}
	l.real.Send(to, class, frame)
	if l.does(Replay) && (layer == wire.Corona || layer == wire.Wedge) {
		l.replay(sent{to, class, frame})
	}
}

// replay remembers a frame, and sends an old one again now and then.
func (l *Liar) replay(s sent) {
	if len(l.old) < kept {
		l.old = append(l.old, s)
		return
	}
	if l.rng.IntN(again) == 0 {
		o := l.old[l.rng.IntN(len(l.old))]
		l.real.Send(o.to, o.class, o.frame)
	}
	if l.rng.IntN(kept) == 0 { // old frames stay old for a while
		l.old[l.rng.IntN(len(l.old))] = s
	}
}

// distorted returns what is sent in place of a frame; nil: nothing.
func (l *Liar) distorted(layer wire.Layer, body, frame []byte) []byte {
	switch layer {
	case wire.Scribe:
		var m scribepb.Message
		if !l.does(Withhold) || proto.Unmarshal(body, &m) != nil {
			return frame
		}
		switch m.Body.(type) {
		case *scribepb.Message_Multicast, *scribepb.Message_Batch, *scribepb.Message_Offer:
			return nil
		}
	case wire.Owner:
		var m ownerpb.Message
		if !l.does(Withhold) && !l.does(Heads) || proto.Unmarshal(body, &m) != nil {
			return frame
		}
		switch b := m.Body.(type) {
		case *ownerpb.Message_Replicate, *ownerpb.Message_Entries, *ownerpb.Message_Chunk:
			if l.does(Withhold) {
				return nil
			}
		case *ownerpb.Message_Promise:
			if !l.does(Heads) {
				break
			}
			if l.rng.IntN(2) == 0 {
				b.Promise.Refused = b.Promise.Number + leap
			} else {
				b.Promise.Head = l.falseHead(b.Promise)
			}
			return wire.AppendFrame(nil, wire.Owner, &m)
		case *ownerpb.Message_Signed:
			if l.does(Heads) {
				return nil
			}
		}
	}
	return frame
}

// falseHead returns an entry that nobody has, with a signature of this node.
func (l *Liar) falseHead(p *ownerpb.Promise) []byte {
	e := &ownerpb.EntryStatement{
		Key: p.Key, Position: &ownerpb.Position{Branch: p.Branch, Epoch: p.Number - 1, Seq: leap},
		Prev: make([]byte, len(owner.Hash{})), Body: make([]byte, len(owner.Hash{})), Set: make([]byte, len(owner.Hash{})),
		TimeMs: uint64(time.Now().UnixMilli()), Size: 1, Items: 1,
	}
	e.Prev[0], e.Body[0], e.Set[0] = 1, 1, 1
	return l.signer.Sign(wire.DomainEntry, wire.Encode(e)).Raw
}
