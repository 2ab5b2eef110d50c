package websub

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

const (
	// maxSubscriptions bounds the subscriptions of one node. Each takes about a kilobyte, and a request in some days.
	maxSubscriptions = 20_000
	// firstRetry is the time for which a hub may leave a request unconfirmed before it is asked again. It doubles each
	// time, up to lastRetry. A hub confirms within seconds.
	firstRetry = time.Minute
	lastRetry  = time.Hour
	// busyRetry is the time after which a request is made again that this node had no room for. Many channels may name one
	// hub at once.
	busyRetry = 5 * time.Second
	// renewGap is the least time between two requests for one subscription because the hub has failed.
	renewGap = 15 * time.Minute
	// maxEndings is the number of requests to end a subscription. Then it ends without the hub.
	maxEndings = 3
)

// Modes of a request.
const (
	modeSubscribe   = "subscribe"
	modeUnsubscribe = "unsubscribe"
)

// A World is what a subscriber needs of its node.
type World struct {
	Clock env.Clock
	Store env.Store
	Rand  *rand.Rand
	Log   *slog.Logger

	// Post sends a form to an address, and calls then with the answer.
	Post func(url, form string, then func(env.Answer))
}

// Events are what a subscriber reports. They are called on the node's goroutine.
type Events interface {
	// Changed reports that the status of a channel's subscription has changed.
	Changed(channel string)

	// Notified hands over a notification for a channel, which may be anybody's (Notification.Proven).
	Notified(n Notification)
}

// Stats counts what a Subscriber has done.
type Stats struct {
	Subscriptions int    // topics that this node is subscribed to, or wants to be
	Requests      uint64 // requests to hubs
	Confirmed     uint64 // subscriptions and renewals that hubs have confirmed
	Denied        uint64 // subscriptions that hubs have refused
	Notified      uint64 // notifications
	Unasked       uint64 // questions and notifications of hubs that nothing here has asked for
}

// A Status describes a subscription.
type Status struct {
	Kind   coronapb.PushStatus_Kind
	Detail string // what is wrong, for people
}

// A Subscriber is the part of a node that hubs call. base is the address at which they reach it, ending in a slash.
type Subscriber struct {
	World
	clock     env.Clock
	base      string
	events    Events
	byChannel map[string]*subscription // wanted ones
	byPath    map[string]*subscription // those that end, too
	calendar  env.Calendar[*subscription]
	stats     Stats
}

type subscription struct {
	channel  string
	topic    Topic
	callback string
	secret   string
	pending  string    // mode that the hub may ask to confirm; "": none
	lease    time.Time // end of the lease; zero: there is none
	next     time.Time // when the hub is asked next
	planned  time.Time // entry in the calendar that counts
	askedAt  time.Time // in this run; zero: not yet
	tries    int       // requests in a row without a confirmation
	denied   string    // the reason for which the hub has refused; "": it has not
	fault    string    // why the last request failed; "": it did not
}

// keyPrefix is the prefix of subscriptions in the store: + the end of the callback's address.
const keyPrefix = "corona/websub/"

// New returns a subscriber that goes on with the subscriptions of earlier runs. Those with another base are forgotten,
// because their hubs do not reach this node any more.
func New(w World, base string, events Events) *Subscriber {
	s := &Subscriber{World: w, clock: w.Clock, base: base, events: events, byChannel: map[string]*subscription{}, byPath: map[string]*subscription{}}
	now := s.clock.Now()
	var lost []env.Op
	err := s.Store.Range([]byte(keyPrefix), func(key, value []byte) bool {
		if sub := s.load(value); sub != nil && string(key) == keyPrefix+sub.path() {
			s.add(sub, now)
		} else {
			lost = append(lost, env.Op{Key: slices.Clone(key)})
		}
		return true
	})
	if err != nil {
		s.Log.Warn("subscriptions at hubs could not be read, and are made again", "err", err)
	}
	if len(lost) > 0 {
		s.Store.Commit(lost, func(error) {}) // they are read again after the next start
	}
	return s
}

// load reads a stored subscription; nil if it is of no use.
func (s *Subscriber) load(value []byte) *subscription {
	m := new(coronapb.Subscription)
	if proto.Unmarshal(value, m) != nil || !strings.HasPrefix(m.Callback, s.base) || m.Secret == "" || m.LeaseMs > wire.MaxMillis || m.RenewMs > wire.MaxMillis {
		return nil
	}
	sub := &subscription{
		channel: m.Channel, topic: Topic{m.Hub, m.Topic}, callback: m.Callback, secret: m.Secret, pending: m.Pending,
		next: time.UnixMilli(int64(m.RenewMs)), tries: int(m.Tries), denied: m.Denied,
	}
	if m.LeaseMs > 0 {
		sub.lease = time.UnixMilli(int64(m.LeaseMs))
	}
	if !slices.Contains([]string{"", modeSubscribe, modeUnsubscribe}, sub.pending) || !sub.topic.Valid() || sub.pending != modeUnsubscribe && s.byChannel[sub.channel] != nil {
		return nil
	}
	return sub
}

// save stores a subscription.
func (s *Subscriber) save(sub *subscription, done func(error)) {
	m := &coronapb.Subscription{
		Channel: sub.channel, Hub: sub.topic.Hub, Topic: sub.topic.URL, Callback: sub.callback, Secret: sub.secret, Pending: sub.pending,
		RenewMs: uint64(sub.next.UnixMilli()), Tries: uint32(sub.tries), Denied: sub.denied,
	}
	if !sub.lease.IsZero() {
		m.LeaseMs = uint64(sub.lease.UnixMilli())
	}
	s.Store.Commit([]env.Op{{Key: []byte(keyPrefix + sub.path()), Value: wire.Encode(m)}}, done)
}

// path returns the end of the callback's address, by which a subscription is found.
func (sub *subscription) path() string {
	return sub.callback[strings.LastIndexByte(sub.callback, '/')+1:]
}

func (s *Subscriber) add(sub *subscription, now time.Time) {
	s.byPath[sub.path()] = sub
	if sub.pending != modeUnsubscribe {
		s.byChannel[sub.channel] = sub
	}
	s.plan(sub, now)
}

// forget ends a subscription without its hub.
func (s *Subscriber) forget(sub *subscription) {
	delete(s.byPath, sub.path())
	if s.byChannel[sub.channel] == sub {
		delete(s.byChannel, sub.channel)
	}
	s.Store.Commit([]env.Op{{Key: []byte(keyPrefix + sub.path())}}, func(error) {}) // otherwise the hub is asked once more after the next start
}

// Want subscribes to a topic for a channel, in place of any other one. renew says that the hub has failed, so that it is
// asked again although the lease has not ended. Want returns false if there are too many subscriptions.
func (s *Subscriber) Want(channel string, t Topic, renew bool) bool {
	now, sub := s.clock.Now(), s.byChannel[channel]
	switch {
	case sub != nil && sub.topic == t:
		if renew && sub.pending == "" && sub.denied == "" && now.Sub(sub.askedAt) >= renewGap {
			s.ask(sub, modeSubscribe, now)
		}
		return true
	case len(s.byPath) >= maxSubscriptions:
		return false
	}
	s.Drop(channel)
	sub = &subscription{channel: channel, topic: t, callback: s.base + s.random(2), secret: s.random(4), next: now}
	s.add(sub, now)
	s.ask(sub, modeSubscribe, now)
	return true
}

// random returns so many times 64 random bits, as text.
func (s *Subscriber) random(words int) string {
	var b []byte
	for range words {
		b = binary.BigEndian.AppendUint64(b, s.Rand.Uint64())
	}
	return hex.EncodeToString(b)
}

func (s *Subscriber) jitter(d time.Duration) time.Duration { return env.Jitter(s.Rand, d) }

// Drop ends the subscription of a channel.
func (s *Subscriber) Drop(channel string) {
	if sub := s.byChannel[channel]; sub != nil {
		delete(s.byChannel, channel)
		sub.tries = 0
		s.ask(sub, modeUnsubscribe, s.clock.Now())
	}
}

// Channels returns the channels with a subscription, sorted.
func (s *Subscriber) Channels() []string {
	of := make([]string, 0, len(s.byChannel))
	for channel := range s.byChannel {
		of = append(of, channel)
	}
	slices.Sort(of)
	return of
}

// ask sends a request to the hub of a subscription, when the store has it.
func (s *Subscriber) ask(sub *subscription, mode string, now time.Time) {
	sub.pending, sub.askedAt = mode, now
	sub.tries++
	sub.next = now.Add(s.jitter(min(firstRetry<<min(sub.tries-1, 10), lastRetry)))
	s.plan(sub, now)
	form := url.Values{"hub.mode": {mode}, "hub.topic": {sub.topic.URL}, "hub.callback": {sub.callback}}
	if mode == modeSubscribe {
		form.Set("hub.secret", sub.secret)
		form.Set("hub.lease_seconds", fmt.Sprint(int(wantedLease.Seconds())))
	}
	tries := sub.tries
	s.save(sub, func(err error) {
		if err != nil || s.byPath[sub.path()] != sub || sub.tries != tries {
			return // it is asked at the next try
		}
		s.stats.Requests++
		s.Post(sub.topic.Hub, form.Encode(), func(a env.Answer) { s.answered(sub, tries, a) })
	})
}

// answered takes the answer to a request. A hub that accepts it asks for a confirmation.
func (s *Subscriber) answered(sub *subscription, tries int, a env.Answer) {
	if s.byPath[sub.path()] != sub || sub.tries != tries {
		return // it has been confirmed, or asked again
	}
	fault := sub.fault
	switch {
	case a.Err == env.ErrBusy: // the hub was not asked
		sub.tries--
		now := s.clock.Now()
		sub.next = now.Add(s.jitter(busyRetry))
		s.plan(sub, now)
	case a.Err != "":
		sub.fault = a.Message
	case a.Status/100 != 2:
		sub.fault = fmt.Sprintf("the hub answered %d", a.Status)
	default:
		sub.fault = ""
	}
	if sub.fault != fault {
		s.events.Changed(sub.channel)
	}
}

// plan puts the next event of a subscription into the calendar: a request, or the end of the lease.
func (s *Subscriber) plan(sub *subscription, now time.Time) {
	at := sub.next
	if sub.lease.After(now) && sub.lease.Before(at) {
		at = sub.lease
	}
	if sub.planned = at; at.Before(now) {
		sub.planned = now
	}
	s.calendar.Add(sub.planned, sub)
}

// Next returns the time at which something is due.
func (s *Subscriber) Next() time.Time { return s.calendar.Next() }

// Run sends the requests that are due.
func (s *Subscriber) Run(now time.Time) {
	for sub, at, ok := s.calendar.Pop(now); ok; sub, at, ok = s.calendar.Pop(now) {
		switch {
		case s.byPath[sub.path()] != sub || !at.Equal(sub.planned):
		case sub.next.After(now): // the lease has ended
			s.plan(sub, now)
			s.events.Changed(sub.channel)
		case sub.pending == modeUnsubscribe && sub.tries >= maxEndings:
			s.forget(sub)
		case sub.pending == modeUnsubscribe:
			s.ask(sub, modeUnsubscribe, now)
		default:
			s.ask(sub, modeSubscribe, now)
		}
	}
}

// Status returns the status of a channel's subscription; ok is false if there is none.
func (s *Subscriber) Status(channel string) (st Status, ok bool) {
	sub := s.byChannel[channel]
	switch {
	case sub == nil:
		return Status{}, false
	case sub.denied != "":
		return Status{coronapb.PushStatus_DENIED, "the hub refuses: " + sub.denied}, true
	case sub.lease.After(s.clock.Now()):
		return Status{Kind: coronapb.PushStatus_SUBSCRIBED}, true
	case sub.fault != "":
		return Status{coronapb.PushStatus_FAILED, "the request to the hub failed: " + sub.fault}, true
	case sub.tries > 1:
		return Status{coronapb.PushStatus_FAILED, "the hub does not confirm the subscription"}, true
	}
	return Status{Kind: coronapb.PushStatus_ASKED}, true
}

// Stats returns the counters.
func (s *Subscriber) Stats() Stats {
	st := s.stats
	st.Subscriptions = len(s.byChannel)
	return st
}
