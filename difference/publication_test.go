package difference

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/difference/differencepb"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

const itsURL = "https://example.org/feed.xml"

// keyOf returns a private key for a number.
func keyOf(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(n byte) ed25519.PublicKey { return keyOf(n).Public().(ed25519.PublicKey) }

// written returns an item of an RSS feed.
func written(t testing.TB, guid, title string) *feed.Item {
	t.Helper()
	raw := "<item><guid>" + guid + "</guid><dc:title>" + title + "</dc:title></item>"
	it, err := feed.ReadItem(feed.RSS, []byte(raw), []feed.Binding{{Prefix: "dc", URI: "http://purl.org/dc/elements/1.1/"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &it
}

func published(t testing.TB, key byte, seq uint64, prev feed.Hash, it *feed.Item) *Publication {
	t.Helper()
	p, err := Publish(keyOf(key), itsURL, seq, prev, time.Unix(1.78e9, 0), it)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAPublicationHasTheSignedItem(t *testing.T) {
	it := written(t, "1", "One")
	p := published(t, 1, 7, feed.Hash{1}, it)
	if !p.SignedBy(public(1)) || p.URL != itsURL || p.Seq != 7 || p.Prev != (feed.Hash{1}) || p.Time.Unix() != 1.78e9 || !bytes.Equal(p.Item.Raw, it.Raw) || p.Item.ID != it.ID || p.Item.Hash != it.Hash {
		t.Errorf("%+v", p)
	}
	for i := range p.Raw {
		changed := bytes.Clone(p.Raw)
		changed[i] ^= 4
		if got, err := OpenPublication(changed); err == nil && (!bytes.Equal(got.Key, p.Key) || got.Hash != p.Hash) {
			t.Fatalf("byte %d was changed, and it opens: %+v", i, got)
		}
	}
}

func TestOpenPublicationRefuses(t *testing.T) {
	sign := func(domain wire.Domain, network wire.Hash, change func(*differencepb.Publication)) []byte {
		m := &differencepb.Publication{Url: itsURL, Pubseq: 1, Format: 1, Raw: []byte("<item><guid>1</guid></item>")}
		change(m)
		return wire.NewSigner(keyOf(1), network).Sign(domain, wire.Encode(m)).Raw
	}
	same := func(*differencepb.Publication) {}
	if _, err := OpenPublication(sign(wire.DomainPublication, wire.Anywhere, same)); err != nil {
		t.Fatal(err)
	}
	largeOne := published(t, 1, 7, feed.Hash{}, written(t, "1", strings.Repeat("x", MaxEnvelope)))
	for _, c := range []struct {
		name string
		raw  []byte
		says string
	}{
		{"nothing", nil, "not an envelope"},
		{"of another domain", sign(wire.DomainEntry, wire.Anywhere, same), "wrong signature"},
		{"of one network", sign(wire.DomainPublication, wire.HashOf([]byte("one")), same), "wrong signature"},
		{"no feed", sign(wire.DomainPublication, wire.Anywhere, func(m *differencepb.Publication) { m.Url = "" }), "an address of 0 bytes"},
		{"a long address", sign(wire.DomainPublication, wire.Anywhere, func(m *differencepb.Publication) { m.Url = strings.Repeat("x", maxFeedURL+1) }), "an address of 2049 bytes"},
		{"no number", sign(wire.DomainPublication, wire.Anywhere, func(m *differencepb.Publication) { m.Pubseq = 0 }), "without a number"},
		{"no format", sign(wire.DomainPublication, wire.Anywhere, func(m *differencepb.Publication) { m.Format = 0 }), "without a format"},
		{"half a hash", sign(wire.DomainPublication, wire.Anywhere, func(m *differencepb.Publication) { m.Prev = []byte("half") }), "a hash of 4 bytes"},
		{"the zero hash", sign(wire.DomainPublication, wire.Anywhere, func(m *differencepb.Publication) { m.Prev = make([]byte, 32) }), "a hash"},
		{"the year 10000", sign(wire.DomainPublication, wire.Anywhere, func(m *differencepb.Publication) { m.TimeMs = wire.MaxMillis + 1 }), "a time that cannot be"},
		{"a broken item", sign(wire.DomainPublication, wire.Anywhere, func(m *differencepb.Publication) { m.Raw = []byte("<item>") }), "ends too early"},
		{"many bindings", sign(wire.DomainPublication, wire.Anywhere, func(m *differencepb.Publication) {
			for range feed.MaxScope + 1 {
				m.Scope = append(m.Scope, &differencepb.Binding{})
			}
		}), "more than 64 bindings"},
		{"too large", sign(wire.DomainPublication, wire.Anywhere, func(m *differencepb.Publication) {
			m.Raw = []byte("<item><title>" + strings.Repeat("x", MaxEnvelope) + "</title></item>")
		}), "more than 49152"},
		{"a content without a size", sign(wire.DomainPublication, wire.Anywhere, func(m *differencepb.Publication) { m.Raw, m.Content = nil, make([]byte, 32) }), "a content of 0 bytes"},
		{"a content beside an item", sign(wire.DomainPublication, wire.Anywhere, func(m *differencepb.Publication) { m.Content, m.Size = bytes.Repeat([]byte{1}, 32), 9 }), "a content of 9 bytes"},
		{"a content beyond the limit", sign(wire.DomainPublication, wire.Anywhere, func(m *differencepb.Publication) {
			m.Raw, m.Content, m.Size = nil, bytes.Repeat([]byte{1}, 32), feed.MaxItem+1
		}), "a content of 1048577 bytes"},
		{"a content that it does not name", withContent(sign(wire.DomainPublication, wire.Anywhere, func(*differencepb.Publication) {}), []byte("x")), "a content that it does not name"},
		{"a missing content", largeOne.Envelope(), "the content of its item is missing"},
		{"another content", withContent(largeOne.Envelope(), bytes.ToUpper(largeOne.Content())), "bytes that are not those of its item"},
	} {
		if _, err := OpenPublication(c.raw); !errors.Is(err, ErrPublication) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

// A large item is not in the envelope, which has its hash. Whoever has the envelope can verify it, and then the item.
func TestALargeItemFollowsItsEnvelope(t *testing.T) {
	for size, large := range map[int]bool{MaxEnvelope - 1000: false, MaxEnvelope: true, feed.MaxItem - 100: true} {
		it := written(t, "1", strings.Repeat("x", size))
		p := published(t, 1, 7, feed.Hash{1}, it)
		if (p.ContentSize() == len(it.Raw)) != large || bytes.Equal(p.Content(), it.Raw) != large || len(p.Envelope()) > MaxEnvelope || large && len(p.Envelope()) > 1<<10 {
			t.Errorf("%d bytes: a content of %d in an envelope of %d", size, p.ContentSize(), len(p.Envelope()))
		}
		got, err := OpenPublication(p.Raw)
		if err != nil || got.Item.Hash != it.Hash || got.Hash != p.Hash || !bytes.Equal(got.Item.Raw, it.Raw) {
			t.Errorf("%d bytes are read as %+v, %v", size, got, err)
		}
		announced, err := OpenAnnounced(p.Envelope())
		if err != nil || announced.IsBeat() || announced.Hash != p.Hash || (announced.Item == nil) != large {
			t.Fatalf("%d bytes are announced as %+v, %v", size, announced, err)
		}
		if !large {
			continue
		}
		full, err := announced.Complete(p.Content())
		if err != nil || !bytes.Equal(full.Raw, p.Raw) || full.Item.ID != it.ID {
			t.Errorf("%d bytes become %+v, %v", size, full, err)
		}
		b, err := Delta{Changes: []Change{{Item: *it, Publication: p}}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if d, err := Decode(b); err != nil || len(d.Changes) != 1 || !bytes.Equal(d.Changes[0].Publication.Raw, p.Raw) || d.Changes[0].Item.Hash != it.Hash {
			t.Errorf("a log has %d changes, %v", len(d.Changes), err)
		}
	}
}

// An item that shares its id with others of its document is not signed: a reader of the item alone cannot tell
// which one it is. An item beyond the limit stays at its origin.
func TestItemsThatCannotBeSigned(t *testing.T) {
	apart := written(t, "1", "One")
	apart.Qualifiers = 1
	large := *written(t, "1", "One")
	large.Raw = append(large.Raw, make([]byte, feed.MaxItem)...)
	wide := *written(t, "1", "One")
	for i := range feed.MaxScope - 1 {
		wide.Scope = append(wide.Scope, feed.Binding{Prefix: fmt.Sprintf("p%02d", i), URI: strings.Repeat("u", 1000)})
	}
	for _, c := range []struct {
		it   *feed.Item
		want error
	}{{apart, ErrItem}, {&large, ErrLarge}, {&large, ErrItem}, {&wide, ErrLarge}, {&feed.Item{Format: feed.RSS, Raw: []byte("<item>")}, ErrItem}} {
		if _, err := Publish(keyOf(1), itsURL, 1, feed.Hash{}, time.Unix(1, 0), c.it); !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
}

func TestADeltaCarriesPublicationsOnce(t *testing.T) {
	it := written(t, "1", strings.Repeat("long and not to be packed twice ", 50))
	p := published(t, 1, 1, feed.Hash{}, it)
	d := Delta{Pin: &Pin{Key: public(1), Since: time.Unix(1, 0).UTC()}, Changes: []Change{{Item: *p.Item, Publication: p, Edited: true}}}
	b, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	c := got.Changes[0]
	if c.Publication == nil || !bytes.Equal(c.Publication.Raw, p.Raw) || c.Item.ID != it.ID || c.Item.Hash != it.Hash || !c.Edited || !bytes.Equal(got.Pin.Key, public(1)) {
		t.Errorf("%+v", got)
	}
	m := changeMessage(&d.Changes[0])
	m.Publication[len(m.Publication)/2] ^= 1
	if _, err := Decode(pack(t, &differencepb.Delta{Changes: []*differencepb.Change{m}})); !errors.Is(err, ErrDelta) {
		t.Errorf("an item whose envelope was changed: %v", err)
	}
}

// A sequencer reads what it has encoded as its followers will, but does not verify the same bytes again. Other bytes are
// verified, wherever they stand.
func TestOwnPublicationsAreNotOpenedAgain(t *testing.T) {
	one := published(t, 1, 1, feed.Hash{}, written(t, "1", "One"))
	two := published(t, 1, 2, one.Hash, written(t, "2", "Two"))
	polled := Change{Item: *written(t, "3", "Three")}
	d := Delta{Changes: []Change{{Item: *one.Item, Publication: one}, polled, {Item: *two.Item, Publication: two}}}
	body, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	as, err := Decode(body)
	own, ownErr := DecodeOwn(body, d)
	if err != nil || ownErr != nil || !reflect.DeepEqual(own, as) {
		t.Errorf("%+v, %v; a follower reads %+v, %v", own, ownErr, as, err)
	}
	if own.Changes[0].Publication != one || own.Changes[2].Publication != two {
		t.Error("a publication was opened again")
	}
	forged := *one
	forged.Raw = bytes.Clone(one.Raw)
	forged.Raw[len(forged.Raw)-1] ^= 1
	for _, changes := range [][]Change{{d.Changes[2], {Publication: &forged}}, {{Publication: &forged}, d.Changes[2]}} {
		if body, err = (Delta{Changes: changes}).Encode(); err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeOwn(body, d); !errors.Is(err, ErrDelta) || len(got.Changes) != 1 || got.Changes[0].Publication.Hash != two.Hash {
			t.Errorf("a forged publication counts: %+v, %v", got, err)
		}
	}
}

// A signed version is not replaced by headlines of the same identity, and a newer signed version replaces
// everything.
func TestASignedVersionWins(t *testing.T) {
	var w Window
	full := published(t, 1, 1, feed.Hash{}, written(t, "1", "all of the story"))
	again := published(t, 1, 2, full.Hash, written(t, "1", "all of the story, mended"))
	headline := *written(t, "1", "a headline")
	at := time.Unix(1, 0)
	for i, step := range []struct {
		c    Change
		want feed.Hash
		sign bool
	}{
		{Change{Item: headline}, headline.Hash, false},
		{Change{Item: *full.Item, Publication: full}, full.Item.Hash, true},
		{Change{Item: *written(t, "1", "another headline")}, full.Item.Hash, true},
		{Change{Item: *again.Item, Publication: again}, again.Item.Hash, true},
		// It is renewed before the log forgets it: it stays, without its signature.
		{Change{Item: *again.Item}, again.Item.Hash, false},
	} {
		w.Apply(Delta{Changes: []Change{step.c}}, at, uint64(i+1))
		if e, _ := w.Entry(headline.ID); e.Hash != step.want || e.Signed != step.sign {
			t.Errorf("step %d: %+v", i, e)
		}
	}
}

// "Every subscriber knows whether something is missing": the sequencer of a log cannot leave out a publication,
// nor put an older version behind a newer one, without being detected.
func TestALogCannotHideItsPublishersOrder(t *testing.T) {
	one := published(t, 1, 4, feed.Hash{}, written(t, "1", "One"))
	two := published(t, 1, 5, one.Hash, written(t, "2", "Two"))
	edited := published(t, 1, 6, two.Hash, written(t, "1", "One, edited"))
	four := published(t, 1, 7, edited.Hash, written(t, "4", "Four"))
	other := published(t, 1, 7, two.Hash, written(t, "4", "Four, of a second history"))
	stranger := published(t, 2, 9, feed.Hash{}, written(t, "5", "Five"))
	pin := &Pin{Key: public(1)}
	counted := pin.Advance(edited)
	for _, c := range []struct {
		name  string
		of    []*Publication
		pin   *Pin // in the last delta
		lacks uint64
		first string
	}{
		{"all in order; the first may have any number", []*Publication{one, two, edited, four}, nil, 0, "One, edited"},
		{"one left out", []*Publication{one, edited, four}, nil, 1, "One, edited"},
		{"two left out", []*Publication{one, four}, nil, 2, "One"},
		{"a second history", []*Publication{one, two, edited, other}, nil, 1, "One, edited"},
		{"an older version behind a newer one", []*Publication{one, two, edited, one}, nil, 0, "One, edited"},
		{"a stranger's numbers", []*Publication{one, stranger}, nil, 0, "One"},
		{"numbers that a pin passes over", []*Publication{one}, counted, 2, "One"},
		{"a pin that says what is there", []*Publication{one, two, edited}, counted, 0, "One, edited"},
	} {
		w := new(Window)
		w.Apply(Delta{Pin: pin}, time.Unix(1, 0), 1)
		titles := map[feed.Hash]string{}
		ref := uint64(2)
		for _, p := range c.of {
			m, _ := p.Item.Meaning("")
			titles[p.Item.Hash] = m.Title
			w.Apply(Delta{Changes: []Change{{Item: *p.Item, Publication: p}}}, time.Unix(2, 0), ref)
			ref++
		}
		if c.pin != nil {
			w.Apply(Delta{Pin: c.pin}, time.Unix(3, 0), ref)
		}
		e, _ := w.Entry(one.Item.ID)
		if got := titles[e.Hash]; w.Missing() != c.lacks || got != c.first {
			t.Errorf("%s: lacks %d, not %d; the first item is %q", c.name, w.Missing(), c.lacks, got)
		}
		if w.Forget(ref + 1); w.Missing() != 0 {
			t.Errorf("%s: what is not kept lacks %d", c.name, w.Missing())
		}
	}
}

// A sequencer has keys of its own. A publication signed with one of them neither replaces the publisher's
// version nor holds back a later one.
func TestAStrangersPublicationDoesNotCount(t *testing.T) {
	one := published(t, 1, 4, feed.Hash{}, written(t, "1", "One"))
	stranger := published(t, 2, 1<<60, feed.Hash{}, written(t, "1", "A stranger's"))
	edited := published(t, 1, 5, one.Hash, written(t, "1", "One, edited"))
	var w Window
	w.Apply(Delta{Pin: &Pin{Key: public(1)}}, time.Unix(1, 0), 1)
	for i, step := range []struct{ brought, shown *Publication }{{stranger, stranger}, {one, one}, {stranger, one}, {edited, edited}} {
		w.Apply(Delta{Changes: []Change{{Item: *step.brought.Item, Publication: step.brought}}}, time.Unix(2, 0), uint64(i+2))
		if e, _ := w.Entry(one.Item.ID); e.Hash != step.shown.Item.Hash {
			t.Errorf("step %d: shown is not what it should be", i)
		}
	}
}

func TestAPinAdvancesWithPublications(t *testing.T) {
	var w Window
	one := published(t, 1, 1, feed.Hash{}, written(t, "1", "One"))
	w.Apply(Delta{Pin: &Pin{Key: public(1)}, Changes: []Change{{Item: *one.Item, Publication: one}}}, time.Unix(1, 0), 1)
	if p := w.Pin(); p.Seq != 1 || p.Head != one.Hash || w.PinRef() != 1 {
		t.Errorf("%+v", p)
	}
	alien := published(t, 2, 9, feed.Hash{}, written(t, "2", "Two"))
	w.Apply(Delta{Changes: []Change{{Item: *alien.Item, Publication: alien}}}, time.Unix(2, 0), 2)
	if p := w.Pin(); p.Seq != 1 {
		t.Errorf("another's publication counts: %+v", p)
	}
}

func TestAnAnnouncedKeyFollows(t *testing.T) {
	at := time.Unix(1, 0)
	first := &Pin{Key: public(1), Next: KeyHash(public(2)), Since: at}
	second := first.Rotate(public(2), KeyHash(public(3)), at, nil)
	third := second.Rotate(public(3), feed.Hash{}, at, nil)
	taken := second.Rotate(public(9), feed.Hash{}, at, [][]byte{[]byte("witness")})
	unnamed := first.Rotate(public(9), feed.Hash{}, at, nil)
	revived := taken.Rotate(public(2), feed.Hash{}, at, nil)
	for _, c := range []struct {
		name     string
		pin, old *Pin
		want     bool
	}{
		{"itself", first, first, true},
		{"the next one", second, first, true},
		{"the one after that, as the pin says", third, first, false},
		{"back", first, second, false},
		{"one that the origin shows", taken, second, false},
		{"one that nobody named", unnamed, first, false},
		{"one of somebody else", &Pin{Key: public(2)}, first, false},
		{"a key that was taken back", revived, second, false},
	} {
		if got := c.pin.Follows(c.old); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if !third.Valid(public(1)) || taken.Valid(public(2)) || !taken.Revoked(public(2)) || !taken.Valid(public(1)) || third.Valid(public(9)) || (*Pin)(nil).Valid(public(1)) {
		t.Error("the keys of former times are not what they were")
	}
}

// The author of a pin may claim any former keys. A node trusts only those that it has believed.
func TestInventedFormerKeysAreIgnored(t *testing.T) {
	at := time.Unix(1, 0)
	liar := FormerKey{Key: public(66)}
	first := &Pin{Key: public(1), Next: KeyHash(public(2)), Since: at, Seq: 7, Head: feed.Hash{7}}
	second := first.Rotate(public(2), KeyHash(public(3)), at, nil)
	third := second.Rotate(public(3), feed.Hash{}, at, nil)
	taken := second.Rotate(public(9), feed.Hash{}, at, [][]byte{[]byte("witness")})
	with := func(p *Pin, at int) *Pin {
		q := *p
		q.Former = slices.Insert(slices.Clone(p.Former), at, liar)
		return &q
	}
	named := with(third, 2) // an invented key in the middle, which announces the present one
	named.Former[2].Next, named.Former[1].Next = KeyHash(public(3)), KeyHash(public(66))
	forgiven := *taken
	forgiven.Former = []FormerKey{{Key: public(1)}, {Key: public(2)}}
	for _, c := range []struct {
		name          string
		pin, old      *Pin
		good, revoked []byte // keys
	}{
		{"nothing new", first, first, []byte{1}, nil},
		{"the same key", with(first, 0), first, []byte{1}, nil},
		{"keys that were named", with(third, 0), first, []byte{1, 2, 3}, nil},
		{"a key of the liar's in a chain of names", named, first, []byte{1, 2, 3}, nil},
		{"between two of them", with(third, 1), first, []byte{3}, []byte{1}},
		{"a key that the origin shows", with(taken, 0), second, []byte{1, 9}, []byte{2}},
		{"after a key that was taken back", with(taken, 2), second, []byte{1, 9}, []byte{2}},
		{"for who was away", taken, first, []byte{1, 9}, []byte{2}},
		{"for who had another one", taken, &Pin{Key: public(5)}, []byte{9}, []byte{5}},
		{"a key that was taken back is good again", &forgiven, taken, []byte{1, 9}, []byte{2}},
		{"and not taken back at all", &forgiven, second, []byte{1, 9}, []byte{2}},
	} {
		got := c.pin.Rebase(c.old)
		for n := range byte(100) {
			if good := got.Valid(public(n)); good != slices.Contains(c.good, n) {
				t.Errorf("%s: key %d is good: %v", c.name, n, good)
			}
			if revoked := got.Revoked(public(n)); revoked != slices.Contains(c.revoked, n) {
				t.Errorf("%s: key %d is taken back: %v", c.name, n, revoked)
			}
		}
	}
	other := *first
	other.Next, other.Seq, other.Head = KeyHash(public(66)), 3, feed.Hash{3}
	if got := other.Rebase(first); got.Next != first.Next || got.Seq != 7 || got.Head != (feed.Hash{7}) {
		t.Errorf("what was believed is forgotten: %+v", got)
	}
	unnamed := *first
	unnamed.Next = feed.Hash{}
	if got := other.Rebase(&unnamed); got.Next != (feed.Hash{}) {
		t.Error("a pin names the next key, which the feed's key has not")
	}
	if got := second.Rebase(first); got.Next != (feed.Hash{}) {
		t.Error("a pin names the key after the one that was named")
	}
	for n := range byte(2 * MaxFormer) {
		first = first.Rotate(public(n+100), feed.Hash{}, at, nil).Rebase(first)
	}
	if len(first.Former) != MaxFormer {
		t.Errorf("%d keys are remembered", len(first.Former))
	}
}

func TestWitnessesSignWhatTheySaw(t *testing.T) {
	home, away := wire.HashOf([]byte("home")), wire.HashOf([]byte("away"))
	w := Attest(wire.NewSigner(keyOf(5), home), itsURL, public(1), time.Unix(7, 0).UTC())
	got, err := OpenWitness(wire.NewVerifier(home), w.Raw)
	if err != nil || !bytes.Equal(got.Owner, public(5)) || got.URL != itsURL || !bytes.Equal(got.Key, public(1)) || !got.Time.Equal(w.Time) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := OpenWitness(wire.NewVerifier(away), w.Raw); !errors.Is(err, ErrPin) {
		t.Errorf("a witness of another network: %v", err)
	}
}

// FuzzPublication checks that an opened publication is the signed one, and that signing it again gives the same
// bytes.
func FuzzPublication(f *testing.F) {
	f.Add(published(f, 1, 1, feed.Hash{}, written(f, "1", "One")).Raw)
	f.Add(published(f, 1, 3, feed.Hash{1}, nil).Raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if p, err := OpenPublication(raw); err == nil && len(p.Key) != ed25519.PublicKeySize {
			t.Errorf("%+v", p)
		}
		// The input is also signed by an attacker.
		signed := wire.NewSigner(keyOf(1), wire.Anywhere).Sign(wire.DomainPublication, raw)
		p, err := OpenPublication(signed.Raw)
		if err != nil {
			return
		}
		again, err := Publish(keyOf(1), p.URL, p.Seq, p.Prev, p.Time, p.Item)
		if err != nil || again.Seq != p.Seq || again.Prev != p.Prev || again.URL != p.URL || !again.Time.Equal(p.Time) || (again.Item == nil) != (p.Item == nil) {
			t.Errorf("%+v became %+v, %v", p, again, err)
		}
	})
}

// FuzzPin checks that parsing and encoding again gives the same bytes.
func FuzzPin(f *testing.F) {
	first := &Pin{Key: public(1), Next: KeyHash(public(2)), Since: time.Unix(1, 0), Beat: time.Hour, Certificate: itsURL, Seq: 3, Head: feed.Hash{1}}
	f.Add(first.Append())
	f.Add(first.Rotate(public(2), feed.Hash{}, time.Unix(2, 0), [][]byte{[]byte("witness")}).Append())
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePin(b)
		if err != nil || p == nil {
			return
		}
		once := p.Append()
		again, err := ParsePin(once)
		if err != nil || !bytes.Equal(again.Append(), once) {
			t.Errorf("%+v became %+v, %v", p, again, err)
		}
	})
}

// FuzzWitness checks that signing a parsed statement again gives the same bytes.
func FuzzWitness(f *testing.F) {
	home := wire.HashOf([]byte("home"))
	by := wire.NewSigner(keyOf(5), home)
	for _, m := range []*differencepb.Witness{{Url: itsURL, Key: public(1), TimeMs: 7}, {Url: "", Key: public(1)}, {Url: itsURL, Key: []byte("short")}} {
		f.Add(wire.Encode(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		verify := wire.NewVerifier(home)
		if w, err := OpenWitness(verify, b); err == nil && bytes.Equal(w.Owner, public(5)) {
			t.Errorf("who has not signed says %+v", w)
		}
		w, err := OpenWitness(verify, by.Sign(wire.DomainWitness, b).Raw)
		if err != nil {
			return
		}
		again, err := OpenWitness(verify, Attest(by, w.URL, w.Key, w.Time).Raw)
		if err != nil || again.URL != w.URL || !bytes.Equal(again.Key, w.Key) || !again.Time.Equal(w.Time) || !bytes.Equal(again.Owner, public(5)) {
			t.Errorf("%+v became %+v, %v", w, again, err)
		}
	})
}

// A sequencer can put values into a pin that no document can have. Readers then get the key without them.
func TestAPinNamesOnlyAValidPublisher(t *testing.T) {
	key := bytes.Repeat([]byte{5}, ed25519.PublicKeySize)
	p := Pin{Key: key, Next: feed.Hash{1}, Beat: time.Hour, Certificate: "https://a/cert", Fingerprint: feed.Hash{2}}
	if got := p.Publisher(); !reflect.DeepEqual(*got, feed.Publisher{Key: key, Next: feed.Hash{1}, Beat: time.Hour, Certificate: "https://a/cert", Fingerprint: feed.Hash{2}}) {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		beat        time.Duration
		certificate string
	}{{time.Millisecond, ""}, {1000 * time.Hour, "https://a/cert"}, {time.Hour, "nowhere"}} {
		p.Beat, p.Certificate = c.beat, c.certificate
		if got := p.Publisher(); got.Check() != nil || !bytes.Equal(got.Key, key) || got.Next != p.Next {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
