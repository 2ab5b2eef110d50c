package daemon

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/internal/news"
	"tidings/proxy"
)

// A targetRecord is what the file says about a target.
type targetRecord struct {
	ID         string
	To         string // its address, with what is secret
	Secret     string // signs the messages to a webhook
	Feeds      []string
	Queries    []string
	Health     bool
	QuietHours string
	Digest     string
	PauseS     int64
	Added      time.Time
	Ended      time.Time // when the receiver said that it takes no more messages
}

// wants reports whether a target is to be told of an event.
func (r *targetRecord) wants(e *news.Event) bool {
	switch {
	case e.Health != nil:
		return r.Health
	case e.Query != "":
		return slices.Contains(r.Queries, e.Query)
	}
	return slices.Contains(r.Feeds, e.URL)
}

const (
	// maxTargets bounds the targets of a node. Each has a goroutine, and memory for one event or a few.
	maxTargets = 100
	// maxTargetSources bounds the feeds and searches of one target.
	maxTargetSources = 1_000
	// maxPause bounds the time between two messages that a user may ask for.
	maxPause = 24 * time.Hour
	// maxTargetsFile bounds the file of targets in bytes: a hundred targets of a thousand sources each.
	maxTargetsFile = 64 << 20
)

// checkTarget returns what is wrong with a target that a user wants.
func checkTarget(t proxy.NotifyTarget) error {
	_, err := parseSchedule(t.QuietHours, t.Digest)
	switch {
	case strings.TrimSpace(t.To) == "":
		return errors.New("the target has no address: say with \"to\" where the messages go")
	case len(t.Feeds) == 0 && len(t.Queries) == 0 && !t.Health:
		return errors.New("the target is told nothing: name feeds, searches or the health of all feeds")
	case len(t.Feeds)+len(t.Queries) > maxTargetSources:
		return fmt.Errorf("the target has %d feeds and searches, and at most %d are allowed", len(t.Feeds)+len(t.Queries), maxTargetSources)
	case t.PauseS < 0 || t.PauseS > int64(maxPause/time.Second):
		return fmt.Errorf("the pause between two messages is %d s: give 0 to %d s", t.PauseS, int64(maxPause/time.Second))
	}
	return err
}

// A schedule says when a target may be told something. The zero value stands for always.
type schedule struct {
	quiet quietHours
	every int // days between two digests, 1 or 7; 0: there are none
}

// digestHour is the hour of the day, in the node's time, at which digests are sent: before people read their mail.
// Weekly ones come on Mondays.
const digestHour = 8

func parseSchedule(quiet, digest string) (s schedule, err error) {
	switch digest {
	case "":
	case "daily":
		s.every = 1
	case "weekly":
		s.every = 7
	default:
		return s, fmt.Errorf("the digest is %q: give daily or weekly, or leave it out", digest)
	}
	s.quiet, err = parseQuietHours(quiet)
	return s, err
}

// heldUntil returns when events are to be sent of which the oldest came at a time. All times are in the node's time zone.
func (s schedule) heldUntil(now, oldest time.Time) time.Time {
	if s.every > 0 {
		last := time.Date(now.Year(), now.Month(), now.Day(), digestHour, 0, 0, 0, now.Location())
		for last.After(now) || s.every == 7 && last.Weekday() != time.Monday {
			last = last.AddDate(0, 0, -1)
		}
		if !oldest.Before(last) {
			now = last.AddDate(0, 0, s.every)
		}
	}
	return s.quiet.end(now)
}

// quietHours are the hours of a day without messages, as minutes after midnight. They begin with from and end before to,
// perhaps on the next day. The zero value stands for none.
type quietHours struct{ from, to int }

// parseQuietHours parses hours such as "22:00-07:00"; "" stands for none.
func parseQuietHours(text string) (q quietHours, err error) {
	if text == "" {
		return q, nil
	}
	from, to, ok := strings.Cut(text, "-")
	var a, b time.Time
	if ok {
		var wrong error
		a, err = time.Parse("15:04", strings.TrimSpace(from))
		b, wrong = time.Parse("15:04", strings.TrimSpace(to))
		err = cmp.Or(err, wrong)
	}
	if !ok || err != nil {
		return q, fmt.Errorf("the quiet hours are %q: write them like 22:00-07:00", text)
	}
	if a.Equal(b) {
		return q, fmt.Errorf("the quiet hours %q begin and end at the same time: a day needs hours that are not quiet", text)
	}
	return quietHours{60*a.Hour() + a.Minute(), 60*b.Hour() + b.Minute()}, nil
}

// has reports whether a time is in the quiet hours of its time zone.
func (q quietHours) has(t time.Time) bool {
	minute := 60*t.Hour() + t.Minute()
	if q.from <= q.to {
		return q.from <= minute && minute < q.to
	}
	return minute >= q.from || minute < q.to
}

// end returns when the quiet hours end in which a time is, or the time itself. It looks at each minute as a clock on the wall
// shows it, so it is right on days on which that clock is changed.
func (q quietHours) end(t time.Time) time.Time {
	for minute := range 2 * 24 * 60 { // at least one minute of a day is not quiet
		at := t
		if minute > 0 {
			at = t.Truncate(time.Minute).Add(time.Duration(minute) * time.Minute)
		}
		if !q.has(at) {
			return at
		}
	}
	return t
}

// encodeTargets returns the file of targets.
func encodeTargets(records []*targetRecord) ([]byte, error) {
	return json.MarshalIndent(struct{ Targets []*targetRecord }{records}, "", "\t")
}

// decodeTargets reads the file of targets. Its errors do not repeat what is in the file.
func decodeTargets(b []byte) ([]*targetRecord, error) {
	var file struct{ Targets []*targetRecord }
	if len(b) > maxTargetsFile || json.Unmarshal(b, &file) != nil {
		return nil, errors.New("it is too large, or not JSON")
	}
	seen := map[string]bool{}
	for _, r := range file.Targets {
		if r == nil || r.ID == "" || seen[r.ID] || len(file.Targets) > maxTargets {
			return nil, errors.New("a target in it is not valid")
		}
		if _, err := parseSchedule(r.QuietHours, r.Digest); err != nil {
			return nil, err
		}
		seen[r.ID] = true
	}
	return file.Targets, nil
}
