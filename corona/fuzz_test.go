package corona

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

// FuzzState has any bytes read as a state that a sequencer sent: what is read is
// within bounds, and appended reads as the same.
func FuzzState(f *testing.F) {
	at := time.UnixMilli(1772442000000).UTC()
	f.Add([]byte{})
	f.Add(State{Kind: coronapb.State_OK, Since: at, Polled: at, Next: at.Add(time.Hour), Why: "the feed's ttl", Readers: 7}.Append())
	f.Add(State{Kind: coronapb.State_GONE, Words: "410", Moved: "http://b.example/"}.Append())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseState(b)
		if err != nil {
			return
		}
		if len(s.Words) > maxWords || len(s.Why) > maxWhy || len(s.Moved) > maxMoved {
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

// FuzzNote has any bytes read as a channel's record, as an owner that lies would
// leave it: what is read, appended reads as the same, and a poller goes on with it.
func FuzzNote(f *testing.F) {
	f.Add([]byte{})
	f.Add(note{valid: validators{`"1"`, "Mon, 02 Mar 2026 09:00:00 GMT", "http://a.example/"}, interval: time.Hour, fails: 3, weight: 2}.append())
	f.Fuzz(func(t *testing.T, b []byte) {
		n, ok := parseNote(b)
		if !ok {
			return
		}
		again, ok := parseNote(n.append())
		n.State.Words, n.State.Why, n.State.Moved = cut(n.State.Words, maxWords), cut(n.State.Why, maxWhy), cut(n.State.Moved, maxMoved)
		if !ok || again != n {
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

// Words that are too long are cut between two characters, whatever bytes they are.
func TestWordsAreCutAtTheEndOfACharacter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "words")
		most := rapid.IntRange(0, 40).Draw(t, "most")
		got := cut(s, most)
		if len(got) > most || !utf8.ValidString(got) || utf8.ValidString(s) && !strings.HasPrefix(s, got) {
			t.Errorf("%q cut to %d is %q", s, most, got)
		}
		if utf8.ValidString(s) && len(s) > most && len(got) < most-utf8.UTFMax+1 {
			t.Errorf("%q cut to %d is %q, more than needed", s, most, got)
		}
	})
}

// Validators that are too large, or no text, are left out of the record: the next
// poller then asks for the whole document once.
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

// changeReport is what a poller tells the sequencer of a document.
func changeReport(p *poller, m *coronapb.Reading) *coronapb.Message {
	return &coronapb.Message{Body: &coronapb.Message_Change{Change: &coronapb.ChangeReport{
		Key: m.Key, Reading: p.signer.Sign(wire.DomainReading, marshal(m)).Raw,
	}}}
}

// FuzzReading has any bytes signed by a member as a document that it has read. The sequencer goes
// on, and what it appends to its log can be read by others.
func FuzzReading(f *testing.F) {
	const url = "http://a.example/"
	k := key(url)
	doc, err := feed.Parse([]byte(rss("A", "", "one", "two")), "")
	if err != nil {
		f.Fatal(err)
	}
	l := newLab(nil)
	for _, head := range []*feed.Head{nil, &doc.Head} {
		r := reading{f: doc, valid: validators{"e", "m", url}}
		m := r.message(k, prints(doc))
		m.Nonce, m.Poller, m.AtMs = 7, l.poller(Config{}).node.Self().Raw, uint64(l.now.UnixMilli())
		d := difference.Delta{Head: head}
		for _, it := range doc.Items {
			d.Changes = append(d.Changes, difference.Change{Item: it})
		}
		if m.Delta, err = d.Encode(); err != nil {
			f.Fatal(err)
		}
		f.Add(marshal(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newLab(t)
		l.origins[url] = serves(rss("A", "", "one"))
		p := l.poller(Config{})
		log := p.lead(url, nil)
		l.run(time.Minute, p)
		raw := p.signer.Sign(wire.DomainReading, b).Raw
		if len(raw) > overlay.MaxPayload {
			return
		}
		m := marshal(&coronapb.Message{Body: &coronapb.Message_Change{Change: &coronapb.ChangeReport{Key: k[:], Reading: raw}}})
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

// FuzzMessage has any bytes come to a node that leads a channel and polls it, and to one that
// has a finding of it under way, by every way there is. Whatever they are, both go on.
func FuzzMessage(f *testing.F) {
	const url = "http://a.example/"
	k := key(url)
	doc, err := feed.Parse([]byte(rss("A", "", "one", "two")), "")
	if err != nil {
		f.Fatal(err)
	}
	r := reading{f: doc, valid: validators{"e", "m", url}}
	m := r.message(k, prints(doc))
	m.Nonce = 7
	l := newLab(nil)
	record := l.poller(Config{}).node.Self().Raw
	m.Poller = record
	for _, b := range []*coronapb.Message{
		changeReport(l.poller(Config{}), m),
		{Body: &coronapb.Message_Want{Want: &coronapb.Want{Key: k[:], Nonce: 7, Items: []uint32{0, 1}}}},
		{Body: &coronapb.Message_Part{Part: &coronapb.Part{Key: k[:], Nonce: 7, Size: 9, Data: []byte("delta")}}},
		l.poller(Config{}).reporting(k, State{Kind: coronapb.State_LIMITED, Polled: l.now, Next: l.now.Add(1)}),
		(&standing{valid: r.valid, prints: prints(doc), digest: digest(prints(doc))}).message(k, 7, time.Hour),
	} {
		f.Add(marshal(b))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newLab(t)
		l.origins[url] = serves(rss("A", "", "one"))
		p := l.poller(Config{})
		log := p.lead(url, nil)
		l.run(time.Minute, p)
		finder := l.poller(Config{})
		finder.Serve(k, wedgeDuty(brief{}.words(url)))
		finder.held = []*found{{nonce: 7, key: k, reading: r, prints: prints(doc), since: l.now}}
		for _, of := range []*poller{p, finder} {
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
		if len(finder.held) != 0 && finder.held[0].nonce == 7 || p.gathers != len(p.leads[k].gather) {
			t.Errorf("after %q %d findings are held, %d wait", b, len(finder.held), p.gathers)
		}
	})
}
