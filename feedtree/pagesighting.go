package feedtree

import (
	"slices"

	"tidings/difference"
	"tidings/difference/page"
	"tidings/internal/feed"
	"tidings/overlay"
)

// sawPage handles the text of a page that this node has fetched itself. Two honest nodes rarely have the same text, because
// each leaves out the noise that it knows. So an owner compares no texts. It signs a change of the log if its own text
// shows the same change ([difference.SeenOnPage]).
func (ws *witnesses) sawPage(key overlay.ID, url string, text *page.Core) {
	if v, ok := ws.owners.View(key); !ok || !v.Owns {
		delete(ws.records, key)
		return
	}
	r := ws.record(key)
	r.looks, r.at, r.page = 0, ws.clock.Now(), r.page.Next(text)
	ws.answer(key, url, r)
}

// answerPage sends a sighting of the wanted changes that the last text of a page shows. A change that it does not show
// stays wanted: the page may have changed again, or this node may take for noise what the sequencer does not.
func (ws *witnesses) answerPage(key overlay.ID, url string, r *sightRecord) {
	r.wanted = slices.DeleteFunc(r.wanted, func(w wantedSight) bool { return ws.clock.Now().Sub(w.since) > watchIntervals*ws.cfg.PollInterval })
	var asked []difference.Version
	for _, w := range r.wanted {
		if w.asked {
			asked = append(asked, w.Version)
		}
	}
	if len(asked) == 0 || r.judging {
		return
	}
	text, at := r.page, r.at
	address, _ := feed.DocumentURL(url)
	r.judging = true
	ws.entries.decode(ws.owners.Visible(key), func(got []decodedEntry) {
		log, seen := make([]difference.Delta, len(got)), []difference.Version(nil)
		for i := range got {
			log[i] = got[i].Delta
		}
		ws.entries.worker.Do(func() { seen = difference.SeenOnPage(text, address, log, asked) }, func() {
			r.judging = false
			r.wanted = slices.DeleteFunc(r.wanted, func(w wantedSight) bool { return slices.Contains(seen, w.Version) })
			if ws.records[key] == r && len(seen) > 0 {
				ws.stats.Sighted += uint64(len(seen))
				ws.sendSighting(key, r.to, difference.See(ws.signer, url, seen, at))
			}
			if r.page != text {
				ws.answerPage(key, url, r)
			}
		})
	})
}
