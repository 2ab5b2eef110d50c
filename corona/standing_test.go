package corona

import (
	"testing"
	"time"
)

// What a poller was told says what is news to it: prints, or their digest where they are too
// many; and what the sequencer has answered to is none, until it may be believed.
func TestAStandingSaysWhatIsNews(t *testing.T) {
	const url = "http://a.example/"
	l := newLab(t)
	p := l.poller(Config{})
	p.Serve(key(url), wedgeDuty(brief{}.words(url)))
	d := p.duties.Get(key(url))
	doc := func(items ...string) reading { return reading{f: parsed(t, rss("A", "", items...))} }
	of := func(items ...string) *standing {
		prints := prints(doc(items...).f)
		return &standing{prints: prints, digest: digest(prints)}
	}
	news := func(what string, r reading, want bool) {
		t.Helper()
		if d.isNews(&r, l.now) != want {
			t.Errorf("%s: news is %v", what, !want)
		}
	}
	news("without a word", doc("one"), true)
	p.Delivered(d.key(), marshal(of("one", "two").message(d.key(), 0, 0)))
	news("an item less", doc("one"), false)
	news("another item", doc("one", "three"), true)

	all := of(numbered(maxTold + 1)...)
	p.Delivered(d.key(), marshal(all.message(d.key(), 0, 0)))
	if d.standing.prints != nil {
		t.Fatalf("%d prints were told", len(d.standing.prints))
	}
	news("one less of many", doc(numbered(maxTold)...), true)
	news("as many", doc(numbered(maxTold+1)...), false)

	// The answer to what it found stands for the prints that it has itself.
	w := doc(numbered(maxTold + 2)...)
	p.find(d, w, l.now)
	found := of(numbered(maxTold + 2)...)
	if err := p.Receive("sequencer", marshal(found.message(d.key(), p.held[0].nonce, 0))); err != nil || len(p.held) != 0 {
		t.Fatalf("%v, %d findings are held", err, len(p.held))
	}
	news("one less of what it found", doc(numbered(maxTold+1)...), false)

	// Where the log stands elsewhere, what it found is no news for as long as a document is
	// not believed.
	p.find(d, doc("old", "one"), l.now)
	if err := p.Receive("sequencer", marshal(of("one").message(d.key(), p.held[0].nonce, 0))); err != nil || len(p.held) != 0 {
		t.Fatalf("%v, %d findings are held", err, len(p.held))
	}
	news("what was answered", doc("old", "one"), false)
	news("what is newer", doc("new", "one"), true)
	l.now = l.now.Add(doubtFor)
	news("what was answered, an hour ago", doc("old", "one"), true)

	// An answer to a finding of another channel is none.
	other := p.seat(duty{said: &said{key: key("http://b.example/")}})
	p.find(other, doc("b"), l.now.Add(time.Minute))
	p.Delivered(d.key(), marshal(of("one").message(d.key(), p.held[0].nonce, 0)))
	if len(p.held) != 1 {
		t.Error("a finding is forgotten for the word of another channel's sequencer")
	}
}
