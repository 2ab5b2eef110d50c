package feedtree

import (
	"bytes"
	"slices"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// contests lets the owners of a feed say that an item of the log is not at the origin (decision 022). An owner that has
// looked for an unsigned item in vain signs that, and sends it to all owners. The sequencer appends the statements to the
// log as soon as most owners agree. The others read the log themselves, so that a sequencer cannot keep an item from them,
// tell it of contests that it may not know, and bar a sequencer that leaves one out of the log.
type contests struct {
	*common
	entries   *entries
	witnesses *witnesses
}

func newContests(m *common, entries *entries, ws *witnesses) *contests {
	ct := &contests{m, entries, ws}
	ws.contest = ct.sign
	return ct
}

// watching is what an owner that does not lead a feed knows of its log.
type watching struct {
	watched   owner.Hash // last entry that was read; zero: none
	reading   bool       // entries are being read
	sequencer env.PeerID // of the log
}

// contested is what an owner knows of the search for an item.
type contested struct {
	missed      []*difference.Sighting // of owners that have looked for it in vain, the latest of each
	contestedAt time.Time              // since when these make a contest that the log lacks, if told is not 0
	told        int                    // times that the sequencer was told of the contest since then
}

const (
	// maxWatched bounds the entries of a log that an owner reads at a time. Items of earlier ones are not looked for.
	maxWatched = 64
	// watchIntervals is the number of polling intervals after which an owner stops looking for an item that no
	// certificate settles: longer than a sequencer asks.
	watchIntervals = 8
	// unaskedIntervals is the number of polling intervals after which an owner looks for an item that it was not asked to
	// look for: longer than an honest sequencer waits before it asks all owners to look.
	unaskedIntervals = 2
	// pushedPatience takes the place of unaskedIntervals in a feed whose news a hub pushes: the sequencer asks about once in a day.
	// Earlier looks would be more requests than the polls that the hub saves.
	pushedPatience = 40 * time.Hour
	// maxTold is how often an owner tells the sequencer of a contest that the log lacks, in equal intervals before it bars it: a
	// message may be lost, and the log may have no room.
	maxTold = 4
	// barTime is how long a sequencer that has left a contest out of the log may not lead the feed again.
	barTime = 24 * time.Hour
)

// contestAfter is how old an item must be before its absence from a document counts. Replicas of an origin may lag.
func (ct *contests) contestAfter() time.Duration { return ct.cfg.PollInterval / 4 }

// barAfter is how long a sequencer has to append a contest: longer than it waits before it asks all owners to look.
func (ct *contests) barAfter() time.Duration { return 2 * ct.cfg.PollInterval }

// check reads what is new in the logs of the feeds that this node owns, and watches their sequencers.
func (ct *contests) check(now time.Time) {
	for _, key := range ct.owners.Keys() {
		v, _ := ct.owners.View(key)
		log := ct.owners.Log(key)
		if !v.Owns || v.Leads || v.Epoch == nil || len(v.Epoch.Owners) < minWitnesses || len(log) == 0 {
			continue
		}
		r := ct.witnesses.record(key)
		if _, isPage := feed.DocumentURL(v.URL); isPage {
			if r.page == nil { // to know the lines that the next change removes
				ct.witnesses.look(key, v.URL, r)
			}
			continue
		}
		if r.sequencer != v.Epoch.Sequencer {
			r.sequencer = v.Epoch.Sequencer
			for i := range r.wanted {
				r.wanted[i].told = 0
			}
		}
		patience, life := unaskedIntervals*ct.cfg.PollInterval, watchIntervals*ct.cfg.PollInterval
		if ct.app.Pushed(key) {
			patience, life = max(patience, pushedPatience), life+pushedPatience
		}
		r.expire(now, life)
		ct.read(key, r, log)
		if r.overdue(now, patience, ct.contestAfter()) {
			ct.witnesses.look(key, v.URL, r)
		}
		ct.judge(key, r, v.Epoch.Owners, now)
	}
}

// read looks for new unsigned items in a log, and for certificates that settle earlier ones.
func (ct *contests) read(key overlay.ID, r *sightRecord, log []*owner.Entry) {
	head := log[len(log)-1].Hash
	if r.reading || head == r.watched {
		return
	}
	fresh, replaced := entriesAfter(log, r.watched)
	if begins := r.watched == (owner.Hash{}); begins || replaced {
		r.watched = head // earlier items may have left the document
		return
	}
	fresh, r.watched, r.reading = fresh[max(0, len(fresh)-maxWatched):], head, true
	ct.entries.decode(fresh, func(_ *owner.Entry, d *decodedEntry) {
		v, ok := ct.owners.View(key)
		if !ok || v.Epoch == nil {
			return
		}
		for _, ch := range d.Changes {
			if ch.Publication == nil {
				r.want(difference.Version{ID: ch.Item.ID, Hash: ch.Item.Hash}, true, ct.clock.Now())
			}
		}
		r.settle(d.sightings, v.Epoch.Owners)
	}, func() { r.reading = false })
}

// settle ends the search for the items that a certificate proves something about.
func (r *sightRecord) settle(certificate []*difference.Sighting, owners []env.PeerID) {
	var m marks
	m.add(certificate, func(id feed.ID) (hash feed.Hash) {
		for _, w := range r.wanted {
			if w.ID == id {
				hash = w.Hash
			}
		}
		return hash
	}, owners)
	r.wanted = slices.DeleteFunc(r.wanted, func(w wantedSight) bool { return m.of(w.Version) != (mark{}) })
}

// overdue reports whether the sequencer should have asked this node long ago to look for an item, or whether there were so
// many items that it could not know.
func (r *sightRecord) overdue(now time.Time, patience, contestAfter time.Duration) bool {
	return r.crowded && now.Sub(r.at) > patience || slices.ContainsFunc(r.wanted, func(w wantedSight) bool {
		return now.Sub(w.since) > patience && r.at.Before(w.since.Add(contestAfter))
	})
}

// sign signs which wanted items the last document lacks. An item counts as missing only if the document cannot have
// rolled past it: at least half of what the document has is older in the log. Another version of the item counts, too.
func (ct *contests) sign(key overlay.ID, url string, r *sightRecord) {
	if r.page != nil {
		return // a page may have changed again, or this node may take for noise what the sequencer does not
	}
	var absent, missing, others []difference.Version
	for _, w := range r.wanted {
		seen, other := r.find(w.Version) // the wanted version itself would have been answered
		switch {
		case other && !r.at.Before(w.since.Add(ct.contestAfter())):
			if len(others) < difference.MaxSeen/2 {
				missing, others = append(missing, w.Version), append(others, seen)
			}
		case !other && !r.at.Before(w.since) && !r.at.Before(w.itemSince.Add(ct.contestAfter())):
			absent = append(absent, w.Version)
		}
	}
	if len(absent) == 0 {
		ct.spread(key, url, r, r.at, others, missing)
		return
	}
	log, seen, at := ct.owners.Log(key), r.seen, r.at
	var w difference.Window
	ct.entries.decode(log, func(e *owner.Entry, d *decodedEntry) { w.Apply(d.Delta, e.Time, e.At.Seq) }, func() {
		for _, v := range absent {
			if e, ok := w.Entry(v.ID); ok && len(others)+len(missing) < difference.MaxSeen && e.Hash == v.Hash && !e.Signed && mostlyOlder(&w, seen, e.Ref) {
				missing = append(missing, v)
			}
		}
		ct.spread(key, url, r, at, others, missing)
	})
}

// mostlyOlder reports whether a log has at least half of a document's items in entries before ref.
func mostlyOlder(w *difference.Window, doc []seenVersion, ref uint64) bool {
	older := 0
	for i := range doc {
		if e, ok := w.Entry(feed.ID(doc[i][:len(feed.ID{})])); ok && e.Ref < ref {
			older++
		}
	}
	return older > 0 && 2*older >= len(doc)
}

// spread signs that versions are missing from the document that this node fetched at a time, or that there are others in
// their place, and tells all owners.
func (ct *contests) spread(key overlay.ID, url string, r *sightRecord, at time.Time, others, missing []difference.Version) {
	v, ok := ct.owners.View(key)
	if len(missing) == 0 || !ok || !v.Owns || v.Epoch == nil || ct.witnesses.records[key] != r {
		return
	}
	ct.stats.Missed += uint64(len(missing))
	s := difference.See(ct.signer, url, others, at, missing...)
	ct.heard(key, s)
	for _, to := range v.Epoch.Owners {
		ct.witnesses.sendSighting(key, to, s)
	}
}

// heard notes which items another owner, or this one, has looked for in vain since this node heard of them: the sequencer
// counts nothing from before it appended them.
func (ct *contests) heard(key overlay.ID, s *difference.Sighting) {
	r, by := ct.witnesses.records[key], wire.PeerIDOf(s.Owner)
	v, ok := ct.owners.View(key)
	if r == nil || !ok || v.Epoch == nil || !slices.Contains(v.Epoch.Owners, by) {
		return
	}
	for i := range r.wanted {
		if w := &r.wanted[i]; slices.Contains(s.Missing, w.Version) && !s.Time.Before(w.since) {
			w.missed = slices.DeleteFunc(w.missed, func(old *difference.Sighting) bool { return wire.PeerIDOf(old.Owner) == by })
			w.missed = append(w.missed, s)
		}
	}
}

// missedBy returns the sighting in which an owner says that it has looked for a version in vain; nil if there is none.
func (r *sightRecord) missedBy(owner env.PeerID, v difference.Version) *difference.Sighting {
	if r == nil {
		return nil
	}
	for i := range r.wanted {
		for _, s := range r.wanted[i].missed {
			if r.wanted[i].Version == v && wire.PeerIDOf(s.Owner) == owner {
				return s
			}
		}
	}
	return nil
}

// judge tells the sequencer which contests the log lacks, because lying owners may have told this node only, and bars it if
// the log still lacks one after a time for which it could have appended it. It is not barred if it has itself signed that
// the item is missing: then it believed another node, and its log may be full.
func (ct *contests) judge(key overlay.ID, r *sightRecord, owners []env.PeerID, now time.Time) {
	var tell, bar []difference.Version
	for i := range r.wanted {
		w := &r.wanted[i]
		var m marks
		m.add(w.missed, func(feed.ID) feed.Hash { return w.Hash }, owners)
		if !m.of(w.Version).contested || r.missedBy(r.sequencer, w.Version) != nil {
			w.told = 0
			continue
		}
		if w.told == 0 {
			w.contestedAt = now
		}
		switch {
		case now.Sub(w.contestedAt) < time.Duration(w.told)*ct.barAfter()/maxTold:
		case w.told < maxTold:
			w.told++
			tell = append(tell, w.Version)
		default:
			w.told = 0 // begins anew, if a minority of the owners is barred already
			bar = append(bar, w.Version)
		}
	}
	if len(tell)+len(bar) == 0 {
		return
	}
	log := ct.owners.Log(key)
	var window difference.Window
	var logged marks // a sequencer asks again about contested items, so that they are wanted again
	ct.entries.decode(log, func(e *owner.Entry, d *decodedEntry) {
		window.Apply(d.Delta, e.Time, e.At.Seq)
		logged.add(d.sightings, window.Version, owners)
	}, func() {
		v, ok := ct.owners.View(key)
		if !ok || v.Epoch == nil || v.Epoch.Sequencer != r.sequencer {
			return
		}
		r.wanted = slices.DeleteFunc(r.wanted, func(w wantedSight) bool { return logged.of(w.Version) != (mark{}) })
		ct.tell(key, r, v.Epoch.Owners, tell)
		for _, w := range r.wanted {
			if slices.Contains(bar, w.Version) && ct.owners.Bar(key, r.sequencer, ct.clock.Now().Add(barTime)) {
				ct.log.Warn("sequencer of a feed has left out of the log that an item is not at the web server; another node leads the feed for a day", "url", v.URL, "item", w.ID.String(), "sequencer", overlay.NodeID(ct.node.Network(), r.sequencer).String())
				return
			}
		}
	})
}

// tell sends the sequencer the sightings that contest some versions, those that contest more than one once.
func (ct *contests) tell(key overlay.ID, r *sightRecord, owners []env.PeerID, versions []difference.Version) {
	var told [][][]byte
	for _, w := range r.wanted {
		var raw [][]byte
		for _, s := range w.missed {
			if slices.Contains(owners, wire.PeerIDOf(s.Owner)) {
				raw = append(raw, s.Raw)
			}
		}
		same := func(other [][]byte) bool { return slices.EqualFunc(raw, other, bytes.Equal) }
		if slices.Contains(versions, w.Version) && !slices.ContainsFunc(told, same) {
			told = append(told, raw)
			ct.send(ct.peer(r.sequencer), &feedtreepb.Message{Body: &feedtreepb.Message_Contest{Contest: &feedtreepb.Contest{Key: key[:], Sightings: raw}}})
		}
	}
}
