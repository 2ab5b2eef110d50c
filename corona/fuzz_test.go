package corona

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"tidings/corona/coronapb"
	"tidings/corona/websub"
	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

// FuzzState parses any bytes as a state: a parsed state is within bounds and survives a round trip.
func FuzzState(f *testing.F) {
	at := time.UnixMilli(1772442000000).UTC()
	f.Add([]byte{})
	f.Add(State{Kind: coronapb.State_OK, Since: at, Polled: at, Next: at.Add(time.Hour), Why: "the feed's ttl", Readers: 7}.Append())
	f.Add(State{Kind: coronapb.State_GONE, Detail: "410", Moved: "http://b.example/"}.Append())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseState(b)
		if err != nil {
			return
		}
		if len(s.Detail) > maxDetail || len(s.Why) > maxWhy || len(s.Moved) > maxMoved {
			t.Errorf("a state beyond bounds: %+v", s)
		}
		again, err := ParseState(s.Append())
		if err != nil || again != s {
			t.Errorf("%+v became %+v, %v", s, again, err)
		}
		_ = s.String()
		_ = s.Projected(at, at)
	})
}

// FuzzNote parses any bytes as a note, as a malicious owner could leave it: a parsed note survives
// a round trip, and a sequencer continues from it.
func FuzzNote(f *testing.F) {
	f.Add([]byte{})
	f.Add(note{valid: validators{`"1"`, "Mon, 02 Mar 2026 09:00:00 GMT", "http://a.example/"}, interval: time.Hour, fails: 3, weight: 2}.append())
	f.Add(note{push: &pushing{topic: websub.Topic{Hub: "http://hub.example/", URL: "http://a.example/"}, member: "somebody", trusted: true}}.append())
	f.Fuzz(func(t *testing.T, b []byte) {
		n, ok := parseNote(b)
		if !ok {
			return
		}
		again, ok := parseNote(n.append())
		n.State.Detail, n.State.Why, n.State.Moved = truncate(n.State.Detail, maxDetail), truncate(n.State.Why, maxWhy), truncate(n.State.Moved, maxMoved)
		if !ok || !reflect.DeepEqual(again, n) {
			t.Errorf("%+v became %+v", n, again)
		}
		l := newLab(t)
		l.origins["http://a.example/"] = serves(rss("A", "", "one"))
		p := l.poller(Config{})
		log := p.lead("http://a.example/", &channelLog{note: b})
		l.run(3*time.Hour, p)
		if titles(log.items) != "one" {
			t.Errorf("%+v: found %q", n, titles(log.items))
		}
	})
}

// Text that is too long is truncated between two characters, whatever bytes it consists of.
func TestTextIsTruncatedBetweenCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "words")
		most := rapid.IntRange(0, 40).Draw(t, "most")
		got := truncate(s, most)
		if len(got) > most || !utf8.ValidString(got) || utf8.ValidString(s) && !strings.HasPrefix(s, got) {
			t.Errorf("%q cut to %d is %q", s, most, got)
		}
		if utf8.ValidString(s) && len(s) > most && len(got) < most-utf8.UTFMax+1 {
			t.Errorf("%q cut to %d is %q, more than needed", s, most, got)
		}
	})
}

// Validators that are too large or not valid text are left out of the note. The next poll then
// fetches the whole document once.
func TestValidatorsThatDoNotFitAreLeftOut(t *testing.T) {
	for what, v := range map[string]validators{
		"too long":  {etag: strings.Repeat("x", maxValidator+1)},
		"no text":   {etag: "\xff\xfe"},
		"long URL":  {url: strings.Repeat("x", maxURL+1)},
		"long date": {lastModified: strings.Repeat("x", maxValidator+1)},
	} {
		b := note{valid: v, fails: 2}.append()
		if n, ok := parseNote(b); !ok || n.valid != (validators{}) || n.fails != 2 || bytes.Contains(b, []byte("xxx")) {
			t.Errorf("%s: %+v, %v", what, n, ok)
		}
	}
}

// changeReport signs a poller's observation.
func changeReport(p *labNode, m *coronapb.Observation) *coronapb.Message {
	return &coronapb.Message{Body: &coronapb.Message_Change{Change: &coronapb.ChangeReport{
		Key: m.Key, Observation: p.signer.Sign(wire.DomainObservation, wire.Encode(m)).Raw,
	}}}
}

// FuzzObservation lets a member sign any bytes as an observation. The sequencer survives, and other
// nodes can read what it appends to its log.
func FuzzObservation(f *testing.F) {
	const url = "http://a.example/"
	k := key(url)
	doc, err := feed.Parse([]byte(rss("A", "", "one", "two")), "")
	if err != nil {
		f.Fatal(err)
	}
	l := newLab(nil)
	for _, head := range []*feed.Head{nil, &doc.Head} {
		r := observation{f: doc, valid: validators{"e", "m", url}}
		m := r.message(k, fingerprintsOf(doc))
		m.Nonce, m.Poller, m.AtMs = 7, l.poller(Config{}).node.Self().Raw, uint64(l.now.UnixMilli())
		d := difference.Delta{Head: head}
		for _, it := range doc.Items {
			d.Changes = append(d.Changes, difference.Change{Item: it})
		}
		if m.Delta, err = d.Encode(); err != nil {
			f.Fatal(err)
		}
		f.Add(wire.Encode(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newLab(t)
		l.origins[url] = serves(rss("A", "", "one"))
		p := l.poller(Config{Callbacks: "http://node.example/websub/"})
		log := p.lead(url, nil)
		l.run(time.Minute, p)
		raw := p.signer.Sign(wire.DomainObservation, b).Raw
		if len(raw) > overlay.MaxPayload {
			return
		}
		m := wire.Encode(&coronapb.Message{Body: &coronapb.Message_Change{Change: &coronapb.ChangeReport{Key: k[:], Observation: raw}}})
		if err := p.Receive(p.signer.PeerID(), m); err != nil {
			t.Errorf("%q: %v", b, err)
		}
		l.run(5*time.Minute, p)
		for _, d := range log.found[1:] {
			if d.Head != nil && len(d.Head.Raw) == 0 {
				t.Errorf("an entry with a head that nobody can read: %q", b)
			}
		}
	})
}

// FuzzMessage delivers any bytes, in every possible way, to a node that leads and polls a channel
// and to one with a pending report. Both survive.
func FuzzMessage(f *testing.F) {
	const url = "http://a.example/"
	k := key(url)
	doc, err := feed.Parse([]byte(rss("A", "", "one", "two")), "")
	if err != nil {
		f.Fatal(err)
	}
	r := observation{f: doc, valid: validators{"e", "m", url}}
	m := r.message(k, fingerprintsOf(doc))
	m.Nonce = 7
	l := newLab(nil)
	record := l.poller(Config{}).node.Self().Raw
	m.Poller = record
	for _, b := range []*coronapb.Message{
		changeReport(l.poller(Config{}), m),
		{Body: &coronapb.Message_ItemRequest{ItemRequest: &coronapb.ItemRequest{Key: k[:], Nonce: 7, Items: []uint32{0, 1}}}},
		{Body: &coronapb.Message_ItemChunk{ItemChunk: &coronapb.ItemChunk{Key: k[:], Nonce: 7, Size: 9, Data: []byte("delta")}}},
		l.poller(Config{}).reports.signStatus(k, State{Kind: coronapb.State_LIMITED, Polled: l.now, Next: l.now.Add(1)}, false),
		{Body: &coronapb.Message_PushOrder{PushOrder: &coronapb.PushOrder{Key: k[:], Url: url, Hub: "http://hub.example/", Topic: url}}},
		{Body: &coronapb.Message_Hint{Hint: &coronapb.Hint{Key: k[:]}}},
		{Body: &coronapb.Message_PushStatus{PushStatus: &coronapb.PushStatus{Key: k[:], Kind: coronapb.PushStatus_SUBSCRIBED, Hint: true}}},
		(&snapshot{valid: r.valid, fingerprints: fingerprintsOf(doc), digest: digest(fingerprintsOf(doc))}).message(k, 7, time.Hour, 0),
	} {
		f.Add(wire.Encode(b))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newLab(t)
		l.origins[url] = serves(rss("A", "", "one"))
		p := l.poller(Config{})
		log := p.lead(url, nil)
		l.run(time.Minute, p)
		finder := l.poller(Config{})
		finder.Serve(k, wedgeDuty(channelParams{}.payload(url)))
		finder.reports.pending = []*pendingReport{{nonce: 7, key: k, observation: r, fingerprints: fingerprintsOf(doc), since: l.now}}
		for _, of := range []*labNode{p, finder} {
			err := of.Receive("somebody", b)
			if _, _, bad := parse(b); (err != nil) != (bad != nil) {
				t.Errorf("%q: %v, want %v", b, err, bad)
			}
			of.Deliver(k, b)
			of.Delivered(k, b)
		}
		l.origins[url] = serves(rss("A", "", "one", "three"))
		l.run(50*time.Minute, p, finder)
		if s := titles(log.items); !strings.Contains(s, "three") {
			t.Errorf("after %q the log has %q", b, s)
		}
		if len(finder.reports.pending) != 0 && finder.reports.pending[0].nonce == 7 || p.intake.fetching != len(p.leaders[k].itemFetches) {
			t.Errorf("after %q %d reports are pending, %d item fetches wait", b, len(finder.reports.pending), p.intake.fetching)
		}
	})
}
