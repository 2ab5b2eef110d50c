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
	// wantedTime is how long an item whose content does not come keeps its place if another one needs it.
	wantedTime = 10 * time.Second
	// maxContentPart bounds the bytes of a Content message.
	maxContentPart = 48 << 10
)

// contents fetches large items for the feeds that this node leads, from the nodes that push them. An envelope with a
// valid signature of the feed's publisher names the size and the hash of its item, so only the publisher itself can make this node
// fetch anything. The parts are requested one by one. A lost one is requested again when the node pushes the envelope again.
type contents struct {
	*common
	wanted map[overlay.ID]*wantedContent // by feed, one each: its items come in order
}

// A wantedContent is a large item of which a part may be here.
type wantedContent struct {
	publication *difference.Publication // without its item
	raw         []byte
	from        env.Peer  // the node that pushes it
	heard       time.Time // when it last sent something
}

// want begins or continues to fetch the item of a publication. It returns false if there is no room.
func (co *contents) want(key overlay.ID, p *difference.Publication, from env.Peer) bool {
	now := co.clock.Now()
	w := co.wanted[key]
	if w == nil || w.publication.Hash != p.Hash {
		for other, old := range co.wanted {
			if len(co.wanted) >= maxWanted && now.Sub(old.heard) > wantedTime {
				delete(co.wanted, other)
			}
		}
		if co.wanted[key] == nil && len(co.wanted) >= maxWanted {
			return false
		}
		w = &wantedContent{publication: p, heard: now}
		co.wanted[key] = w
	}
	w.from = from
	co.request(w)
	return true
}

func (co *contents) request(w *wantedContent) {
	co.send(w.from, &feedtreepb.Message{Body: &feedtreepb.Message_ContentRequest{ContentRequest: &feedtreepb.ContentRequest{
		Hash: w.publication.Hash[:], Offset: uint32(len(w.raw)),
	}}})
}

// receive takes a part, and returns the publication if it is complete.
func (co *contents) receive(from env.PeerID, m *feedtreepb.Content) (key overlay.ID, p *difference.Publication, by env.Peer, err error) {
	for key, w := range co.wanted {
		if !bytes.Equal(w.publication.Hash[:], m.Hash) || w.from.ID != from || int(m.Offset) != len(w.raw) {
			continue // an answer to a repeated request, perhaps
		}
		if w.heard = co.clock.Now(); len(w.raw)+len(m.Bytes) < w.publication.ContentSize() {
			w.raw = append(w.raw, m.Bytes...)
			co.request(w)
			break
		}
		delete(co.wanted, key)
		p, err = w.publication.Complete(append(w.raw, m.Bytes...))
		if err != nil {
			co.refusals.add(Refusal{URL: w.publication.URL, Seq: w.publication.Seq, Key: w.publication.Key, Why: err.Error()})
		}
		return key, p, w.from, err
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
