package corona

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay/owner"
)

// State describes the polls of a channel to people.
type State struct {
	Kind   coronapb.State_Kind
	Detail string    // one line: what is wrong, or what readers lack although polls succeed
	Since  time.Time // when this kind began
	Polled time.Time // the last poll; zero: none
	Next   time.Time // the next poll; zero: none is planned
	Why    string    // the rule that set Next
	Moved  string    // the address to which the feed has moved permanently; empty: it has not moved

	Readers  int           // of the channel, in the whole network
	Pollers  int           // nodes that poll the channel; 0: not known
	Interval time.Duration // between two polls of one node; 0: not known
	Level    int           // polling level that the wedge reaches, plus one; 0: wedges have no levels
	Budget   int           // pollers that the domain's stewards allow; 0: no limit
	Hub      string        // that pushes the channel's news, so that it is hardly polled; empty: none
	HubFault string        // why the channel's hub is not relied on; empty: it is, or there is none
	// Lag is the mean time between the date of an item and its detection; 0: not known.
	Lag time.Duration
}

// Projected estimates the current state for subscribers, which are told of changes only. The poller
// was last known to be alive at sure. As long as polls succeed they follow each other at their
// interval: those up to sure have been made, later ones are planned. A poller reports every
// failure; if it has been silent for too long, the times of its polls are unknown.
func (s State) Projected(now, sure time.Time) State {
	interval, late := s.Next.Sub(s.Polled), now.Sub(s.Next)
	switch {
	case s.Polled.IsZero() || interval <= 0 || late < 0:
		return s
	case s.Kind != coronapb.State_OK:
		if late > maxStateDelay {
			s.Polled, s.Next, s.Why = time.Time{}, time.Time{}, "its poller has not reported when it polls again"
		}
		return s
	}
	if sure.After(now) {
		sure = now
	}
	if made := sure.Sub(s.Polled); made > 0 {
		s.Polled = s.Polled.Add(made / interval * interval)
	}
	s.Next = s.Next.Add(late/interval*interval + interval)
	if silent := now.Sub(sure); silent > interval+maxStateDelay {
		s.Why = fmt.Sprintf("as planned: nothing heard from its poller for %d min", silent/time.Minute)
	}
	return s
}

// maxStateDelay is the longest time that a state takes to reach the last subscriber: one digest
// interval, or almost two, for each level of a tree.
const maxStateDelay = 5 * time.Minute

// noItems describes a valid feed without items. Feeds of alerts are empty most of the time.
const noItems = "no items at present"

const (
	maxDetail = 256
	maxWhy    = 128
	maxMoved  = 512
	maxFails  = 1000 // larger counts are cut
)

// String names a state's kind as lists and pages show it.
func (s State) String() string {
	return strings.ReplaceAll(strings.ToLower(s.Kind.String()), "_", " ")
}

// Append encodes a state in at most 1 KiB.
func (s State) Append() []byte { return wire.Encode(s.wire()) }

func (s State) wire() *coronapb.State {
	return &coronapb.State{
		Kind: s.Kind, Detail: truncate(s.Detail, maxDetail), SinceMs: millis(s.Since), PolledMs: millis(s.Polled),
		NextMs: millis(s.Next), Why: truncate(s.Why, maxWhy), Moved: truncate(s.Moved, maxMoved), Readers: uint32(s.Readers),
		Pollers: uint32(s.Pollers), IntervalMs: uint64(s.Interval.Milliseconds()), Level: uint32(s.Level), LagMs: uint64(s.Lag.Milliseconds()),
		Budget: uint32(s.Budget), Hub: truncate(s.Hub, maxMoved), HubFault: truncate(s.HubFault, maxDetail),
	}
}

// ParseState decodes a state that a sequencer sent.
func ParseState(b []byte) (State, error) {
	m := new(coronapb.State)
	if err := proto.Unmarshal(b, m); err != nil {
		return State{}, fmt.Errorf("state of polls: %w", err)
	}
	if breaksState(m) != "" {
		return State{}, errors.New("state of polls: out of bounds")
	}
	return stateFrom(m), nil
}

func stateFrom(m *coronapb.State) State {
	return State{
		Kind: m.GetKind(), Detail: m.GetDetail(), Since: timeOf(m.GetSinceMs()), Polled: timeOf(m.GetPolledMs()),
		Next: timeOf(m.GetNextMs()), Why: m.GetWhy(), Moved: m.GetMoved(), Readers: int(m.GetReaders()),
		Pollers: int(m.GetPollers()), Interval: span(m.GetIntervalMs()), Level: int(m.GetLevel()), Lag: span(m.GetLagMs()),
		Budget: int(m.GetBudget()), Hub: m.GetHub(), HubFault: m.GetHubFault(),
	}
}

func millis(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixMilli())
}

func timeOf(ms uint64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// truncate shortens text to a number of bytes, at a character boundary.
func truncate(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}

// note is the replicated record of a channel.
type note struct {
	valid      validators
	interval   time.Duration
	State      State
	fails      int
	weight     int
	pollers    int
	ref        time.Time
	updateRate updateRate
	meanBytes  float64
	grant      string // encoded grant of the domain's stewards; empty: there is none
	private    bool
	marks      string // of a page, from page.Tracker
	move       move
	push       *pushing // nil: there is no hub
	distrusted distrusts
}

const (
	maxValidator = 1 << 10
	maxURL       = 2 << 10
	maxPollers   = 1 << 20 // more members than any network has
	maxNote      = owner.MaxNote - len(owner.Hash{})
)

func (n note) append() []byte {
	v := n.valid.wire()
	return wire.Encode(&coronapb.Note{
		Etag: v.Etag, LastModified: v.LastModified, FinalUrl: v.FinalUrl,
		IntervalMs: uint64(n.interval.Milliseconds()), State: n.State.wire(), Weight: uint32(n.weight), Fails: uint32(min(n.fails, maxFails)),
		Pollers: uint32(n.pollers), RefMs: millis(n.ref), UpdateRate: n.updateRate.wire(), MeanBytes: uint64(n.meanBytes),
		Grant: []byte(n.grant), Private: n.private, Marks: []byte(n.marks), Moved: n.move.to, MovedMs: n.move.since.Millis(), Push: n.push.wire(), Distrusted: n.distrusted.wire(),
	})
}

func parseNote(b []byte) (note, bool) {
	m := new(coronapb.Note)
	if len(b) == 0 || proto.Unmarshal(b, m) != nil {
		return note{}, false
	}
	if len(m.Etag) > maxValidator || len(m.LastModified) > maxValidator || len(m.FinalUrl) > maxURL || m.Fails > maxFails || m.Pollers > maxPollers || m.RefMs > wire.MaxMillis || len(m.Grant) > maxGrant || len(m.Marks) > page.MaxMarks || len(m.Moved) > maxURL || m.MovedMs > wire.MaxMillis || len(m.Distrusted) > maxDistrusted {
		return note{}, false
	}
	return note{
		valid: validators{m.Etag, m.LastModified, m.FinalUrl}, State: stateFrom(m.State),
		interval: span(m.IntervalMs),
		fails:    int(m.Fails), weight: int(m.Weight), pollers: int(m.Pollers), ref: timeOf(m.RefMs),
		updateRate: updateRateFrom(m.UpdateRate), meanBytes: float64(min(m.MeanBytes, feed.MaxDocument)), grant: string(m.Grant), private: m.Private, marks: string(m.Marks),
		move: move{m.Moved, env.MomentOf(timeOf(m.MovedMs))}, push: pushingFrom(m.Push), distrusted: distrustsFrom(m.Distrusted),
	}, true
}

// NotedState returns the state in the replicated record of a channel, for a node without newer
// information; ok is false if there is none.
func NotedState(record []byte) (s State, ok bool) {
	n, ok := parseNote(record)
	return n.State, ok
}

// Classify turns a response into a state. It does not use what is known of the channel.
func Classify(a env.Answer, f *feed.Feed, err error) State {
	s := State{Detail: cmp.Or(a.Message, a.Err)}
	switch {
	case a.Err == env.ErrTooLarge:
		s.Kind = coronapb.State_TOO_LARGE
	case a.Err == env.ErrBusy: // only for a FetchOnce: a poll waits instead
		s.Kind = coronapb.State_LIMITED
	case a.Err == env.ErrRefused || a.Err == env.ErrURL || a.Err == env.ErrRobots:
		s.Kind = coronapb.State_REFUSED
	case a.Err != "":
		s.Kind = coronapb.State_UNREACHABLE
	case a.Status == 304:
		return State{Kind: coronapb.State_OK}
	case a.HasDocument() && err != nil:
		s.Kind, s.Detail = coronapb.State_BROKEN, strings.TrimPrefix(strings.TrimPrefix(err.Error(), "read feed: "), "read page: ")
		if errors.Is(err, feed.ErrNotFeed) || errors.Is(err, feed.ErrEmpty) || errors.Is(err, page.ErrKind) {
			s.Kind = coronapb.State_NOT_A_FEED
		} else if errors.Is(err, feed.ErrLimit) || errors.Is(err, page.ErrLarge) {
			s.Kind = coronapb.State_TOO_LARGE
		}
	case a.HasDocument() && f == nil:
		s.Kind, s.Detail = coronapb.State_NOT_A_FEED, "an empty document, not a feed"
	case a.HasDocument() && len(f.Items) == 0:
		return State{Kind: coronapb.State_OK, Detail: cmp.Or(f.Omitted, noItems)}
	case a.HasDocument():
		return State{Kind: coronapb.State_OK, Detail: f.Omitted}
	case a.Status == 410:
		s.Kind, s.Detail = coronapb.State_GONE, "gone for good (410)"
	case a.Status == 429 || a.Status == 503 || a.Status == 403 && a.RetryAfter > 0:
		s.Kind, s.Detail = coronapb.State_LIMITED, fmt.Sprintf("the web server asks for fewer requests (%d)", a.Status)
	case a.Status == 404 || a.Status == 401 || a.Status == 403:
		s.Kind, s.Detail = coronapb.State_MISSING, fmt.Sprintf("does not exist, or may not be read (%d)", a.Status)
	default:
		s.Kind, s.Detail = coronapb.State_FAILING, fmt.Sprintf("the web server answered %d", a.Status)
	}
	return s
}
