package firehose

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// Bounds of messages.
const (
	maxRecords  = 8
	maxEpoch    = 12 << 10
	maxURL      = 2 << 10
	maxTitle    = 1 << 10
	maxLink     = 2 << 10
	maxLanguage = 64
	// maxChannelEpochs bounds the verified epochs of channels that are remembered. At the bound all are forgotten.
	maxChannelEpochs = 4096
)

// A Dispatch is a new entry of a channel.
type Dispatch struct {
	URL      string
	Title    string // of the feed; "" if it is not known
	Link     string
	Language string
	Entry    *owner.Entry
	Body     []byte
}

// parse decodes a message and checks its bounds, so that no other code has to.
func parse(body []byte, shards int) (*firehosepb.Message, error) {
	m := new(firehosepb.Message)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	shard, what := uint32(0), ""
	switch b := m.Body.(type) {
	case *firehosepb.Message_Listen:
		if shard = b.Listen.Shard; len(b.Listen.Record) > overlay.MaxRecord || b.Listen.SinceMs > wire.MaxMillis {
			what = "listen"
		}
	case *firehosepb.Message_ListenAck:
		if shard = b.ListenAck.Shard; tooMany(b.ListenAck.Records) {
			what = "meet"
		}
	case *firehosepb.Message_Direct:
	case *firehosepb.Message_Part:
		p := b.Part
		if shard = p.Shard; !isHash(p.Report) || p.Size > maxReportSize || p.Offset > p.Size || len(p.Bytes) == 0 || len(p.Bytes) > int(p.Size-p.Offset) {
			what = "part"
		}
	case *firehosepb.Message_PartAck:
		if shard = b.PartAck.Shard; !isHash(b.PartAck.Report) {
			what = "ack"
		}
	case *firehosepb.Message_Request:
		if shard = b.Request.Shard; !isHash(b.Request.Key) || !isHash(b.Request.Entry) {
			what = "lack"
		}
	default:
		what = "body"
	}
	if what == "" && int(shard) >= shards {
		what = "shard"
	}
	if what != "" {
		return nil, fmt.Errorf("%w: firehose message: %s", env.ErrFrame, what)
	}
	return m, nil
}

func tooMany(records [][]byte) bool {
	return len(records) > maxRecords || slices.ContainsFunc(records, func(r []byte) bool { return len(r) > overlay.MaxRecord })
}

func isHash(b []byte) bool { return len(b) == len(owner.Hash{}) }

// openDispatch decodes a dispatch. It checks that the entry is signed, and that the body and the URL are the entry's. It
// does not check whether the signer is the channel's sequencer.
func openDispatch(verify wire.Verifier, network string, raw []byte) (Dispatch, error) {
	m := new(firehosepb.Dispatch)
	if err := proto.Unmarshal(raw, m); err != nil {
		return Dispatch{}, fmt.Errorf("dispatch: %w", err)
	}
	if len(m.Url) > maxURL || len(m.Title) > maxTitle || len(m.Link) > maxLink || len(m.Language) > maxLanguage {
		return Dispatch{}, fmt.Errorf("dispatch of %q: out of bounds", clip(m.Url, 100))
	}
	e, err := owner.OpenEntry(verify, m.Entry)
	if err != nil {
		return Dispatch{}, fmt.Errorf("dispatch of %s: %w", m.Url, err)
	}
	if e.Key != overlay.Key(network, m.Url) || len(m.Body) != e.Size || owner.HashOf(m.Body) != e.Body {
		return Dispatch{}, fmt.Errorf("dispatch of %s: URL or body do not belong to the entry", m.Url)
	}
	return Dispatch{m.Url, m.Title, m.Link, m.Language, e, m.Body}, nil
}

// bytes encodes a dispatch for openDispatch.
func (d *Dispatch) bytes() []byte {
	return wire.Encode(&firehosepb.Dispatch{
		Url: d.URL, Title: clip(d.Title, maxTitle), Link: clip(d.Link, maxLink), Language: clip(d.Language, maxLanguage),
		Entry: d.Entry.Raw(), Body: d.Body,
	})
}

// openReport decodes a report. It does not check the epoch.
func openReport(verify wire.Verifier, network string, blob []byte) (*firehosepb.Report, Dispatch, error) {
	m := new(firehosepb.Report)
	if err := proto.Unmarshal(blob, m); err != nil {
		return nil, Dispatch{}, fmt.Errorf("report: %w", err)
	}
	if len(m.Epoch) > maxEpoch {
		return nil, Dispatch{}, fmt.Errorf("report: out of bounds")
	}
	d, err := openDispatch(verify, network, m.Dispatch)
	return m, d, err
}

// openBroadcast decodes the payload of a broadcast and checks its bounds.
func openBroadcast(payload []byte, shard int) (*firehosepb.Broadcast, error) {
	m := new(firehosepb.Broadcast)
	if err := proto.Unmarshal(payload, m); err != nil {
		return nil, fmt.Errorf("broadcast: %w", err)
	}
	kinds := 0
	for _, is := range []bool{m.Digest != nil, m.List != nil, len(m.Dispatch) > 0} {
		if is {
			kinds++
		}
	}
	lines := slices.Concat(m.Digest.GetEntries(), m.List.GetEntries())
	bad := kinds != 1 || int(m.Shard) != shard || m.TimeMs > wire.MaxMillis || len(lines) > maxListed ||
		m.Digest.GetSinceMs() > wire.MaxMillis || m.Digest.GetUntilMs() > wire.MaxMillis || len(m.Digest.GetSums()) > maxMinutes ||
		len(m.List.GetMinutes()) > maxMinutes
	for _, l := range lines {
		bad = bad || !isHash(l.Key) || !isHash(l.Entry)
	}
	if bad {
		return nil, fmt.Errorf("broadcast: out of bounds")
	}
	return m, nil
}

// An epochCache remembers channels' epochs whose signatures were verified, by the hash of their bytes. Each report contains
// the epoch of its channel, so that most reports need no verification of an epoch.
type epochCache struct{ verified map[owner.Hash]*owner.Epoch }

func (m *epochCache) open(o Owners, raw []byte) (*owner.Epoch, error) {
	h := owner.HashOf(raw)
	if e := m.verified[h]; e != nil {
		return e, nil
	}
	e, err := o.OpenEpoch(raw)
	if err != nil {
		return nil, err
	}
	if m.verified == nil || len(m.verified) >= maxChannelEpochs {
		m.verified = map[owner.Hash]*owner.Epoch{}
	}
	m.verified[h] = e
	return e, nil
}

// clip shortens a text to at most so many bytes of whole characters.
func clip(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return strings.ToValidUTF8(s, "")
}

// The functions below sort the keys of maps, so that the order of a map never decides about a message.

func sortedHashes[V any](m map[owner.Hash]V) []owner.Hash {
	return slices.SortedFunc(maps.Keys(m), func(a, b owner.Hash) int { return bytes.Compare(a[:], b[:]) })
}

func sortedPeers[V any](m map[env.PeerID]V) []env.PeerID { return slices.Sorted(maps.Keys(m)) }
