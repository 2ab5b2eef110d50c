package corona

import (
	"bytes"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/honeycomb"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

// channelParams is what pollers are told about a channel, beside its address.
type channelParams struct {
	skips   skips
	readers int
	grant   []byte // encoded grant of the domain's stewards; nil: none, or already checked
	at      string // the address that is polled, because the feed has moved there; "": the channel's own
	ticket  uint64 // pollers include it in their change reports
	// Only with Config.DAG, for nodes that decide for others:
	size   float64 // cost of a poll relative to the mean channel
	update time.Duration
}

// paramTolerance is the factor by which a parameter may change before pollers are told. No decision
// depends on smaller changes, and an update costs a message per poller.
const paramTolerance = 1.25

// differs says whether pollers must be told new parameters.
func (b channelParams) differs(now channelParams) bool {
	return b.skips != now.skips || b.ticket != now.ticket || b.at != now.at || !bytes.Equal(b.grant, now.grant) || differMuch(float64(b.readers), float64(now.readers)) ||
		differMuch(b.size, now.size) || differMuch(b.update.Seconds(), now.update.Seconds())
}

func differMuch(a, b float64) bool { return max(a, b) > paramTolerance*min(a, b) }

// payload encodes the parameters for the wedge.
func (b channelParams) payload(url string) []byte {
	return wire.Encode(&coronapb.ChannelParams{
		Url: url, SkipHours: b.skips.hours, SkipDays: uint32(b.skips.days),
		Readers: uint32(b.readers), Size: float32(b.size), UpdateMs: uint64(b.update.Milliseconds()), Grant: b.grant, Ticket: b.ticket, At: b.at,
	})
}

// PayloadCache remembers decoded payloads and snapshots, because a node reads a payload several
// times. Nodes that run on one goroutine can share a cache and the decoded values.
type PayloadCache struct {
	limit   int
	entries map[overlay.ID]*cachedPayload
}

// cachedPayload holds what was last decoded for a key.
type cachedPayload struct {
	payload []byte
	target  *pollTarget // nil: the payload is invalid
	grant   []byte

	snapshotBody []byte // an encoded snapshot; nil: none was decoded
	notice       snapshotNotice
}

// pollTarget is a decoded payload without its grant, which is checked once. It is immutable.
type pollTarget struct {
	key     overlay.ID
	url     string
	domain  string // registrable domain of the origin
	private bool   // the address names a private host
	params  channelParams
}

// snapshotNotice is a decoded snapshot message.
type snapshotNotice struct {
	snapshot   *snapshot
	nonce      uint64        // of the observation that it answers; 0: it is for all pollers
	limitedFor time.Duration // how long all pollers leave the origin alone
	failing    int           // nodes whose polls fail, while no other node has read the channel
}

func noticeFrom(m *coronapb.Snapshot) snapshotNotice {
	s := &snapshot{valid: validatorsFrom(m.Valid), digest: m.Digest, head: m.Head}
	if len(m.Fingerprints) > 0 {
		s.fingerprints = parseFingerprints(m.Fingerprints)
	}
	return snapshotNotice{s, m.Nonce, span(m.LimitedMs), int(min(m.Failing, maxFailing))}
}

// NewPayloadCache returns an empty cache of at most so many keys. A full cache is cleared.
func NewPayloadCache(limit int) *PayloadCache {
	return &PayloadCache{limit: limit, entries: map[overlay.ID]*cachedPayload{}}
}

// entry returns the entry of a key, making one if there is none.
func (b *PayloadCache) entry(key overlay.ID) *cachedPayload {
	h := b.entries[key]
	if h == nil {
		if len(b.entries) >= b.limit {
			clear(b.entries)
		}
		h = &cachedPayload{}
		b.entries[key] = h
	}
	return h
}

// notice decodes a snapshot for all pollers of a channel; ok is false if it is invalid.
func (b *PayloadCache) notice(key overlay.ID, body []byte) (t snapshotNotice, ok bool) {
	h := b.entry(key)
	if h.snapshotBody != nil && bytes.Equal(h.snapshotBody, body) {
		return h.notice, true
	}
	m, of, err := parse(body)
	if err != nil || of != key || m.GetSnapshot() == nil {
		return snapshotNotice{}, false
	}
	h.snapshotBody, h.notice = bytes.Clone(body), noticeFrom(m.GetSnapshot())
	return h.notice, true
}

// snapshotMessage encodes a snapshot for a newly enlisted poller.
func (b *PayloadCache) snapshotMessage(key overlay.ID, s *snapshot, limitedFor time.Duration, failing int) []byte {
	if h := b.entries[key]; h != nil && h.notice.snapshot == s && h.notice.nonce == 0 && h.notice.limitedFor == 0 && limitedFor <= 0 && h.notice.failing == failing {
		return h.snapshotBody
	}
	return wire.Encode(s.message(key, 0, limitedFor, failing))
}

// ownPayloads is the size of a cache that is not shared. A payload is usually read again at once.
const ownPayloads = 256

// parsePayload decodes a payload and the grant in it; s is nil if this node cannot poll by the
// payload.
func (b *base) parsePayload(key overlay.ID, payload []byte) (s *pollTarget, grant []byte) {
	h := b.cfg.Payloads.entry(key)
	if h.payload == nil || !bytes.Equal(h.payload, payload) {
		h.payload = append([]byte{}, payload...)
		h.target, h.grant = b.readPayload(key, payload)
	}
	return h.target, h.grant
}

func (b *base) readPayload(key overlay.ID, payload []byte) (s *pollTarget, grant []byte) {
	m := new(coronapb.ChannelParams)
	if proto.Unmarshal(payload, m) != nil || len(m.Url) > maxURL || m.SkipHours >= 1<<24 || m.SkipDays >= 1<<7 ||
		!(m.Size >= 0 && m.Size <= math.MaxFloat32) {
		return nil, nil
	}
	if spelled, err := feed.Canonical(m.Url); err != nil || spelled != m.Url || overlay.Key(b.cfg.Network, m.Url) != key {
		return nil, nil
	}
	// Pollers ask this address only after the channel's own one has redirected them there.
	if at, err := feed.Canonical(m.At); m.At != "" && (err != nil || at != m.At || len(at) > maxURL) {
		return nil, nil
	}
	update := min(m.UpdateMs, uint64(honeycomb.MaxUpdate.Milliseconds()))
	s = &pollTarget{key: key, url: m.Url, params: channelParams{
		skips:   skips{m.SkipHours, uint8(m.SkipDays)},
		ticket:  m.Ticket,
		at:      m.At,
		readers: int(m.Readers), size: float64(m.Size), update: time.Duration(update) * time.Millisecond,
	}}
	s.domain, s.private = Origin(m.Url)
	return s, m.Grant
}
