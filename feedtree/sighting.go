package feedtree

import (
	"bytes"
	"slices"
	"time"

	"tidings/difference"
	"tidings/difference/page"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// This file, certifier.go and witnessed.go let readers know which polled items more than one node has seen at the
// origin (decision 021):
//
//	witnesses  an owner remembers what it has fetched itself, and signs that on request     sighting.go, pagesighting.go
//	certifier  the sequencer asks the owners, and appends their sightings to the log          certifier.go
//	marks      a reader's node checks the sightings, and shows what they prove                witnessed.go
//	contests   an owner signs what it has looked for in vain, and watches that this is logged  contest.go

// witnesses remembers which versions of items this node has seen at the origins of the feeds that it owns, and signs
// sightings of them for the feeds' sequencers. It signs nothing that it has only heard of.
type witnesses struct {
	*common
	records map[overlay.ID]*sightRecord // of feeds that this node owns
	certify func(c *channel, s *difference.Sighting)
	contest func(key overlay.ID, url string, r *sightRecord) // signs which wanted items the last document lacks
	entries *entries
}

// A sightRecord is what an owner has seen of a feed, and which items it is to look for: those that the feed's sequencer asks
// about, and new ones of the log.
type sightRecord struct {
	seen     []seenVersion // items of the last document, sorted
	at       time.Time     // when that was fetched; zero: not yet
	wanted   []wantedSight // at most difference.MaxSeen, the newest last
	to       env.PeerID    // the sequencer that wants to know
	looks    int           // times that the document was fetched only for a sequencer, without success
	lookedAt time.Time     // when the document was last fetched only for a sequencer
	crowded  bool          // since the last document, wanted items of the log have made room for others
	watching
	page    *page.Seen // of a page: what this node has read of it; nil: nothing yet
	judging bool       // of a page: wanted changes are being compared with it
	judged  judgement  // of a page: the last comparison
	doubted bool       // the next document is to be compared with the log, because another owner doubts the sequencer
	fetched uint64     // head of the log when the document was fetched, or the origin said that it has not changed
	head    uint64     // head of the log when it was last checked
}

// A seenVersion is a version of an item, the identity first.
type seenVersion [64]byte

func seenVersionOf(v difference.Version) (p seenVersion) {
	copy(p[:32], v.ID[:])
	copy(p[32:], v.Hash[:])
	return p
}

func compareSeen(a, b seenVersion) int { return bytes.Compare(a[:], b[:]) }

// A wantedSight is a version that this node looks for.
type wantedSight struct {
	difference.Version
	since     time.Time // when this node first heard of it
	itemSince time.Time // when it first heard of a version of the item, since the last certificate
	asked     bool      // the sequencer waits for an answer
	logged    bool      // the version was read from the log
	contested
}

// maxLookDoublings bounds the pause between looks that bring no document: it begins at half a polling interval, and is
// doubled each time.
const maxLookDoublings = 8

// saw handles a document that this node has fetched from the origin of a feed.
func (ws *witnesses) saw(key overlay.ID, url string, doc *feed.Feed) {
	r := ws.owned(key)
	if r == nil {
		return
	}
	before, first := *r, r.at.IsZero()
	r.looks, r.crowded = 0, false
	defer ws.contest(key, url, r)
	r.at, r.seen = ws.clock.Now(), make([]seenVersion, 0, len(doc.Items))
	r.fetched = ws.logHead(key)
	for i := range doc.Items {
		r.seen = append(r.seen, seenVersionOf(difference.Version{ID: doc.Items[i].ID, Hash: doc.Items[i].Hash}))
	}
	slices.SortFunc(r.seen, compareSeen)
	isNew := func(it feed.Item) bool { return !before.has(it.ID) }
	_, signs := doc.Head.Publisher() // then the sequencer may wait for the publisher to send the item
	idle := !first && r.fetched == before.fetched && slices.ContainsFunc(doc.Items, isNew)
	r.doubted = false
	if !signs && (before.doubted || idle) {
		ws.compare(key, r, doc)
	}
	ws.answer(key, url, r)
}

// has reports whether the last document has an item, in any version.
func (r *sightRecord) has(id feed.ID) bool {
	i, _ := slices.BinarySearchFunc(r.seen, seenVersionOf(difference.Version{ID: id}), compareSeen)
	return i < len(r.seen) && bytes.Equal(r.seen[i][:32], id[:])
}

// checkLogs notes which logs have grown. A sequencer that gets items, but never appends one, is so found out by the owners
// that see them at the origin. An owner cannot know which items a log should have, because some are unreadable and others
// await their publisher; so any entry counts.
func (ws *witnesses) checkLogs() {
	for key, r := range ws.records {
		if head := ws.logHead(key); head != r.head {
			r.head = head
			ws.owners.Missing(key, false)
		}
	}
}

func (ws *witnesses) record(key overlay.ID) *sightRecord {
	r := ws.records[key]
	if r == nil {
		r = new(sightRecord)
		ws.records[key] = r
	}
	return r
}

// owned returns the record of a feed that this node owns together with others; nil if it does not.
func (ws *witnesses) owned(key overlay.ID) *sightRecord {
	if v, ok := ws.owners.View(key); ok && v.Owns && len(v.Epoch.Owners) > 1 {
		return ws.record(key)
	}
	delete(ws.records, key)
	return nil
}

// onSightRequest handles the request of a feed's sequencer for sightings.
func (ws *witnesses) onSightRequest(from env.PeerID, m *feedtreepb.SightRequest) error {
	items, err := difference.Versions(m.Items)
	if err != nil {
		return err
	}
	key := overlay.ID(m.Key)
	if v, ok := ws.owners.View(key); ok && v.Owns && v.Epoch != nil && v.Epoch.Sequencer == from {
		ws.want(key, v.URL, from, items, m.Look)
	}
	return nil
}

// want notes which versions a sequencer asks about, and answers what is known. If look is set and this node does not
// poll the feed anyway, it fetches the document for the rest.
func (ws *witnesses) want(key overlay.ID, url string, to env.PeerID, items []difference.Version, look bool) {
	r, now := ws.record(key), ws.clock.Now()
	r.to = to
	for i := range r.wanted {
		r.wanted[i].asked = slices.Contains(items, r.wanted[i].Version)
	}
	for _, v := range items {
		r.want(v, false, now).asked = true
	}
	ws.answer(key, url, r)
	ws.repeat(key, r)
	if look && slices.ContainsFunc(r.wanted, func(w wantedSight) bool { return w.asked }) {
		ws.look(key, url, r)
	}
}

// repeat sends the sequencer what this node has signed about the versions that it asks for and that this node has looked for
// in vain: it may be another sequencer than before. Nothing is signed anew, and nobody else is told again, because a
// sequencer may ask as often as it likes.
func (ws *witnesses) repeat(key overlay.ID, r *sightRecord) {
	var sent []*difference.Sighting
	for _, w := range r.wanted {
		if s := r.missedBy(ws.signer.PeerID(), w.Version); w.asked && s != nil && !slices.Contains(sent, s) {
			sent = append(sent, s)
			ws.sendSighting(key, r.to, s)
		}
	}
}

// want returns the record of a wanted item. The version replaces an earlier one, but what a sequencer asks about replaces
// nothing from the log: otherwise it could keep the owners from looking for what it forges by asking about something else.
func (r *sightRecord) want(v difference.Version, logged bool, now time.Time) *wantedSight {
	i := slices.IndexFunc(r.wanted, func(w wantedSight) bool { return w.ID == v.ID })
	switch {
	case i < 0:
		if len(r.wanted) >= difference.MaxSeen {
			drop := max(0, slices.IndexFunc(r.wanted, func(w wantedSight) bool { return !w.logged }))
			r.crowded = r.crowded || r.wanted[drop].logged
			r.wanted = slices.Delete(r.wanted, drop, drop+1)
		}
		r.wanted = append(r.wanted, wantedSight{Version: v, since: now, itemSince: now, logged: logged})
		i = len(r.wanted) - 1
	case r.wanted[i].Version == v:
		r.wanted[i].logged = r.wanted[i].logged || logged
	case logged || !r.wanted[i].logged:
		r.wanted[i] = wantedSight{Version: v, since: now, itemSince: r.wanted[i].itemSince, asked: r.wanted[i].asked, logged: logged}
	}
	return &r.wanted[i]
}

// expire ends the search for items that nobody has settled for long.
func (r *sightRecord) expire(now time.Time, life time.Duration) {
	r.wanted = slices.DeleteFunc(r.wanted, func(w wantedSight) bool { return now.Sub(w.since) > life })
}

// unchanged handles the answer of the origin that the document which this node fetched last has not changed.
func (ws *witnesses) unchanged(key overlay.ID, url string) {
	if r := ws.records[key]; r != nil && !r.at.IsZero() {
		r.at, r.fetched = ws.clock.Now(), ws.logHead(key)
		ws.answer(key, url, r)
		ws.contest(key, url, r)
	}
}

// look fetches the document, unless this node polls the feed anyway or has looked lately: a sequencer that lies must not be
// able to make its owners ask an origin all the time, nor one that fails.
func (ws *witnesses) look(key overlay.ID, url string, r *sightRecord) bool {
	now := ws.clock.Now()
	if pause := ws.cfg.PollInterval / 2 << min(r.looks, maxLookDoublings); !r.lookedAt.IsZero() && now.Sub(r.lookedAt) < pause || !ws.app.Look(key, url) {
		return false
	}
	r.lookedAt = now
	r.looks++
	ws.stats.Looks++
	return true
}

// Doubted looks for a reason to replace the sequencer of a feed, because another owner wants another one.
func (ws *witnesses) Doubted(key overlay.ID) {
	v, ok := ws.owners.View(key)
	_, isPage := feed.DocumentURL(v.URL)
	_, isSteward := overlay.StewardDomain(v.URL)
	if ok && !isPage && !isSteward && !overlay.IsShardURL(v.URL) && v.Owns && !v.Leads {
		r := ws.record(key)
		r.doubted = true // even if a document is on its way already, or comes with the next poll
		ws.look(key, v.URL, r)
	}
}

// compare notes whether a log lacks items of a document. It may lack none, although the items are new to this node: replicas
// of an origin lag. Items that no follower could read count as well, so such a feed may get another sequencer without need.
func (ws *witnesses) compare(key overlay.ID, r *sightRecord, doc *feed.Feed) {
	f := *doc
	f.Items = slices.Clone(doc.Items) // which Recognise changes
	known := new(difference.Known)
	ws.entries.decode(ws.owners.Visible(key), func(_ *owner.Entry, d *decodedEntry) { known.AddLogged(d.Delta) }, func() {
		known.Recognise(&f)
		if slices.ContainsFunc(f.Items, func(it feed.Item) bool { has, _ := known.Has(it.ID, it.Hash); return !has }) {
			r.head = r.fetched
			ws.owners.Missing(key, true)
		}
	})
}

// answer sends a sighting of the wanted items that the last document has. If it has another version than the wanted
// one, that counts only if the document was fetched after the request, because an earlier one may have been edited
// since.
func (ws *witnesses) answer(key overlay.ID, url string, r *sightRecord) {
	if r.page != nil {
		ws.answerPage(key, url, r)
		return
	}
	var seen []difference.Version
	for i := range r.wanted {
		w := &r.wanted[i]
		if v, found := r.find(w.Version); w.asked && found && (v == w.Version || !r.at.Before(w.since)) {
			w.asked, seen = false, append(seen, v)
		}
	}
	r.wanted = slices.DeleteFunc(r.wanted, func(w wantedSight) bool {
		v, found := r.find(w.Version)
		return found && v == w.Version
	})
	if len(seen) == 0 {
		return
	}
	ws.stats.Sighted += uint64(len(seen))
	ws.sendSighting(key, r.to, difference.See(ws.signer, url, seen, r.at))
}

// sendSighting gives a sighting to an owner.
func (ws *witnesses) sendSighting(key overlay.ID, to env.PeerID, s *difference.Sighting) {
	if to == ws.signer.PeerID() {
		if c := ws.feeds[key]; c != nil {
			ws.certify(c, s)
		}
		return
	}
	ws.send(ws.peer(to), &feedtreepb.Message{Body: &feedtreepb.Message_Sight{Sight: &feedtreepb.Sight{Sighting: s.Raw}}})
}

// find returns the version of a wanted item that the last document has.
func (r *sightRecord) find(v difference.Version) (difference.Version, bool) {
	want := seenVersionOf(v)
	i, exact := slices.BinarySearchFunc(r.seen, want, compareSeen)
	if exact {
		return v, true
	}
	for _, j := range []int{i - 1, i} { // the document has an item once, so that its other version stands beside the wanted one
		if j >= 0 && j < len(r.seen) && bytes.Equal(r.seen[j][:32], want[:32]) {
			return difference.Version{ID: v.ID, Hash: feed.Hash(r.seen[j][32:])}, true
		}
	}
	return v, false
}

// forget drops the records of feeds that this node no longer owns.
func (ws *witnesses) forget() {
	for key := range ws.records {
		ws.owned(key)
	}
}
