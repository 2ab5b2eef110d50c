package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"tidings/internal/feed"
)

// Notifications is the node's interface for targets: webhooks and other places that are told what is new. It is safe for
// concurrent use.
type Notifications interface {
	// Targets returns all targets, the oldest first. Their addresses lack what is secret.
	Targets() []NotifyTarget
	// AddTarget adds a target, and returns it when it is durable, with its id and, for a webhook, its secret. The error is
	// ErrTarget, ErrNoSubscription or ErrFull.
	AddTarget(ctx context.Context, t NotifyTarget) (NotifyTarget, error)
	// RemoveTarget ends a target. The error is ErrNoTarget if there is none with the id.
	RemoveTarget(id string) error
	// TestTarget sends a message to a target at once. The error says why it did not take it.
	TestTarget(ctx context.Context, id string) error
	// DeadLetters returns what a target did not take, the oldest first.
	DeadLetters(id string) ([]DeadLetter, error)
}

// A NotifyTarget is a target.
type NotifyTarget struct {
	ID string `json:"id"`
	// To is its address. In answers, what is secret is replaced by "…".
	To   string `json:"to"`
	Kind string `json:"kind"` // webhook, mail, or the name of a service
	// Feeds, Queries and Health say what the target is told: new items of feeds, by their addresses; of searches, by their
	// queries; and problems of all feeds.
	Feeds   []string `json:"feeds"`
	Queries []string `json:"queries"`
	Health  bool     `json:"health"`
	// QuietHours are the hours without messages in the node's time, such as "22:00-07:00"; "": none.
	QuietHours string `json:"quiet_hours"`
	// Digest, daily or weekly, collects what comes until 8 o'clock, on Mondays if weekly; "": none.
	Digest string `json:"digest"`
	PauseS int64  `json:"pause_s"` // shortest time between two messages, in seconds
	// Secret signs the messages to a webhook. It is shown once, in the answer of add.
	Secret string `json:"secret,omitempty"`

	Added    *time.Time `json:"added"`
	Ended    *time.Time `json:"ended"`         // when the receiver said that it takes no more messages
	Sent     uint64     `json:"sent"`          // events that it took
	LastSent *time.Time `json:"last_sent"`     // when it took the last one
	Failing  *time.Time `json:"failing_since"` // since when it takes none
	Error    string     `json:"error"`         // of the last attempt
	Next     *time.Time `json:"next"`          // next attempt while it fails
	Dead     int        `json:"dead"`          // dead letters
	Missed   bool       `json:"missed"`        // events were dropped before they could be sent
}

// A DeadLetter is an event that a target did not take.
type DeadLetter struct {
	Time  time.Time       `json:"time"`
	Error string          `json:"error"`
	Event json.RawMessage `json:"event"`
}

// What returns a few words that name the event, or "" if the event cannot be read.
func (l DeadLetter) What() string {
	var e struct {
		URL, Query string
		Item       struct{ Title, URL string }
		Health     struct{ Kind string }
	}
	_ = json.Unmarshal(l.Event, &e) // what cannot be read is empty
	return cmp.Or(feed.PlainTitle(e.Item.Title), e.Item.URL, strings.TrimSpace(e.URL+e.Query+" "+e.Health.Kind))
}

// NotifyResponse is the answer of notify, notify/remove and notify/test. The latter two, and notify with POST, list the
// target that they were about.
type NotifyResponse struct {
	Targets []NotifyTarget `json:"targets"`
}

// DeadResponse is the answer of notify/dead.
type DeadResponse struct {
	Dead []DeadLetter `json:"dead"`
}

var (
	// ErrTarget is the error for a target that is not valid.
	ErrTarget = errors.New("target not accepted")
	// ErrNoTarget is the error for an id that no target has.
	ErrNoTarget = errors.New("there is no such target")
)

// apiNotify lists the targets, or adds one.
func (s *Server) apiNotify(w http.ResponseWriter, r *http.Request) (any, error) {
	if r.Method != http.MethodPost {
		return NotifyResponse{completeTargets(s.config.Notifications.Targets())}, nil
	}
	q, err := decodeStrictly[NotifyTarget](w, r, maxRequest)
	if err != nil {
		return nil, err
	}
	t, err := s.addTarget(r, q)
	return NotifyResponse{completeTargets([]NotifyTarget{t})}, err
}

// addTarget adds a target. Its feeds and queries are as a person types them.
func (s *Server) addTarget(r *http.Request, t NotifyTarget) (NotifyTarget, error) {
	feeds := make([]string, len(t.Feeds))
	for i, raw := range t.Feeds {
		var err error
		if feeds[i], err = s.resolveAddress(r, raw); err != nil {
			return t, err
		}
	}
	t.Feeds = feeds
	return s.config.Notifications.AddTarget(r.Context(), t)
}

// completeTargets replaces lists that are nil, because JSON would show them as null.
func completeTargets(targets []NotifyTarget) []NotifyTarget {
	if targets == nil {
		return []NotifyTarget{}
	}
	for i := range targets {
		if targets[i].Feeds == nil {
			targets[i].Feeds = []string{}
		}
		if targets[i].Queries == nil {
			targets[i].Queries = []string{}
		}
	}
	return targets
}

// notifyID reads the id in a request.
func notifyID(w http.ResponseWriter, r *http.Request) (string, error) {
	q, err := decodeRequest[NotifyTarget](w, r)
	return strings.TrimSpace(q.ID), err
}

func (s *Server) apiNotifyRemove(w http.ResponseWriter, r *http.Request) (any, error) {
	id, err := notifyID(w, r)
	if err == nil {
		err = s.config.Notifications.RemoveTarget(id)
	}
	return NotifyResponse{completeTargets([]NotifyTarget{{ID: id}})}, err
}

func (s *Server) apiNotifyTest(w http.ResponseWriter, r *http.Request) (any, error) {
	id, err := notifyID(w, r)
	if err == nil {
		err = s.config.Notifications.TestTarget(r.Context(), id)
	}
	return NotifyResponse{completeTargets([]NotifyTarget{{ID: id}})}, err
}

func (s *Server) apiNotifyDead(_ http.ResponseWriter, r *http.Request) (any, error) {
	dead, err := s.config.Notifications.DeadLetters(r.URL.Query().Get("id"))
	if dead == nil {
		dead = []DeadLetter{}
	}
	return DeadResponse{dead}, err
}
