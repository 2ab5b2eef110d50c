package feedtree

import (
	"bytes"
	"errors"
	"fmt"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/overlay/owner"
)

// A sequencer signs only what its followers can read. Each body is decoded before it becomes an
// entry, exactly as a follower will decode it: an entry that nobody can read would hide its items
// for good, because the sequencer would count them as known.

// errUnlike says that a body reads as something else than what it was made of.
var errMismatch = errors.New("its body reads as another delta")

// encode packs a part of a finding and reads it back.
func encode(part difference.Delta) ([]byte, error) {
	body, err := part.Encode()
	if err != nil {
		return nil, err
	}
	if len(body) > owner.MaxBody {
		return nil, fmt.Errorf("%w: a body of %d bytes, more than %d", owner.ErrEntry, len(body), owner.MaxBody)
	}
	read, err := difference.Decode(body)
	if err == nil && !sameContent(part, read) {
		err = errMismatch
	}
	return body, err
}

// alike says whether two deltas bring readers the same.
func sameContent(a, b difference.Delta) bool {
	if (a.Head == nil) != (b.Head == nil) || a.Head != nil && a.Head.Hash() != b.Head.Hash() ||
		(a.Pin == nil) != (b.Pin == nil) || !bytes.Equal(a.Page, b.Page) || len(a.Changes) != len(b.Changes) {
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

// parts cuts a finding into what becomes one entry each, with their bodies. It leaves out what
// followers could not read, and notes that; the rest goes on. What a publisher has signed is
// never left out: then there are no parts, and an error.
func (f *FeedTree) encodeParts(c *channel, d difference.Delta) (of []difference.Delta, bodies [][]byte, err error) {
	for _, part := range d.Split(maxPart) {
		body, err := encode(part)
		if err != nil {
			if part, err = f.readablePart(c, part); err != nil {
				return nil, nil, err
			}
			if part.Head == nil && part.Empty() && part.Page == nil {
				continue
			}
			if body, err = encode(part); err != nil {
				return nil, nil, err
			}
		}
		of, bodies = append(of, part), append(bodies, body)
	}
	return of, bodies, nil
}

// legible returns what followers can read of a part that they cannot read whole.
func (f *FeedTree) readablePart(c *channel, part difference.Delta) (difference.Delta, error) {
	all := part
	part.Head, part.Changes = nil, nil
	if h := all.Head; h != nil {
		if _, err := encode(difference.Delta{Head: h}); err == nil {
			part.Head = h
		} else if made, remade := feed.NewHead(feed.Atom, h.Title, h.Link, h.Description, h.Language); h.Title != "" && remade == nil {
			part.Head = &made
		}
	}
	for _, ch := range all.Changes {
		_, err := encode(difference.Delta{Changes: []difference.Change{ch}})
		switch {
		case err == nil:
			part.Changes = append(part.Changes, ch)
		case ch.Publication != nil:
			return part, fmt.Errorf("item %s of a publisher: %w", ch.Item.ID, err)
		default:
			f.stats.Illegible++
			f.log.Warn("item left out of the log, because other nodes could not read it", "item", ch.Item.ID.String(), "err", err)
			f.addRefusal(Refusal{URL: c.url, Why: fmt.Sprintf("item %s was left out of its log: followers could not read it (%v)", ch.Item.ID, err)})
		}
	}
	return part, nil
}
