package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tidings/internal/env"
	"tidings/internal/news"
	"tidings/internal/notify"
	"tidings/internal/xmpp"
)

const (
	// maxSingles is how many pieces of news that wait for a contact are told one by one. More are told as a digest, so that
	// nobody is flooded, and no server blocks the node's account.
	maxSingles = 10
	// messagePause is the shortest time between two messages to a contact, as Corona limits the rate of updates to one client
	// (section 4).
	messagePause = time.Second
	// maxNewest is how many pieces of news a digest names, and maxCounted how many feeds and searches.
	maxNewest  = 5
	maxCounted = 20
	// heldCheck is how long news waits for a contact before the node looks again, in case it was not told that the contact
	// came.
	heldCheck = time.Hour
	// digestChunk is how many events a digest reads at once.
	digestChunk = 100
)

// A contactProgress says which events a contact has had. It is durable before a message is sent: so the message is the same if
// it has to be sent again.
type contactProgress struct {
	Had     uint64 // number of the last event that the contact has had
	Offered uint64 // number of the last event of the messages that were begun
	Digest  bool   // they are one digest
}

// target is the courier's target of a contact.
func (m *messenger) target(c *contact) news.Target {
	return news.Target{
		ID: c.ID, Batch: maxSingles + 1,
		Wants:     func(e *news.Event) bool { return m.wants(c, e) },
		HeldUntil: func(now, _ time.Time) time.Time { return m.heldUntil(c, now) }, HeldIsAway: true,
		Send: func(ctx context.Context, events []news.Event) error { return m.send(ctx, c, events) },
	}
}

// wants reports whether a contact is to be told of an event.
func (m *messenger) wants(c *contact, e *news.Event) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.Number > c.progress.Had && c.follows(e)
}

// follows reports whether a contact follows the source of an event.
func (r *contactRecord) follows(e *news.Event) bool {
	if e.Query != "" {
		return slices.Contains(r.Queries, e.Query)
	}
	return slices.Contains(r.Feeds, e.URL)
}

// heldUntil returns when a contact can be told something.
func (m *messenger) heldUntil(c *contact, now time.Time) time.Time {
	m.mu.Lock()
	paused := c.Paused
	m.mu.Unlock()
	if paused || !m.client.Available(c.JID) {
		return now.Add(heldCheck)
	}
	return now
}

// send tells a contact of events: one by one, or in a digest with all that wait.
func (m *messenger) send(ctx context.Context, c *contact, events []news.Event) error {
	for len(events) > 0 {
		p := c.progress
		if p.Offered < events[0].Number { // what was begun before has been had
			p.Offered, p.Digest = events[len(events)-1].Number, false
			if len(events) > maxSingles {
				p.Offered, p.Digest = m.journal.Last(), true
			}
			if err := m.note(c, p); err != nil {
				return err
			}
		}
		if p.Digest {
			d, err := m.digest(c, events[0].Number-1, p.Offered)
			if err != nil {
				return err
			}
			if err := m.tell(ctx, c, xmpp.Message{ID: messageID(c.ID+" digest", fmt.Append(events[0].Stored(), p.Offered)), Body: d}); err != nil {
				return err
			}
			p.Had = p.Offered
		} else {
			e := &events[0]
			text := messageOf(c.ID, e)
			if err := m.tell(ctx, c, xmpp.Message{ID: text.ID, Body: text.Chat()}); err != nil {
				return err
			}
			p.Had = e.Number
		}
		if err := m.note(c, p); err != nil {
			return err
		}
		events = slices.DeleteFunc(events, func(e news.Event) bool { return e.Number <= p.Had })
	}
	return nil
}

// tell sends a message to a contact, and waits before the next one.
func (m *messenger) tell(ctx context.Context, c *contact, text xmpp.Message) error {
	if err := m.client.Send(ctx, c.JID, text); err != nil {
		return err
	}
	timer := time.NewTimer(messagePause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done(): // the message has arrived, and that is noted
	}
	return nil
}

// note makes the progress of a contact durable.
func (m *messenger) note(c *contact, p contactProgress) error {
	value, err := json.Marshal(p)
	if err == nil {
		err = commit(m.disk, env.Op{Key: []byte(contactPrefix + c.ID), Value: value})
	}
	if err != nil {
		return fmt.Errorf("note what a contact of the messenger has had: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c.progress = p
	return nil
}

// digest returns the text about the events for a contact between two numbers: how many there are in each feed and search, and
// the newest.
func (m *messenger) digest(c *contact, after, last uint64) (string, error) {
	counts, newest, total := map[string]int{}, []news.Event{}, 0
	for after < last {
		events, _, err := m.journal.After(after, digestChunk)
		if err != nil {
			return "", err
		}
		if len(events) == 0 {
			break
		}
		after = events[len(events)-1].Number
		for i := range events {
			if e := &events[i]; e.Number <= last && m.wants(c, e) {
				total++
				counts[sourceOf(e)]++
				newest = append(newest, *e)
			}
		}
		newest = slices.Clone(newest[max(0, len(newest)-maxNewest):])
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var b strings.Builder
	fmt.Fprintf(&b, "%d pieces of news:", total)
	for i, name := range names {
		if i == maxCounted {
			fmt.Fprintf(&b, "\nand more in %d others", len(names)-i)
			break
		}
		fmt.Fprintf(&b, "\n%d in %s", counts[name], name)
	}
	b.WriteString("\nThe newest:")
	for i := range slices.Backward(newest) {
		text := messageOf(c.ID, &newest[i])
		b.WriteString("\n" + text.Line())
	}
	return b.String(), nil
}

// sourceOf names the source of an event in one line.
func sourceOf(e *news.Event) string {
	m := notify.Message{Source: cmp.Or(e.Title, e.URL)}
	if e.Query != "" {
		m.Source = "the search for " + e.Query
	}
	return m.SourceLine()
}
