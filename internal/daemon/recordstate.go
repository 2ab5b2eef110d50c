package daemon

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"tidings/feedtree"
	"tidings/internal/news"
	"tidings/overlay/owner"
)

// This file keeps track of which feeds the journal has completely, and finds that out again after a restart.

// A wholeRecord says when all of a complete feed was recorded, how many items it had, and how many were recorded since.
type wholeRecord struct {
	at     time.Time
	length int // 0 after a start
	items  int
	// awaited is the last entry of the log that the journal has, after a start, until this node knows that readers see it. An owner
	// has to hear again that the last entry of its log is committed, and that entry may be cut off.
	awaited owner.Hash
}

// checkpoint names the state of a feed whose log ends with an entry, and says when all of it was recorded.
func checkpoint(last owner.Hash, whole time.Time) []byte {
	return binary.BigEndian.AppendUint64(last[:], uint64(whole.Unix()))
}

// resume continues from what the journal has of a feed. It reports false if the feed has to be recorded as a whole.
func (r *recorder) resume(s feedtree.Subscription) bool {
	recorded, err := r.journal.Checkpoint(news.Source{URL: s.URL})
	if err != nil || len(recorded) != len(s.Logged)+8 || s.Logged == (owner.Hash{}) || owner.Hash(recorded) != s.Logged {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.whole[s.URL] = wholeRecord{at: time.Unix(int64(binary.BigEndian.Uint64(recorded[len(s.Logged):])), 0), awaited: s.Logged}
	return true
}

// nameState names what a document shows, if the journal has all of the feed with it: what is marked has been read, and the
// subscription has no condition other than the log under which readers see items.
func (r *recorder) nameState(url string, doc *news.Document, s feedtree.Subscription, shown owner.Hash) {
	if !doc.Complete || shown != s.Logged || attributesOf(s).RequiredProvenance != "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, pending := r.feeds[url]
	switch since, known := r.whole[url]; {
	case !doc.Part:
		doc.Checkpoint = checkpoint(s.Logged, time.Now())
	case known && !pending:
		doc.Checkpoint = checkpoint(s.Logged, since.at)
	}
}

// shows reports whether readers see the item of an event. After a crash a log may lack its last entries for a while, although
// events tell of them.
func (r *recorder) shows(ctx context.Context, e *news.Event) (bool, error) {
	r.mu.Lock()
	since, current := r.whole[e.URL]
	r.mu.Unlock()
	if e.URL != "" && since.awaited != (owner.Hash{}) {
		log, err := ask(ctx, r, func(answer func(readableLog)) {
			key := r.key(e.URL)
			owners := r.node.NodeOf(key).Owners
			shows := slices.ContainsFunc(owners.Visible(key), func(entry *owner.Entry) bool { return entry.Hash == since.awaited })
			answer(readableLog{shows, !owners.Has(key, since.awaited)})
		})
		if err != nil {
			return false, err
		}
		current = r.catchUp(e.URL, log)
	}
	if !current && e.URL != "" {
		return false, nil
	}
	return r.journal.Shows(e)
}

// A readableLog says how far readers see the log of a feed: whether they see an entry, and whether the log lacks it.
type readableLog struct{ shows, lacks bool }

// catchUp notes how far readers see the log of a feed that was not read since the start, and reports whether they see all that the
// journal has of it. A feed whose log lacks some of that is recorded as a whole.
func (r *recorder) catchUp(url string, log readableLog) bool {
	r.mu.Lock()
	since, known := r.whole[url]
	marked := r.feeds[url] != nil && r.feeds[url].all
	if known && log.shows {
		since.awaited = owner.Hash{}
		r.whole[url] = since
	}
	r.mu.Unlock()
	if known && log.lacks && !marked {
		r.mark(url)
	}
	return known && log.shows
}
