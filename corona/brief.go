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
	// Only for those who decide for others:
	size   float64 // what a poll of it costs, in those of a mean one
	update time.Duration
}

// outdated is by how much a factor may have changed until pollers are told. Nobody's choice
// depends on less; and to tell them costs a message for each.
const outdated = 1.25

// briefOf is what a channel's pollers are to be told.
func (c *Corona) briefOf(l *lead, now time.Time) brief {
	b := brief{readers: c.readers(l), skips: skipsOf(l.hints), grant: l.grant}
	if c.cfg.DAG {
		b.size, b.update = c.relative(l), l.rhythm.interval(now)
	}
	return b
}

// stale says whether pollers have to be told another brief.
func (b brief) stale(now brief) bool {
	return b.skips != now.skips || !bytes.Equal(b.grant, now.grant) || apart(float64(b.readers), float64(now.readers)) ||
		apart(b.size, now.size) || apart(b.update.Seconds(), now.update.Seconds())
}

func apart(a, b float64) bool { return max(a, b) > outdated*min(a, b) }

// words are a brief as it travels.
func (b brief) words(url string) []byte {
	return marshal(&coronapb.Words{
		Url: url, SkipHours: b.skips.hours, SkipDays: uint32(b.skips.days),
		Readers: uint32(b.readers), Size: float32(b.size), UpdateMs: uint64(b.update.Milliseconds()), Grant: b.grant,
	})
}

// Briefs remembers what words say, so that each is read once: a node looks at them several
// times, and all nodes of one goroutine can share one memory.
type Briefs struct {
	limit int
	of    map[overlay.ID]said // the last words of each key
}

// said is what words say.
type said struct {
	words string
	url   string
	brief brief
	ok    bool
}

// NewBriefs returns an empty memory of at most so many keys.
func NewBriefs(limit int) *Briefs { return &Briefs{limit: limit, of: map[overlay.ID]said{}} }

// ownBriefs is how many a node remembers that shares no memory: words are mostly looked at
// again at once.
const ownBriefs = 256

// parseWords reads what pollers are told of a channel; ok is false if it is nothing that
// this node polls.
func (c *Corona) parseWords(key overlay.ID, words []byte) (url string, b brief, ok bool) {
	s, known := c.cfg.Briefs.of[key]
	if !known || s.words != string(words) {
		s = said{words: string(words)}
		s.url, s.brief, s.ok = c.readWords(key, words)
		if len(c.cfg.Briefs.of) >= c.cfg.Briefs.limit && !known {
			clear(c.cfg.Briefs.of)
		}
		c.cfg.Briefs.of[key] = s
	}
	return s.url, s.brief, s.ok
}

func (c *Corona) readWords(key overlay.ID, words []byte) (url string, b brief, ok bool) {
	m := new(coronapb.Words)
	if proto.Unmarshal(words, m) != nil || len(m.Url) > maxURL || m.SkipHours >= 1<<24 || m.SkipDays >= 1<<7 ||
		!(m.Size >= 0 && m.Size <= math.MaxFloat32) {
		return "", brief{}, false
	}
	if spelled, err := feed.Canonical(m.Url); err != nil || spelled != m.Url || overlay.Key(c.cfg.Network, m.Url) != key {
		return "", brief{}, false
	}
	update := min(m.UpdateMs, uint64(honeycomb.MaxUpdate.Milliseconds()))
	return m.Url, brief{
		skips:   skips{m.SkipHours, uint8(m.SkipDays)},
		readers: int(m.Readers), size: float64(m.Size), update: time.Duration(update) * time.Millisecond, grant: m.Grant,
	}, true
}
