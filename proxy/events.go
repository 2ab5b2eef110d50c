package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tidings/internal/feed"
)

// News is the node's journal of what is new in its feeds and searches. It is safe for concurrent use.
type News interface {
	// After returns the events with greater numbers than a given one, the oldest first, and at most limit. missed says
	// that some of them are not kept any more.
	After(number uint64, limit int) (events []Event, missed bool, err error)
	// Last returns the number of the newest event, 0 if there was none.
	Last() uint64
	// NewItems returns how many items the node's feeds and pages have had since a time, without edits, and as far as
	// the journal goes back.
	NewItems(since time.Time) int
	// EachNewItem calls each with every new item of a feed since a time, the latest first. url "" stands for all feeds.
	EachNewItem(url string, since time.Time, each func(NewItem))
	// HealthOf returns the kept changes of the health of a feed, the latest first and at most limit.
	HealthOf(url string, limit int) ([]HealthChange, error)
	// Changed returns a channel that is closed by the next event.
	Changed() <-chan struct{}
}

// A NewItem says when a new item of a feed was seen.
type NewItem struct {
	At    time.Time
	Delay *time.Duration // how long after its date that was; nil: not known
	Here  bool           // this node has found the item itself
}

// A HealthChange says that a feed began to fail, recovered, has gone or moved, or has another key.
type HealthChange struct {
	At    time.Time
	Kind  string     // failing, recovered, gone, moved or key
	Text  string     // for people
	Since *time.Time // when a feed began to fail
}

// An Event is a new or edited item of a feed or a search, or a change of the health of a feed.
type Event struct {
	Number uint64
	URL    string        // of the feed; "" for a search
	Query  string        // of the search; "" for a feed
	Health bool          // it says what has happened to the feed, and has no item
	JSON   func() []byte // all of it, in one line
}

const (
	// maxStreams bounds the requests for events that are open at the same time, because each holds a connection. Further
	// ones get the status 503.
	maxStreams = 32
	// streamChunk is the number of events that are read at a time.
	streamChunk = 50
	// streamPulse is the time after which a stream without events sends a comment, so that both sides notice when the
	// connection is gone, and nothing between them takes it for unused.
	streamPulse = 15 * time.Second
)

// Sanitise makes the content of an item safe, as feeds have it that this package writes.
func Sanitise(m *feed.Meaning) { newsSanitiser.cleanMeaning(m) }

var newsSanitiser = newSanitiser()

// apiEvents streams what is new, as server-sent events, from the event on that the client has last seen.
func (s *Server) apiEvents(w http.ResponseWriter, r *http.Request) (any, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the address has an invalid query: %v", err)
	}
	for name := range query {
		if name != "after" && name != "url" && name != "query" {
			return nil, refuse(http.StatusBadRequest, "unknown parameter %q: the parameters are after, url and query", oneLine(name))
		}
	}
	at, err := s.firstEvent(r.Header.Get("Last-Event-ID"), query.Get("after"))
	if err != nil {
		return nil, err
	}
	release, err := s.takeStream()
	if err != nil {
		return nil, err
	}
	defer release()
	wanted := func(e *Event) bool {
		return len(query["url"])+len(query["query"]) == 0 ||
			e.URL != "" && slices.Contains(query["url"], e.URL) || e.Query != "" && slices.Contains(query["query"], e.Query)
	}
	s.stream(w, r, at, wanted)
	return nil, nil
}

// firstEvent returns the number of the event after which a stream begins: what the client has seen last, or says in the
// address, or all that has been so far.
func (s *Server) firstEvent(lastSeen, after string) (uint64, error) {
	if lastSeen != "" {
		after = lastSeen
	}
	if after == "" {
		return s.config.News.Last(), nil
	}
	number, err := strconv.ParseUint(after, 10, 63)
	if err != nil {
		return 0, refuse(http.StatusBadRequest, "the event %q is not a number", oneLine(after))
	}
	return number, nil
}

// takeStream takes the place of a stream, until release is called.
func (s *Server) takeStream() (release func(), err error) {
	select {
	case s.streams <- struct{}{}:
		return func() { <-s.streams }, nil
	default:
		return nil, refuse(http.StatusServiceUnavailable, "%d pages and programs are reading events already: close one of them", maxStreams)
	}
}

// stream writes events until the client or the node ends.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, at uint64, wanted func(*Event) bool) {
	send, answer := beginStream(w), http.NewResponseController(w)
	pulse := time.NewTicker(streamPulse)
	defer pulse.Stop()
	if !send(": events of this node\n\n") {
		return
	}
	for {
		changed := s.config.News.Changed()
		next, more, ok := s.sendEvents(send, at, wanted)
		if !ok || answer.Flush() != nil {
			return
		}
		if at = next; more {
			continue
		}
		select {
		case <-changed:
		case <-pulse.C:
			if !send(": %d\n\n", at) {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// beginStream begins an answer of server-sent events. The function that it returns writes to the answer, and reports whether
// it could.
func beginStream(w http.ResponseWriter) (send func(format string, args ...any) bool) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	answer := http.NewResponseController(w)
	_ = answer.SetReadDeadline(time.Time{}) // the request has been read; a connection that is not one of net/http has no deadline
	return func(format string, args ...any) bool {
		_ = answer.SetWriteDeadline(time.Now().Add(writeTime)) // likewise
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil
	}
}

// sendEvents sends the next events after a number, and returns the number of the last one. more says that there may be
// others; ok is false if the stream has to end.
func (s *Server) sendEvents(send func(string, ...any) bool, at uint64, wanted func(*Event) bool) (last uint64, more, ok bool) {
	newest := s.config.News.Last()
	if at > newest { // the client knows another journal, such as one that was lost
		return newest, true, sendMissed(send, at)
	}
	events, missed, err := s.config.News.After(at, streamChunk)
	if err != nil {
		s.config.Log.Error("events cannot be read", "err", err)
		return at, false, false
	}
	if missed && !sendMissed(send, at) {
		return at, false, false
	}
	for i := range events {
		e := &events[i]
		kind := "item"
		if e.Health {
			kind = "health"
		}
		if wanted(e) && !send("id: %d\nevent: %s\ndata: %s\n\n", e.Number, kind, e.JSON()) {
			return at, false, false
		}
		at = e.Number
	}
	if len(events) == 0 && missed {
		at = max(at, newest)
	}
	return at, len(events) == streamChunk, true
}

// sendMissed says that events after a number are not kept any more.
func sendMissed(send func(string, ...any) bool, after uint64) bool {
	return send("event: missed\ndata: {\"after\":%d}\n\n", after)
}
