package corona

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

// Every bound of a message is checked: a value at the bound is accepted, a larger one refused.
func TestMessagesBeyondBoundsAreRefused(t *testing.T) {
	of := key("http://a.example/")
	bytes := func(n int) []byte { return make([]byte, n) }
	words := func(n int) string { return strings.Repeat("x", n) }
	change := func(size int) *coronapb.Message {
		return &coronapb.Message{Body: &coronapb.Message_Change{Change: &coronapb.ChangeReport{Key: of[:], Observation: bytes(size)}}}
	}
	want := func(offset uint32, items ...uint32) *coronapb.Message {
		return &coronapb.Message{Body: &coronapb.Message_ItemRequest{ItemRequest: &coronapb.ItemRequest{Key: of[:], Items: items, Offset: offset}}}
	}
	part := func(size, offset uint32, data int) *coronapb.Message {
		return &coronapb.Message{Body: &coronapb.Message_ItemChunk{ItemChunk: &coronapb.ItemChunk{Key: of[:], Size: size, Offset: offset, Data: bytes(data)}}}
	}
	stand := func(change func(*coronapb.Snapshot)) *coronapb.Message {
		m := &coronapb.Snapshot{Key: of[:], Valid: &coronapb.Validators{}}
		change(m)
		return &coronapb.Message{Body: &coronapb.Message_Snapshot{Snapshot: m}}
	}
	report := func(size int) *coronapb.Message {
		return &coronapb.Message{Body: &coronapb.Message_Status{Status: &coronapb.StatusReport{Key: of[:], Status: bytes(size)}}}
	}
	all := make([]uint32, feed.MaxItems)
	for i := range all {
		all[i] = uint32(i)
	}
	p := newLab(t).poller(Config{})
	for _, c := range []struct {
		what       string
		fine, bold *coronapb.Message
	}{
		{"a body", want(0), &coronapb.Message{}},
		{"key", want(0), &coronapb.Message{Body: &coronapb.Message_ItemRequest{ItemRequest: &coronapb.ItemRequest{Key: of[:31]}}}},
		{"a longer key", want(0), &coronapb.Message{Body: &coronapb.Message_ItemChunk{ItemChunk: &coronapb.ItemChunk{Key: bytes(33)}}}},
		{"no key", want(0), &coronapb.Message{Body: &coronapb.Message_Change{Change: &coronapb.ChangeReport{}}}},
		{"a reading", change(overlay.MaxPayload), change(overlay.MaxPayload + 1)},
		{"items", want(0, all...), want(0, append(all[:len(all):len(all)], feed.MaxItems)...)},
		{"an item", want(0, feed.MaxItems-1), want(0, feed.MaxItems)},
		{"falling items", want(0, 1, 2), want(0, 2, 1)},
		{"an item twice", want(0, 1, 2), want(0, 1, 1)},
		{"want's offset", want(maxItemBytes), want(maxItemBytes + 1)},
		{"size", part(maxItemBytes, 0, 0), part(maxItemBytes+1, 0, 0)},
		{"part's offset", part(9, 9, 0), part(9, 10, 0)},
		{"data", part(maxItemBytes, 0, chunkSize), part(maxItemBytes, 0, chunkSize+1)},
		{"standing's prints", stand(func(m *coronapb.Snapshot) { m.Fingerprints = bytes(maxSnapshotItems * fingerprintSize) }), stand(func(m *coronapb.Snapshot) { m.Fingerprints = bytes((maxSnapshotItems + 1) * fingerprintSize) })},
		{"half a standing's print", stand(func(m *coronapb.Snapshot) {}), stand(func(m *coronapb.Snapshot) { m.Fingerprints = bytes(1) })},
		{"standing's etag", stand(func(m *coronapb.Snapshot) { m.Valid.Etag = words(maxValidator) }), stand(func(m *coronapb.Snapshot) { m.Valid.Etag = words(maxValidator + 1) })},
		{"report", report(maxStatus), report(maxStatus + 1)},
	} {
		if err := p.Receive("stranger", wire.Encode(c.fine)); err != nil {
			t.Errorf("%s: refused within bounds: %v", c.what, err)
		}
		if err := p.Receive("stranger", wire.Encode(c.bold)); !errors.Is(err, env.ErrFrame) {
			t.Errorf("%s: taken beyond bounds: %v", c.what, err)
		}
	}
	told := func(change func(*coronapb.State)) *coronapb.PollStatus {
		m := &coronapb.State{Kind: coronapb.State_OK}
		change(m)
		return &coronapb.PollStatus{Key: of[:], State: m}
	}
	for _, c := range []struct {
		what       string
		fine, bold *coronapb.PollStatus
	}{
		{"a state", told(func(*coronapb.State) {}), &coronapb.PollStatus{}},
		{"new", told(func(m *coronapb.State) { m.Kind = coronapb.State_NEW + 1 }), told(func(m *coronapb.State) { m.Kind = coronapb.State_NEW })},
		{"idle", told(func(m *coronapb.State) { m.Kind = coronapb.State_IDLE - 1 }), told(func(m *coronapb.State) { m.Kind = coronapb.State_IDLE })},
		{"words", told(func(m *coronapb.State) { m.Detail = words(maxDetail) }), told(func(m *coronapb.State) { m.Detail = words(maxDetail + 1) })},
		{"why", told(func(m *coronapb.State) { m.Why = words(maxWhy) }), told(func(m *coronapb.State) { m.Why = words(maxWhy + 1) })},
		{"moved", told(func(m *coronapb.State) { m.Moved = words(maxMoved) }), told(func(m *coronapb.State) { m.Moved = words(maxMoved + 1) })},
		{"since", told(func(m *coronapb.State) { m.SinceMs = wire.MaxMillis }), told(func(m *coronapb.State) { m.SinceMs = wire.MaxMillis + 1 })},
		{"polled", told(func(m *coronapb.State) { m.PolledMs = wire.MaxMillis }), told(func(m *coronapb.State) { m.PolledMs = wire.MaxMillis + 1 })},
		{"next", told(func(m *coronapb.State) { m.NextMs = wire.MaxMillis }), told(func(m *coronapb.State) { m.NextMs = math.MaxUint64 })},
		{"pollers", told(func(m *coronapb.State) { m.Pollers = maxPollers }), told(func(m *coronapb.State) { m.Pollers = maxPollers + 1 })},
		{"level", told(func(m *coronapb.State) { m.Level = maxLevel }), told(func(m *coronapb.State) { m.Level = maxLevel + 1 })},
	} {
		if what := breaksStatus(c.fine); what != "" {
			t.Errorf("%s: refused within bounds: %s", c.what, what)
		}
		if breaksStatus(c.bold) == "" {
			t.Errorf("%s: taken beyond bounds", c.what)
		}
	}
	if err := p.Receive("stranger", []byte{0xff}); !errors.Is(err, env.ErrFrame) {
		t.Errorf("what is no message: %v", err)
	}
}

// Every bound of a signed observation is checked.
func TestObservationsBeyondBoundsAreRefused(t *testing.T) {
	of := key("http://a.example/")
	bytes := func(n int) []byte { return make([]byte, n) }
	words := func(n int) string { return strings.Repeat("x", n) }
	reading := func(change func(*coronapb.Observation)) []byte {
		m := &coronapb.Observation{Key: of[:], Nonce: 1, Facts: &coronapb.Facts{}, Valid: &coronapb.Validators{}}
		change(m)
		return wire.Encode(m)
	}
	for _, c := range []struct {
		what       string
		fine, bold []byte
	}{
		{"a message", reading(func(*coronapb.Observation) {}), []byte{0xff}},
		{"key", reading(func(*coronapb.Observation) {}), reading(func(m *coronapb.Observation) { m.Key = of[:31] })},
		{"poller", reading(func(m *coronapb.Observation) { m.Poller = bytes(overlay.MaxRecord) }), reading(func(m *coronapb.Observation) { m.Poller = bytes(overlay.MaxRecord + 1) })},
		{"half a print", reading(func(m *coronapb.Observation) { m.Fingerprints = bytes(fingerprintSize) }), reading(func(m *coronapb.Observation) { m.Fingerprints = bytes(fingerprintSize + 1) })},
		{"prints", reading(func(m *coronapb.Observation) { m.Fingerprints = bytes(feed.MaxItems * fingerprintSize) }), reading(func(m *coronapb.Observation) { m.Fingerprints = bytes((feed.MaxItems + 1) * fingerprintSize) })},
		{"delta", reading(func(m *coronapb.Observation) { m.Delta = bytes(maxInline) }), reading(func(m *coronapb.Observation) { m.Delta = bytes(maxInline + 1) })},
		{"etag", reading(func(m *coronapb.Observation) { m.Valid.Etag = words(maxValidator) }), reading(func(m *coronapb.Observation) { m.Valid.Etag = words(maxValidator + 1) })},
		{"last modified", reading(func(m *coronapb.Observation) { m.Valid.LastModified = words(maxValidator) }), reading(func(m *coronapb.Observation) { m.Valid.LastModified = words(maxValidator + 1) })},
		{"final URL", reading(func(m *coronapb.Observation) { m.Valid.FinalUrl = words(maxURL) }), reading(func(m *coronapb.Observation) { m.Valid.FinalUrl = words(maxURL + 1) })},
		{"hours", reading(func(m *coronapb.Observation) { m.Facts.SkipHours = 1<<24 - 1 }), reading(func(m *coronapb.Observation) { m.Facts.SkipHours = 1 << 24 })},
		{"days", reading(func(m *coronapb.Observation) { m.Facts.SkipDays = 1<<7 - 1 }), reading(func(m *coronapb.Observation) { m.Facts.SkipDays = 1 << 7 })},
		{"lacks", reading(func(m *coronapb.Observation) { m.Facts.Lacks = words(maxDetail) }), reading(func(m *coronapb.Observation) { m.Facts.Lacks = words(maxDetail + 1) })},
		{"moved", reading(func(m *coronapb.Observation) { m.Facts.Moved = words(maxMoved) }), reading(func(m *coronapb.Observation) { m.Facts.Moved = words(maxMoved + 1) })},
	} {
		if _, err := parseObservation(c.fine); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if _, err := parseObservation(c.bold); !errors.Is(err, env.ErrFrame) {
			t.Errorf("%s: %v, want %v", c.what, err, env.ErrFrame)
		}
	}
}

// Invalid messages are counted and change nothing.
func TestGarbageIsCounted(t *testing.T) {
	l := newLab(t)
	l.origins["http://a.example/"] = serves(rss("A", "", "one"))
	p := l.poller(Config{})
	p.lead("http://a.example/", nil)
	l.run(time.Minute, p)
	k, other := key("http://a.example/"), key("http://b.example/")
	s := (&snapshot{digest: 5}).message(k, 0, 0, 0)
	want := &coronapb.Message{Body: &coronapb.Message_ItemRequest{ItemRequest: &coronapb.ItemRequest{Key: k[:]}}}
	report := func(of overlay.ID) *coronapb.Message {
		return p.reports.signStatus(of, State{Kind: coronapb.State_GONE, Polled: l.now}, false)
	}
	change := func(of overlay.ID, raw []byte) *coronapb.Message {
		return &coronapb.Message{Body: &coronapb.Message_Change{Change: &coronapb.ChangeReport{Key: of[:], Observation: raw}}}
	}
	signed := func(m *coronapb.Observation) []byte { return p.signer.Sign(wire.DomainObservation, wire.Encode(m)).Raw }
	record := p.node.Self().Raw
	for what, do := range map[string]func(){
		"a reading that nobody signed":  func() { p.Deliver(k, wire.Encode(change(k, []byte("no envelope")))) },
		"a signed reading that is none": func() { p.Deliver(k, wire.Encode(change(k, p.signer.Sign(wire.DomainObservation, []byte{0xff}).Raw))) },
		"a reading of another channel": func() {
			p.Deliver(k, wire.Encode(change(k, signed(&coronapb.Observation{Key: other[:], Poller: record}))))
		},
		"a reading with a record that is none": func() {
			p.Deliver(k, wire.Encode(change(k, signed(&coronapb.Observation{Key: k[:], Poller: []byte("no record")}))))
		},
		"no message is routed":                func() { p.Deliver(k, []byte{0xff}) },
		"a message of another key is routed":  func() { p.Deliver(other, wire.Encode(report(k))) },
		"what is not routed is":               func() { p.Deliver(k, wire.Encode(want)) },
		"no message comes down":               func() { p.Delivered(k, []byte{0xff}) },
		"what does not come down does":        func() { p.Delivered(k, wire.Encode(report(k))) },
		"a message of another key comes down": func() { p.Delivered(other, wire.Encode(s)) },
		"words that are none":                 func() { p.Serve(other, wedgeDuty(nil)) },
		"words of another key":                func() { p.Serve(other, wedgeDuty(channelParams{}.payload("http://a.example/"))) },
	} {
		before := p.Stats().Garbage
		do()
		if n := p.Stats().Garbage - before; n != 1 {
			t.Errorf("%s: counted %d times", what, n)
		}
	}
	for what, m := range map[string]*coronapb.Message{"a reading of a channel that is not led here": change(other, nil), "a channel that is not led here": report(other)} {
		before := p.Stats().Astray
		if err := p.Receive("stranger", wire.Encode(m)); err != nil || p.Stats().Astray != before+1 {
			t.Errorf("%s: %v, %d are astray", what, err, p.Stats().Astray-before)
		}
	}
	if v, ok := p.View(k); !ok || v.State.Kind != coronapb.State_OK || p.Stats().PolledFeeds != 1 {
		t.Errorf("the channel is %v, %d are polled", v.State, p.Stats().PolledFeeds)
	}
}

// An observation survives a round trip, as far as it is encoded.
func TestAnObservationSurvivesARoundTrip(t *testing.T) {
	doc := parsed(t, rss("A", "<ttl>120</ttl><skipDays><day>Monday</day></skipDays>", "one", "two"))
	doc.Omitted = strings.Repeat("l", maxDetail+1)
	r := observation{
		f: doc, valid: validators{"e", "m", "http://b.example/"}, maxAge: time.Hour, moved: "http://b.example/", private: true, size: 77,
	}
	of := fingerprintsOf(doc)
	m := r.message(key("http://a.example/"), of)
	got := observationFrom(m, parseFingerprints(m.Fingerprints))
	if got.valid != r.valid || got.maxAge != r.maxAge || got.moved != r.moved || !got.private || got.size != r.size ||
		got.f.Hints != doc.Hints || got.f.Omitted != doc.Omitted[:maxDetail] || len(got.f.Items) != 2 || digest(fingerprintsOf(got.f)) != digest(of) {
		t.Errorf("%+v became %+v", r, got)
	}
	m.Facts.TtlMs, m.Facts.Size = math.MaxUint64, math.MaxUint64
	if far := observationFrom(m, nil); far.f.Hints.TTL != maxRetryAfter || far.size != feed.MaxDocument {
		t.Errorf("a ttl of %v, a size of %d", far.f.Hints.TTL, far.size)
	}
	back := []fingerprint{of[1], of[0]}
	if digest(back) != digest(of) || digest(of[:1]) == digest(of) || digest(nil) != 0 {
		t.Error("a digest stands for other fingerprints, or for their order")
	}
	if parseFingerprints(make([]byte, fingerprintSize+1)) != nil || parseFingerprints(make([]byte, (feed.MaxItems+1)*fingerprintSize)) != nil {
		t.Error("invalid fingerprints are accepted")
	}
}
