package corona

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/honeycomb"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay/wedge"
)

// wedgeDuty is an assignment in a wedge of one member.
func wedgeDuty(words []byte) wedge.Assignment {
	return wedge.Assignment{Ranks: wedge.SingleRank(0), N: 1, IntervalStart: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), Interval: 30 * time.Minute, Payload: words}
}

// Pollers are told of a parameter that has changed by more than a quarter, or at all where every
// change matters.
func TestParametersAreSentWhenTheyHaveChangedEnough(t *testing.T) {
	is := channelParams{readers: 100, size: 2, update: time.Hour, skips: skips{1, 2}, grant: []byte("grant"), at: "http://b.example/"}
	for what, c := range map[string]struct {
		change func(*channelParams)
		stale  bool
	}{
		"nothing":          {func(*channelParams) {}, false},
		"some readers":     {func(b *channelParams) { b.readers = 125 }, false},
		"more readers":     {func(b *channelParams) { b.readers = 126 }, true},
		"some less":        {func(b *channelParams) { b.readers = 80 }, false},
		"fewer readers":    {func(b *channelParams) { b.readers = 79 }, true},
		"no readers":       {func(b *channelParams) { b.readers = 0 }, true},
		"another size":     {func(b *channelParams) { b.size = 2.6 }, true},
		"about the size":   {func(b *channelParams) { b.size = 2.4 }, false},
		"another rhythm":   {func(b *channelParams) { b.update = 2 * time.Hour }, true},
		"about the rhythm": {func(b *channelParams) { b.update = 70 * time.Minute }, false},
		"other hours":      {func(b *channelParams) { b.skips.hours = 3 }, true},
		"other days":       {func(b *channelParams) { b.skips.days = 3 }, true},
		"another grant":    {func(b *channelParams) { b.grant = []byte("grand") }, true},
		"no grant":         {func(b *channelParams) { b.grant = nil }, true},
	} {
		now := is
		c.change(&now)
		if is.differs(now) != c.stale || now.differs(is) != c.stale {
			t.Errorf("%s: stale %v and %v", what, is.differs(now), now.differs(is))
		}
	}
	if differMuch(0, 0) {
		t.Error("nothing is apart from nothing")
	}
}

// Payloads survive a round trip, and are accepted only for channels that a reader could subscribe
// to.
func TestPayloadsSurviveARoundTrip(t *testing.T) {
	p := newLab(t).poller(Config{})
	const url = "http://a.example/"
	b := channelParams{skips: skips{1<<24 - 1, 1<<7 - 1}, readers: 7, size: 1.5, update: time.Hour, grant: []byte("grant")}
	if s, grant := p.parsePayload(key(url), b.payload(url)); s == nil || s.url != url || string(grant) != "grant" || s.params.skips != b.skips || s.params.readers != 7 || s.params.at != b.at || s.params.size != 1.5 || s.params.update != time.Hour {
		t.Errorf("%+v became %+v", b, s)
	}
	long := url + strings.Repeat("x", maxURL)
	for what, m := range map[string]*coronapb.ChannelParams{
		"another channel":     {Url: "http://b.example/"},
		"none":                {},
		"another spelling":    {Url: "http://A.example/"},
		"no address":          {Url: "mailto:a@a.example"},
		"too long an address": {Url: long},
		"hours":               {Url: url, SkipHours: 1 << 24},
		"days":                {Url: url, SkipDays: 1 << 7},
		"a size below zero":   {Url: url, Size: -1},
		"no number":           {Url: url, Size: float32(math.NaN())},
		"a new address":       {Url: url, At: "mailto:a@a.example"},
		"its spelling":        {Url: url, At: "http://A.example/"},
		"a long new address":  {Url: url, At: long},
		"no end":              {Url: url, Size: float32(math.Inf(1))},
	} {
		k := key(url)
		if what == "another spelling" || what == "no address" || what == "too long an address" {
			k = key(m.Url)
		}
		if s, _ := p.parsePayload(k, wire.Encode(m)); s != nil || p.Valid(k, wire.Encode(m)) {
			t.Errorf("%s: %v is taken", what, m)
		}
	}
	if s, _ := p.parsePayload(key(url), []byte{0xff}); s != nil {
		t.Error("what is no message is taken")
	}
	if s, _ := p.parsePayload(key(url), wire.Encode(&coronapb.ChannelParams{Url: url, UpdateMs: math.MaxUint64})); s == nil || s.params.update != honeycomb.MaxUpdate {
		t.Errorf("it says %+v", s)
	}
}

// FuzzPayload parses any bytes as a payload: a parsed payload is within bounds and survives a round
// trip, and a node polls by it.
func FuzzPayload(f *testing.F) {
	const url = "http://a.example/"
	f.Add([]byte{})
	f.Add(channelParams{}.payload(url))
	f.Add(channelParams{skips: skips{1 << 23, 1 << 6}, readers: math.MaxInt32, size: 3, update: time.Hour, grant: []byte("g")}.payload(url))
	f.Fuzz(func(t *testing.T, words []byte) {
		l := newLab(t)
		p := l.poller(Config{})
		m := new(coronapb.ChannelParams)
		k := key(url)
		if proto.Unmarshal(words, m) == nil {
			k = key(m.Url) // derived as sequencers derive keys
		}
		s, grant := p.parsePayload(k, words)
		if s == nil {
			if p.Serve(k, wedgeDuty(words)); p.Stats().PolledFeeds != 0 {
				t.Errorf("%q is polled by an invalid payload", words)
			}
			return
		}
		u, b := s.url, s.params
		b.grant = grant
		spelled, err := feed.Canonical(u)
		if err != nil || spelled != u || len(u) > maxURL || b.update > honeycomb.MaxUpdate || !(b.size >= 0) || b.readers < 0 {
			t.Errorf("payload beyond bounds: %q, %+v", u, b)
		}
		if again, grant := p.parsePayload(k, b.payload(u)); again == nil || again.url != u || !bytes.Equal(grant, b.grant) || again.params.differs(s.params) || again.params.readers != b.readers {
			t.Errorf("%+v became %+v", b, again)
		}
		p.Serve(k, wedgeDuty(words))
		if l.run(26*time.Hour, p); len(l.asked) == 0 && b.skips.days == 0 {
			t.Errorf("payload %q is refused", words)
		}
	})
}
