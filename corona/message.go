package corona

import (
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

// maxRecord is the size of the largest record of a node, in bytes.
const maxRecord = 1 << 10

// maxReport is more than the size of the longest report, in bytes.
const maxReport = 8 << 10

// parse reads a message and checks every bound, so that no other code has to.
func parse(body []byte) (*coronapb.Message, overlay.ID, error) {
	m := new(coronapb.Message)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, overlay.ID{}, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	var key []byte
	what := "body"
	switch b := m.Body.(type) {
	case *coronapb.Message_Change:
		if key, what = b.Change.Key, ""; len(b.Change.Reading) > overlay.MaxPayload {
			what = "change"
		}
	case *coronapb.Message_Want:
		key, what = b.Want.Key, breaksWant(b.Want)
	case *coronapb.Message_Part:
		key, what = b.Part.Key, breaksPart(b.Part)
	case *coronapb.Message_Standing:
		key, what = b.Standing.Key, breaksStanding(b.Standing)
	case *coronapb.Message_Report:
		if key, what = b.Report.Key, ""; len(b.Report.Told) > maxReport {
			what = "report"
		}
	case *coronapb.Message_Politeness:
		if what = breaksPoliteness(b.Politeness); what == "" {
			return m, overlay.ID{}, nil
		}
	}
	if what == "" && len(key) != len(overlay.ID{}) {
		what = "key"
	}
	if what != "" {
		return nil, overlay.ID{}, fmt.Errorf("%w: corona message: %s", env.ErrFrame, what)
	}
	return m, overlay.ID(key), nil
}

// parseReading reads what a poller has signed, and checks its bounds.
func parseReading(payload []byte) (*coronapb.Reading, error) {
	m := new(coronapb.Reading)
	if err := proto.Unmarshal(payload, m); err != nil {
		return nil, fmt.Errorf("%w: reading: %w", env.ErrFrame, err)
	}
	if what := breaksReading(m); what != "" {
		return nil, fmt.Errorf("%w: reading: %s", env.ErrFrame, what)
	}
	return m, nil
}

func breaksReading(m *coronapb.Reading) string {
	switch f := m.Facts; {
	case len(m.Key) != len(overlay.ID{}):
		return "key"
	case len(m.Poller) > maxRecord:
		return "poller"
	case len(m.Prints)%printSize != 0 || len(m.Prints)/printSize > feed.MaxItems:
		return "prints"
	case len(m.Delta) > maxInline:
		return "delta"
	case breaksValidators(m.Valid):
		return "validators"
	case f.GetSkipHours() >= 1<<24 || f.GetSkipDays() >= 1<<7 || len(f.GetLacks()) > maxWords || len(f.GetMoved()) > maxMoved:
		return "facts"
	}
	return ""
}

func breaksWant(m *coronapb.Want) string {
	if len(m.Items) > feed.MaxItems || m.Offset > maxParts {
		return "want"
	}
	for i, at := range m.Items {
		if at >= feed.MaxItems || i > 0 && at <= m.Items[i-1] {
			return "want: items"
		}
	}
	return ""
}

func breaksPart(m *coronapb.Part) string {
	if m.Size > maxParts || m.Offset > m.Size || len(m.Data) > partSize {
		return "part"
	}
	return ""
}

func breaksStanding(m *coronapb.Standing) string {
	if breaksValidators(m.Valid) || len(m.Prints)%printSize != 0 || len(m.Prints)/printSize > maxTold {
		return "standing"
	}
	return ""
}

func breaksValidators(v *coronapb.Validators) bool {
	return len(v.GetEtag()) > maxValidator || len(v.GetLastModified()) > maxValidator || len(v.GetFinalUrl()) > maxURL
}

// breaksTold refuses, beside what is too large, what no poll can end with.
func breaksTold(m *coronapb.Told) string {
	if kind := m.GetState().GetKind(); kind <= coronapb.State_NEW || kind >= coronapb.State_IDLE {
		return "state: kind"
	}
	return breaksState(m.State)
}

// maxLevel is more than the bits of an id.
const maxLevel = 1 << 9

func breaksState(m *coronapb.State) string {
	if len(m.GetWords()) > maxWords || len(m.GetWhy()) > maxWhy || len(m.GetMoved()) > maxMoved ||
		max(m.GetSinceMs(), m.GetPolledMs(), m.GetNextMs()) > maxMillis || m.GetPollers() > maxPollers || m.GetBudget() > maxPollers || m.GetLevel() > maxLevel {
		return "state"
	}
	return ""
}

// Receive takes a message from a poller or a sequencer.
func (c *Corona) Receive(from env.PeerID, body []byte) error {
	m, key, err := parse(body)
	if err != nil {
		return err
	}
	if p := m.GetPoliteness(); p != nil {
		c.takePoliteness(from, p)
		return nil
	}
	c.take(key, from, m)
	return nil
}

// Deliver takes a message that was routed to a key: its sequencer is this node, or one
// that this node knows.
func (c *Corona) Deliver(key overlay.ID, body []byte) {
	m, of, err := parse(body)
	if p := m.GetPoliteness(); err == nil && p != nil {
		c.deliverPoliteness(key, p)
		return
	}
	if err != nil || of != key || m.GetChange() == nil && m.GetReport() == nil {
		c.stats.Garbage++
		return
	}
	if c.leads[key] != nil {
		c.take(key, "", m)
	} else if to, ok := c.app.Leader(key); ok && to.ID != c.node.Self().Peer.ID {
		c.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Corona, m))
	} // else the poller asks again
}

// Delivered takes what the sequencer of a channel has sent to all its pollers. It changes no plan: a poll looks at
// it when it is due.
func (c *Corona) Delivered(key overlay.ID, body []byte) {
	t, ok := c.cfg.Briefs.told(key, body)
	if !ok {
		c.stats.Garbage++
		return
	}
	c.onStanding(key, t)
}

// take brings a message to the part of this node that it is for. from is empty if it was
// routed here.
func (c *Corona) take(key overlay.ID, from env.PeerID, m *coronapb.Message) {
	l := c.leads[key]
	switch b := m.Body.(type) {
	case *coronapb.Message_Change:
		if l == nil {
			c.stats.Astray++
			return
		}
		c.onChange(l, from, b.Change)
	case *coronapb.Message_Report:
		if l == nil {
			c.stats.Astray++
			return
		}
		c.onReport(l, b.Report)
	case *coronapb.Message_Part:
		if l != nil {
			c.onPart(l, from, b.Part)
		}
	case *coronapb.Message_Want:
		c.onWant(from, b.Want)
	case *coronapb.Message_Standing:
		// Only who was told of a finding can answer it; to all it comes down the wedge.
		if w := c.found(b.Standing.Nonce); w != nil && w.key == key {
			c.onStanding(key, toldBy(b.Standing))
		}
	}
}

// tell sends a message to the sequencer of a channel, if this node knows who that is, once;
// else to the root of its key, which passes it on.
func (c *Corona) tell(key overlay.ID, m *coronapb.Message, again bool) {
	if to, ok := c.app.Leader(key); ok && !again && to.ID != c.node.Self().Peer.ID {
		c.send(to, env.Control, m)
		return
	}
	c.node.Route(wire.Corona, key, marshal(m), func(overlay.Receipt, bool) {})
}

// send sends a message to a poller, or from there to the sequencer.
func (c *Corona) send(to env.Peer, class env.Class, m *coronapb.Message) {
	c.net.Send(to, class, wire.AppendFrame(nil, wire.Corona, m))
}

func (v validators) wire() *coronapb.Validators {
	if len(v.etag) > maxValidator || len(v.lastModified) > maxValidator || len(v.url) > maxURL ||
		!utf8.ValidString(v.etag) || !utf8.ValidString(v.lastModified) || !utf8.ValidString(v.url) {
		v = validators{} // who polls next asks for the whole document once
	}
	return &coronapb.Validators{Etag: v.etag, LastModified: v.lastModified, FinalUrl: v.url}
}

func validatorsFrom(m *coronapb.Validators) validators {
	return validators{m.GetEtag(), m.GetLastModified(), m.GetFinalUrl()}
}

// message encodes a reading, but for its items.
func (r *reading) message(key overlay.ID, of []imprint) *coronapb.Reading {
	h := r.f.Hints
	return &coronapb.Reading{
		Key: key[:], Valid: r.valid.wire(), Prints: appendPrints(nil, of), Handed: r.handed,
		Facts: &coronapb.Facts{
			TtlMs: uint64(h.TTL.Milliseconds()), PeriodMs: uint64(h.Period.Milliseconds()), MaxAgeMs: uint64(r.fresh.Milliseconds()),
			SkipHours: h.SkipHours, SkipDays: uint32(h.SkipDays),
			Lacks: cut(r.f.Lacks, maxWords), Moved: cut(r.moved, maxMoved), Private: r.private, Size: uint64(r.size),
		},
	}
}

// readingFrom decodes a reading, with bare items.
func readingFrom(m *coronapb.Reading, of []imprint) reading {
	t := m.Facts
	r := reading{
		valid: validatorsFrom(m.Valid), fresh: span(t.GetMaxAgeMs()), moved: t.GetMoved(), private: t.GetPrivate(),
		size: int(min(t.GetSize(), feed.MaxDocument)), handed: m.Handed,
		f: &feed.Feed{
			Hints: feed.Hints{TTL: span(t.GetTtlMs()), Period: span(t.GetPeriodMs()), SkipHours: t.GetSkipHours(), SkipDays: uint8(t.GetSkipDays())},
			Lacks: t.GetLacks(), Items: make([]feed.Item, len(of)),
		},
	}
	for i, p := range of {
		r.f.Items[i] = p.bare()
	}
	return r
}

// span is a time in milliseconds, at most the longest that anything here takes.
func span(ms uint64) time.Duration {
	return time.Duration(min(ms, uint64(longestRest.Milliseconds()))) * time.Millisecond
}

// message encodes a standing, in answer to a reading, or to none.
func (s *standing) message(key overlay.ID, nonce uint64, rest time.Duration) *coronapb.Message {
	m := &coronapb.Standing{Key: key[:], Nonce: nonce, Valid: s.valid.wire(), Digest: s.digest, RestMs: uint64(max(rest, 0).Milliseconds())}
	if len(s.prints) <= maxTold {
		m.Prints = appendPrints(nil, s.prints)
	}
	return &coronapb.Message{Body: &coronapb.Message_Standing{Standing: m}}
}

// maxTold is how many prints travel with a standing; of a document that shows more, all
// that is new to the log is asked for.
const maxTold = 64
