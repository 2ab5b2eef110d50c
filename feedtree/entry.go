package feedtree

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// entries makes entries of changes in feeds that this node leads, and reads the entries of all feeds.
//
// A sequencer signs only what its followers can read. It decodes each body before it becomes an entry, exactly as a
// follower will. An unreadable entry would hide its items for ever, because the sequencer would count them as known.
type entries struct {
	*common
	worker   env.Worker
	recent   recentEntries
	waiting  []func() // steps of decoding that are not with the worker yet
	decoding int      // those that are
}

// appended is what entries keeps of a feed. It counts everything that was appended, committed or not.
type appended struct {
	window difference.Window
	head   *feed.Head      // the latest one, as far as readers show it; from a document if the log has none
	pin    *difference.Pin // counts all accepted publications; nil: the feed has no publisher
}

// setHead records a head without its document's items.
func (a *appended) setHead(h *feed.Head) {
	head := *h
	a.head = &head
}

// shareHead takes a head that is kept anyway in place of one with the same bytes, if this node leads the feed.
func (l *leaderState) shareHead(h *feed.Head) {
	if l != nil && l.head != nil && l.head.Format == h.Format && l.head.ItemsAt == h.ItemsAt && bytes.Equal(l.head.Raw, h.Raw) {
		l.head = h
	}
}

// maxPart is the largest part of a change report that becomes one entry, in bytes before compression.
const maxPart = 256 << 10

// errMismatch reports a body that decodes to something else than what was encoded.
var errMismatch = errors.New("the body decodes to another delta")

// encode encodes a part of a change report, and checks that followers can decode it. read is what they will read.
func encode(part difference.Delta) (body []byte, read difference.Delta, err error) {
	if body, err = part.Encode(); err != nil {
		return nil, read, err
	}
	if len(body) > owner.MaxBody {
		return nil, read, fmt.Errorf("%w: a body of %d bytes, more than %d", owner.ErrEntry, len(body), owner.MaxBody)
	}
	if read, err = difference.DecodeOwn(body, part); err == nil && !sameContent(part, read) {
		err = errMismatch
	}
	return body, read, err
}

// sameContent reports whether two deltas look the same to readers.
func sameContent(a, b difference.Delta) bool {
	if (a.Head == nil) != (b.Head == nil) || a.Head != nil && a.Head.Hash() != b.Head.Hash() ||
		(a.Pin == nil) != (b.Pin == nil) || !bytes.Equal(a.Page, b.Page) || !slices.Equal(a.Withdrawn, b.Withdrawn) || !slices.Equal(a.Standing, b.Standing) || !slices.EqualFunc(a.Sightings, b.Sightings, bytes.Equal) || len(a.Changes) != len(b.Changes) {
		return false
	}
	for i := range a.Changes {
		x, y := &a.Changes[i], &b.Changes[i]
		if x.Item.ID != y.Item.ID || x.Item.Hash != y.Item.Hash || (x.Publication == nil) != (y.Publication == nil) {
			return false
		}
	}
	return true
}

// encodeParts splits a change report into parts that become one entry each, and encodes them. Changes that
// followers could not read are left out and recorded as refusals. A publication is never left out: encodeParts
// returns an error instead.
func (es *entries) encodeParts(c *channel, d difference.Delta) (parts []difference.Delta, bodies [][]byte, err error) {
	for _, part := range d.Split(maxPart) {
		body, read, err := encode(part)
		if err != nil {
			if part, err = es.readablePart(c, part); err != nil {
				return nil, nil, err
			}
			if part.Empty() && part.Page == nil {
				continue
			}
			if body, read, err = encode(part); err != nil {
				return nil, nil, err
			}
		}
		if es.signedForFeed(c.key, read) {
			es.keep(c.key, owner.HashOf(body), read)
		}
		parts, bodies = append(parts, part), append(bodies, body)
	}
	return parts, bodies, nil
}

// readablePart returns what followers can read of a part that they cannot read completely.
func (es *entries) readablePart(c *channel, part difference.Delta) (difference.Delta, error) {
	all := part
	part.Head, part.Changes = nil, nil
	if h := all.Head; h != nil {
		if _, _, err := encode(difference.Delta{Head: h}); err == nil {
			part.Head = h
		} else if made, remade := feed.NewHead(feed.Atom, h.Title, h.Link, h.Description, h.Language); h.Title != "" && remade == nil {
			part.Head = &made
		}
	}
	for _, ch := range all.Changes {
		_, _, err := encode(difference.Delta{Changes: []difference.Change{ch}})
		switch {
		case err == nil:
			part.Changes = append(part.Changes, ch)
		case ch.Publication != nil:
			return part, fmt.Errorf("item %s of a publisher: %w", ch.Item.ID, err)
		default:
			es.stats.Illegible++
			es.log.Warn("item left out of the log, because other nodes could not read it", "item", ch.Item.ID.String(), "err", err)
			es.refusals.add(Refusal{URL: c.url, Why: fmt.Sprintf("item %s was left out of the log, because followers could not read it (%v)", ch.Item.ID, err)})
		}
	}
	return part, nil
}

// append makes entries of changes, with the feed's head and pin from time to time. done is called as that of
// sequencer.Append.
func (es *entries) append(c *channel, d difference.Delta, done func(ok bool)) bool {
	l, key := c.leader, c.key
	if d.Head == nil && es.headIsOld(key, l.window.HeadRef()) {
		d.Head = l.head
	}
	if d.Pin == nil && es.headIsOld(key, l.window.PinRef()) {
		d.Pin = l.pin
	}
	parts, bodies, err := es.encodeParts(c, d)
	if err != nil {
		es.log.Warn("change report could not be appended to the log", "url", c.url, "err", err)
		return false
	}
	if len(parts) == 0 { // followers could read none of it
		done(true)
		return true
	}
	if len(parts) > es.owners.Room(key) {
		return false
	}
	if d.Head != nil {
		l.setHead(d.Head)
	}
	remaining, allCommitted := len(parts), true
	committed := func(ok bool) {
		allCommitted = allCommitted && ok
		if remaining--; remaining == 0 {
			done(allCommitted)
		}
	}
	l.unsigned = l.unsigned || slices.ContainsFunc(d.Changes, func(ch difference.Change) bool { return ch.Publication == nil })
	for i, part := range parts {
		err := es.owners.Append(key, bodies[i], len(part.Changes), func(seq, first uint64, at time.Time) owner.Hash {
			l.window.Apply(part, at, seq)
			for _, e := range l.window.Forget(first) {
				delete(l.marks, e.ID)
				delete(l.former, e.ID)
			}
			return owner.Hash(l.window.Hash())
		}, committed)
		if err != nil {
			es.log.Warn("change report could not be appended to the log", "url", c.url, "err", err)
			committed(false)
		}
	}
	return true
}

// An About holds what a feed says about itself. A field is empty if it is unknown.
type About struct {
	Title, Link, Language string
}

// About returns what a feed that this node leads says about itself.
func (es *entries) About(key overlay.ID) About {
	if c := es.feeds[key]; c != nil && c.leader != nil && c.leader.head != nil {
		h := c.leader.head
		return About{h.Title, h.Link, h.Language}
	}
	return About{}
}

// Fading returns the items that the log of a feed led by this node will lose when a given number of items is added,
// unless Append adds them again.
func (es *entries) Fading(key overlay.ID, items int) []feed.ID {
	c := es.feeds[key]
	if c == nil || c.leader == nil || !c.leader.ready {
		return nil
	}
	return c.leader.window.OlderThan(es.owners.FirstKept(key, items))
}

// headIsOld reports whether the entry with number ref is in the older half of a feed's log, so that its head or pin
// should be repeated.
func (es *entries) headIsOld(key overlay.ID, ref uint64) bool {
	log := es.owners.Log(key)
	return len(log) == 0 || ref < log[len(log)/2].At.Seq
}
