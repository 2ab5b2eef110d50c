package daemon

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"html"
	"strings"
	"time"

	"tidings/internal/feed"
	"tidings/internal/news"
	"tidings/internal/notify"
)

// messageOf returns what a target is told of an event.
func messageOf(target string, e *news.Event) notify.Message {
	m := notify.Message{ID: messageID(target, e.Stored()), Time: e.Time, Source: cmp.Or(e.Title, e.URL), Link: e.URL, JSON: e.JSON()}
	if e.Query != "" {
		m.Source = "Search: " + e.Query
	}
	if h := e.Health; h != nil {
		m.Title = healthTitle(h.Kind)
		m.Text = strings.Join(nonempty(h.Text, h.Do), "\n")
		return m
	}
	var item struct {
		URL, Title, Summary string
		HTML                string `json:"content_html"`
	}
	_ = json.Unmarshal(e.Item(), &item) // what cannot be read is empty
	m.Link, m.HTML = cmp.Or(item.URL, e.URL), cmp.Or(item.HTML, html.EscapeString(item.Summary))
	m.Text = strings.TrimSpace(string(feed.AppendText(nil, m.HTML)))
	m.Title = cmp.Or(feed.PlainTitle(item.Title), firstLine(m.Text), "(untitled)")
	if e.Edited {
		m.Title += " (edited)"
	}
	return m
}

func nonempty(texts ...string) (kept []string) {
	for _, t := range texts {
		if t != "" {
			kept = append(kept, t)
		}
	}
	return kept
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// healthTitle says in a few words what has changed.
func healthTitle(kind string) string {
	switch kind {
	case news.HealthFailing:
		return "a problem for a day"
	case news.HealthGone:
		return "gone for good"
	case news.HealthMoved:
		return "moved"
	case news.HealthKey:
		return "the publisher's key has changed"
	case news.HealthRecovered:
		return "can be read again"
	}
	return kind
}

// messageID returns the id of an event at a target. It is made of the whole event, because a node that has lost its journal
// counts from 1 again.
func messageID(target string, event []byte) string {
	h := sha256.New()
	h.Write([]byte(target + "\x00"))
	h.Write(event)
	return "msg_" + hex.EncodeToString(h.Sum(nil)[:16])
}

// testEvent returns the event by which a user tries a target.
func testEvent(now time.Time) (e news.Event, err error) {
	item, err := json.Marshal(map[string]string{
		"id": "tidings:test:" + now.UTC().Format(time.RFC3339Nano), "title": "A test of your notifications", "content_html": "<p>This message was sent by tidings notify test.</p>",
	})
	return news.NewEvent(news.Event{Time: now, Title: "tidings"}, item), err
}
