package feedtree

import (
	"bytes"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

const (
	// maxWanted bounds the large items that a node fetches at the same time for the feeds that it leads, and so their
	// memory: 16 MiB. At the limit the publisher's node is told to try again.
	maxWanted = 16
	// maxSources bounds the nodes from which the items of one feed are fetched at the same time. More than one, because any
	// node that has seen the envelope can push it, without the item or with another one.
	maxSources = 4
	// wantedTime is how long an item keeps its place, from the first part on, if another one needs it. So a node that
	// sends slowly blocks nobody for longer.
	wantedTime = 20 * time.Second
	// maxContentPart is the number of bytes of a Content message. The last one has the rest.
	maxContentPart = 48 << 10
)

// contents fetches large items for the feeds that this node leads, from the nodes that push them. An envelope with a
// valid signature of the feed's publisher names the size and the hash of its item, so only the publisher itself can make this node
// fetch anything. The parts are requested one by one. A lost one is requested again when the node pushes the envelope again.
type contents struct {
	*common
	wanted map[source]*wantedContent // one each: the items of a feed come in order
}

// A source is a node that pushes publications of a feed.
type source struct {
	key  overlay.ID // of the feed
	node env.PeerID
}

// A wantedContent is a large item of which a part may be here.
type wantedContent struct {
	publication *difference.Publication // without its item
	raw         []byte
	from        env.Peer
	began       time.Time
}

// want begins or continues to fetch the item of a publication. It returns false if there is no room.
func (co *contents) want(key overlay.ID, p *difference.Publication, from env.Peer) bool {
	now, at := co.clock.Now(), source{key, from.ID}
	w := co.wanted[at]
	if w == nil || w.publication.Hash != p.Hash {
		delete(co.wanted, at)
		if !co.makeRoom(key, now) {
			return false
		}
		w = &wantedContent{publication: p, from: from, began: now}
		co.wanted[at] = w
	}
	co.request(w)
	return true
}

// makeRoom reports whether there is room for another item of a feed, if necessary by giving up one that has had its time.
func (co *contents) makeRoom(key overlay.ID, now time.Time) bool {
	sources := 0
	for at := range co.wanted {
		if at.key == key {
			sources++
		}
	}
	if sources < maxSources && len(co.wanted) < maxWanted {
		return true
	}
	for at, w := range co.wanted {
		if (sources < maxSources || at.key == key) && now.Sub(w.began) > wantedTime {
			delete(co.wanted, at)
			return true
		}
	}
	return false
}

func (co *contents) request(w *wantedContent) {
	co.send(w.from, &feedtreepb.Message{Body: &feedtreepb.Message_ContentRequest{ContentRequest: &feedtreepb.ContentRequest{
		Hash: w.publication.Hash[:], Offset: uint32(len(w.raw)),
	}}})
}

// receive takes a part, and returns the publication if it is complete.
func (co *contents) receive(from env.PeerID, m *feedtreepb.Content) (key overlay.ID, p *difference.Publication, by env.Peer, err error) {
	for at, w := range co.wanted {
		rest := w.publication.ContentSize() - len(w.raw)
		if at.node != from || !bytes.Equal(w.publication.Hash[:], m.Hash) || int(m.Offset) != len(w.raw) || len(m.Bytes) != min(rest, maxContentPart) {
			continue // an answer to a repeated request, perhaps
		}
		if w.raw = append(w.raw, m.Bytes...); len(m.Bytes) < rest {
			co.request(w)
			break
		}
		delete(co.wanted, at)
		if p, err = w.publication.Complete(w.raw); err != nil { // which says nothing about the publisher
			co.refusals.add(Refusal{URL: w.publication.URL, Why: err.Error()})
		}
		return at.key, p, w.from, err
	}
	return key, nil, by, nil
}

// onContentRequest sends a part of a large item to the sequencer of its feed.
func (pu *pusher) onContentRequest(from env.PeerID, m *feedtreepb.ContentRequest) {
	p := pu.pushes[feed.Hash(m.Hash)]
	if p == nil {
		return
	}
	raw := p.publication.Content()
	v, ok := pu.owners.View(p.key)
	if !ok || v.Epoch == nil || v.Epoch.Sequencer != from || int(m.Offset) >= len(raw) {
		return
	}
	raw = raw[m.Offset:]
	pu.net.Send(pu.peer(from), env.Bulk, wire.AppendFrame(nil, wire.Feed, &feedtreepb.Message{Body: &feedtreepb.Message_Content{Content: &feedtreepb.Content{
		Hash: m.Hash, Offset: m.Offset, Bytes: raw[:min(len(raw), maxContentPart)],
	}}}))
}
