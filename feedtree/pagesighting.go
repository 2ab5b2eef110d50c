package feedtree

import (
	"slices"
	"time"

	"tidings/difference"
	"tidings/difference/page"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A judgement says which changes in the log of a page this node has seen itself.
type judgement struct {
	head     owner.Hash // last entry of the log
	page     *page.Seen
	of, seen []difference.Version // those that were compared; those of them that the page shows
}

// sawPage handles the text of a page that this node has fetched itself. Two honest nodes rarely have the same text, because
// each leaves out the noise that it knows. So an owner compares no texts. It signs a change of the log if its own texts
// show the same change ([difference.SeenOnPage]).
func (ws *witnesses) sawPage(key overlay.ID, url string, text *page.Core) {
	if r := ws.owned(key); r != nil {
		r.looks, r.at, r.page = 0, ws.clock.Now(), r.page.Next(text)
		ws.answer(key, url, r)
	}
}

// answerPage sends a sighting of the wanted changes that this node has seen. A change that it has not seen stays wanted: the
// page may have changed again, or this node may take for noise what the sequencer does not. A request is answered without
// the log if neither the log nor the text has changed since the same changes were looked for.
func (ws *witnesses) answerPage(key overlay.ID, url string, r *sightRecord) {
	r.expire(ws.clock.Now(), watchIntervals*ws.cfg.PollInterval)
	var asked []difference.Version
	for _, w := range r.wanted {
		if w.asked {
			asked = append(asked, w.Version)
		}
	}
	if len(asked) == 0 || r.judging {
		return
	}
	log, text, at := ws.owners.Visible(key), r.page, r.at
	var head owner.Hash
	if len(log) > 0 {
		head = log[len(log)-1].Hash
	}
	if j := &r.judged; j.head == head && j.page == text && !slices.ContainsFunc(asked, func(v difference.Version) bool { return !slices.Contains(j.of, v) }) {
		ws.signPage(key, url, r, at)
		return
	}
	address, _ := feed.DocumentURL(url)
	r.judging = true
	var deltas []difference.Delta
	var seen []difference.Version
	ws.entries.decode(log, func(_ *owner.Entry, d *decodedEntry) {
		deltas = append(deltas, d.Delta)
	}, func() {
		ws.entries.worker.Do(func() { seen = difference.SeenOnPage(text, address, deltas, asked) }, func() {
			r.judging, r.judged = false, judgement{head, text, asked, seen}
			if ws.records[key] == r {
				ws.signPage(key, url, r, at)
				ws.answerPage(key, url, r) // another text may have come meanwhile, and other requests
			}
		})
	})
}

// signPage sends a sighting of the wanted changes that the last judgement has found to be seen.
func (ws *witnesses) signPage(key overlay.ID, url string, r *sightRecord, at time.Time) {
	var seen []difference.Version
	r.wanted = slices.DeleteFunc(r.wanted, func(w wantedSight) bool {
		is := w.asked && slices.Contains(r.judged.seen, w.Version)
		if is {
			seen = append(seen, w.Version)
		}
		return is
	})
	if len(seen) > 0 {
		ws.stats.Sighted += uint64(len(seen))
		ws.sendSighting(key, r.to, difference.See(ws.signer, url, seen, at))
	}
}
