package feedtree

import (
	"testing"

	"tidings/difference"
	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

// heldWorker keeps what it is to do until it is told to go on.
type heldWorker struct{ jobs []func() }

func (w *heldWorker) Do(pure, done func()) { w.jobs = append(w.jobs, func() { pure(); done() }) }

// goOn does all jobs, and those that follow from them, and returns their number.
func (w *heldWorker) goOn() (n int) {
	for ; len(w.jobs) > 0; n++ {
		job := w.jobs[0]
		w.jobs = w.jobs[1:]
		job()
	}
	return n
}

// A log is compared with the text of a page once, and again only if one of them is another, or if the sequencer asks about
// further changes, also while the log is being compared.
func TestALogOfAPageIsComparedOnce(t *testing.T) {
	const url = "page+http://a.example/"
	b, w := newBench(t), &heldWorker{}
	ws := &witnesses{common: b.common, records: map[overlay.ID]*sightRecord{}, entries: &entries{common: b.common, worker: w}, contest: func(overlay.ID, string, *sightRecord) {}}
	version := func(n byte) difference.Version { return difference.Version{ID: feed.ID{n}} }
	sequencer := env.PeerID("sequencer")
	ask := func(of ...difference.Version) { ws.want(key, url, sequencer, of, false) }
	const once = 2 // jobs: the entries are decoded, and compared

	r := ws.record(key)
	r.page, r.at = r.page.Next(&page.Core{Lines: []string{"News"}}), b.now
	ask(version(1))
	ask(version(1), version(2)) // meanwhile
	if n := w.goOn(); n != 2*once {
		t.Errorf("%d jobs for two requests", n)
	}
	for range 3 {
		ask(version(1), version(2))
		ask(version(2))
	}
	if n := w.goOn(); n != 0 {
		t.Errorf("%d jobs for what was compared", n)
	}
	r.page = r.page.Next(&page.Core{Lines: []string{"More news"}})
	ask(version(2))
	if n := w.goOn(); n != once {
		t.Errorf("%d jobs for another text", n)
	}
	r.judged.seen = []difference.Version{version(2)}
	for range 2 { // the first sighting may be lost
		ask(version(2))
	}
	if n := w.goOn(); n != 0 || len(b.sent) != 2 || b.sent[1].GetSight() == nil {
		t.Errorf("%d jobs, sent %v", n, b.sent)
	}
}
