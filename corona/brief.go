package corona

import (
	"bytes"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/honeycomb"
	"tidings/internal/feed"
	"tidings/overlay"
)

// A brief is what the pollers of a channel are told with their ranks, beside its address.
type brief struct {
	skips   skips
	readers int
	grant   []byte // of its domain's stewards; nil: there is none, or it was looked at
	ticket  uint64 // which they show with what they find
	// Only for those who decide for others:
	size   float64 // what a poll of it costs, in those of a mean one
	update time.Duration
}

// outdated is by how much a factor may have changed until pollers are told. Nobody's choice
// depends on less; and to tell them costs a message for each.
const outdated = 1.25

// briefOf is what a channel's pollers are to be told.
func (c *Corona) briefOf(l *lead, now time.Time) brief {
	b := brief{readers: c.readers(l), skips: skipsOf(l.hints), grant: l.grant, ticket: l.ticket}
	if c.cfg.DAG {
		b.size, b.update = c.relative(l), l.rhythm.interval(now)
	}
	return b
}

// stale says whether pollers have to be told another brief.
func (b brief) stale(now brief) bool {
	return b.skips != now.skips || b.ticket != now.ticket || !bytes.Equal(b.grant, now.grant) || apart(float64(b.readers), float64(now.readers)) ||
		apart(b.size, now.size) || apart(b.update.Seconds(), now.update.Seconds())
}

func apart(a, b float64) bool { return max(a, b) > outdated*min(a, b) }

// words are a brief as it travels.
func (b brief) words(url string) []byte {
	return marshal(&coronapb.Words{
		Url: url, SkipHours: b.skips.hours, SkipDays: uint32(b.skips.days),
		Readers: uint32(b.readers), Size: float32(b.size), UpdateMs: uint64(b.update.Milliseconds()), Grant: b.grant, Ticket: b.ticket,
	})
}

// Briefs remembers what words and standings say, so that each is read once: a node looks at
// words several times, and all nodes of one goroutine can share one memory, and what was read.
type Briefs struct {
	limit int
	of    map[overlay.ID]*heard
}

// heard is what was last heard of a key.
type heard struct {
	words []byte
	said  *said // nil: the words make no sense
	grant []byte

	body []byte // a standing, as it travels; nil: none was heard
	told told
}

// said is what words say, but for the grant, which is looked at once. It is not changed.
type said struct {
	key     overlay.ID
	url     string
	domain  string // that answers for its origin
	private bool   // the address names a private one
	brief   brief
}

// told is what a sequencer says of a standing.
type told struct {
	standing *standing
	nonce    uint64        // of the finding that it answers; 0: it is for all
	rest     time.Duration // for how long all pollers are to leave the origin alone
}

func toldBy(m *coronapb.Standing) told {
	s := &standing{valid: validatorsFrom(m.Valid), digest: m.Digest}
	if len(m.Prints) > 0 {
		s.prints = parsePrints(m.Prints)
	}
	return told{s, m.Nonce, span(m.RestMs)}
}

// NewBriefs returns an empty memory of at most so many keys.
func NewBriefs(limit int) *Briefs { return &Briefs{limit: limit, of: map[overlay.ID]*heard{}} }

// heard returns what was heard of a key, making room for it.
func (b *Briefs) heard(key overlay.ID) *heard {
	h := b.of[key]
	if h == nil {
		if len(b.of) >= b.limit {
			clear(b.of)
		}
		h = &heard{}
		b.of[key] = h
	}
	return h
}

// told reads a standing that came down to the pollers of a channel; ok is false if it is none.
func (b *Briefs) told(key overlay.ID, body []byte) (t told, ok bool) {
	h := b.heard(key)
	if h.body != nil && bytes.Equal(h.body, body) {
		return h.told, true
	}
	m, of, err := parse(body)
	if err != nil || of != key || m.GetStanding() == nil {
		return told{}, false
	}
	h.body, h.told = bytes.Clone(body), toldBy(m.GetStanding())
	return h.told, true
}

// message encodes a standing for those who have not heard of it.
func (b *Briefs) message(key overlay.ID, s *standing, rest time.Duration) []byte {
	if h := b.of[key]; h != nil && h.told.standing == s && h.told.nonce == 0 && h.told.rest == 0 && rest <= 0 {
		return h.body
	}
	return marshal(s.message(key, 0, rest))
}

// ownBriefs is how many a node remembers that shares no memory: words are mostly looked at
// again at once.
const ownBriefs = 256

// parseWords reads what pollers are told of a channel, and the grant that came with it; nil
// if it is nothing that this node polls.
func (c *Corona) parseWords(key overlay.ID, words []byte) (s *said, grant []byte) {
	h := c.cfg.Briefs.heard(key)
	if h.words == nil || !bytes.Equal(h.words, words) {
		h.words = append([]byte{}, words...)
		h.said, h.grant = c.readWords(key, words)
	}
	return h.said, h.grant
}

func (c *Corona) readWords(key overlay.ID, words []byte) (s *said, grant []byte) {
	m := new(coronapb.Words)
	if proto.Unmarshal(words, m) != nil || len(m.Url) > maxURL || m.SkipHours >= 1<<24 || m.SkipDays >= 1<<7 ||
		!(m.Size >= 0 && m.Size <= math.MaxFloat32) {
		return nil, nil
	}
	if spelled, err := feed.Canonical(m.Url); err != nil || spelled != m.Url || overlay.Key(c.cfg.Network, m.Url) != key {
		return nil, nil
	}
	update := min(m.UpdateMs, uint64(honeycomb.MaxUpdate.Milliseconds()))
	s = &said{key: key, url: m.Url, brief: brief{
		skips:   skips{m.SkipHours, uint8(m.SkipDays)},
		ticket:  m.Ticket,
		readers: int(m.Readers), size: float64(m.Size), update: time.Duration(update) * time.Millisecond,
	}}
	s.domain, s.private = originOf(m.Url)
	return s, m.Grant
}
