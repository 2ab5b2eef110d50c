package websub

import (
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
)

// lab is a subscriber with a hub that does what the test says, a disk, and a clock that the test moves.
type lab struct {
	*Subscriber
	t        *testing.T
	now      time.Time
	disk     map[string][]byte
	full     bool // the disk takes nothing
	requests []url.Values
	asked    []time.Time
	answer   env.Answer // of the hub
	changed  []string
	notified []Notification
}

const (
	channel  = "https://a.example/feed"
	base     = "https://node.example/websub/"
	aHub     = "https://hub.example/"
	aLease   = 24 * time.Hour
	anAnswer = 202
)

var aTopic = Topic{aHub, "https://a.example/Feed"}

func newLab(t *testing.T) *lab {
	l := &lab{t: t, now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), disk: map[string][]byte{}, answer: env.Answer{Status: anAnswer}}
	l.start()
	return l
}

// start starts the subscriber, or restarts it.
func (l *lab) start() {
	l.Subscriber = New(World{Clock: l, Store: l, Rand: rand.New(rand.NewPCG(1, uint64(len(l.requests)))), Log: slog.New(slog.DiscardHandler), Post: l.post}, base, l)
}

func (l *lab) Now() time.Time { return l.now }

func (l *lab) Commit(ops []env.Op, done func(error)) {
	if l.full {
		done(env.ErrDamaged)
		return
	}
	for _, op := range ops {
		if l.disk[string(op.Key)] = op.Value; op.Value == nil {
			delete(l.disk, string(op.Key))
		}
	}
	done(nil)
}

func (l *lab) Get(key []byte) ([]byte, error) { return l.disk[string(key)], nil }

func (l *lab) Range(prefix []byte, each func(key, value []byte) bool) error {
	for _, key := range slices.Sorted(maps.Keys(l.disk)) {
		if strings.HasPrefix(key, string(prefix)) && !each([]byte(key), l.disk[key]) {
			break
		}
	}
	return nil
}

func (l *lab) post(to, form string, then func(env.Answer)) {
	values, err := url.ParseQuery(form)
	if err != nil || to != aHub {
		l.t.Errorf("%s was sent %q", to, form)
	}
	l.requests, l.asked = append(l.requests, values), append(l.asked, l.now)
	then(l.answer)
}

func (l *lab) Changed(channel string)  { l.changed = append(l.changed, channel) }
func (l *lab) Notified(n Notification) { l.notified = append(l.notified, n) }

// run lets time pass.
func (l *lab) run(d time.Duration) {
	end := l.now.Add(d)
	for next := l.Next(); !next.IsZero() && !next.After(end); next = l.Next() {
		if next.After(l.now) {
			l.now = next
		}
		l.Run(l.now)
	}
	l.now = end
}

// last is the last request.
func (l *lab) last() url.Values { return l.requests[len(l.requests)-1] }

// path is the end of the callback address in a request.
func path(r url.Values) string { return strings.TrimPrefix(r.Get("hub.callback"), base) }

// question is what a hub asks about a request.
func question(r url.Values, more ...string) url.Values {
	q := url.Values{"hub.mode": {r.Get("hub.mode")}, "hub.topic": {r.Get("hub.topic")}, "hub.challenge": {"c1"}, "hub.lease_seconds": {"86400"}}
	for i := 0; i < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return q
}

// subscribed is a lab with a confirmed subscription.
func subscribed(t *testing.T) *lab {
	l := newLab(t)
	l.Want(channel, aTopic, false)
	if r := l.Confirm(path(l.last()), question(l.last())); r != (Response{200, "c1"}) {
		t.Fatalf("the hub was answered %+v", r)
	}
	l.expect(coronapb.PushStatus_SUBSCRIBED)
	return l
}

func (l *lab) expect(kind coronapb.PushStatus_Kind) Status {
	l.t.Helper()
	st, ok := l.Status(channel)
	if !ok || st.Kind != kind {
		l.t.Errorf("%v: the subscription is %v, want %v", l.now, st, kind)
	}
	return st
}
