package corona

import (
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

const (
	// moveTrust is how long an address must redirect permanently to the same feed before the new address is
	// polled directly. Web servers also answer so while they are maintained, and a feed must not be lost
	// to that. An owner who has really moved can be expected to leave the old host up for longer.
	moveTrust = 7 * 24 * time.Hour
	// moveDoubt is the number of consecutive failures at the new address after which every second poll asks
	// the old one.
	moveDoubt = 4
)

// A move is a permanent redirect of a channel with the same feed behind it. Readers and the channel keep
// the old address.
type move struct {
	to    string     // the new address; "": the channel has not moved
	since env.Moment // when the channel's address was first seen to redirect there
}

// note notes where a poll of the channel has ended that gave a document of this feed. asked is the address
// that was asked: the channel's own or, if it is trusted, the new one. moved is the target of permanent
// redirects, and final the address of the document. A new address may move on, but only an answer of the
// old one shows that the feed is back there.
func (m *move) note(url, asked, moved, final string, now time.Time) {
	switch {
	case moved == url:
		*m = move{}
	case asked != url:
		if asked == m.to && moved != "" {
			m.to = moved
		}
	case moved == "" && final != m.to:
		*m = move{} // the old address has the document again
	case moved != "" && moved != m.to:
		*m = move{moved, env.MomentOf(now)}
	}
}

// trusted returns the new address if it is polled in place of the old one, and otherwise "".
func (m *move) trusted(now time.Time) string {
	if m.to == "" || now.Sub(m.since.Time()) < moveTrust {
		return ""
	}
	return m.to
}

// maxSeenMoves bounds the channels of which a node remembers a redirect that it has seen. At the bound all are forgotten, and
// the next poll of each asks its own address.
const maxSeenMoves = 20_000

// seenMove is what this node has seen of a channel's move itself.
type seenMove struct {
	to    string // to which a request of this node for the channel's own address was redirected permanently; "": none was
	fails int    // consecutive failures at the channel's own address, while its sequencer says that it has moved
}

// address returns the address that a channel's document is fetched from: its own or, if the feed has moved, the new one.
// A sequencer could name any address, and so aim pollers at a web server that has nothing to do with the feed. A node
// therefore asks the new address only if it has itself been redirected there from the channel's own address. If the old
// host is gone before that, only the owners of the channel ask the new address, and count this as a poll without a grant of
// the new domain. After several failures at the new address each second poll asks the old one, which may have the feed again. at
// is "" if the feed has not moved.
func (rq *requests) address(key overlay.ID, url, at string, fails int, now time.Time) string {
	if m := rq.moves[key]; at != "" && (fails < moveDoubt || fails%2 == 1) &&
		(m.to == at || m.fails >= moveDoubt && rq.app.Owns(key) && rq.mayAskUngranted(at, now)) {
		return at
	}
	url, _ = feed.DocumentURL(url)
	return url
}

// mayAskUngranted says whether an address may be asked without a grant of its domain, and notes that it is.
func (rq *requests) mayAskUngranted(at string, now time.Time) bool {
	d := rq.domains.refer(Origin(at))
	defer rq.domains.release(d)
	return rq.domains.takeUngranted(d, now)
}

// noteMove notes what a poll of a channel shows of its move: the address that was asked, where permanent redirects led,
// and how the poll went. at is where the channel's sequencer says that it has moved.
func (rq *requests) noteMove(key overlay.ID, url, at, asked, moved string, verdict coronapb.State_Kind) {
	m, ok := rq.moves[key], verdict == coronapb.State_OK
	silent := verdict != coronapb.State_LIMITED && verdict != coronapb.State_REFUSED // a host that refuses polls is still there
	switch own, _ := feed.DocumentURL(url); {
	case asked == own && ok:
		m = seenMove{to: moved}
	case asked == own && at != "" && silent:
		m.fails++
	case asked == m.to && moved != "" && ok:
		m.to = moved
	}
	if m == (seenMove{}) {
		delete(rq.moves, key)
		return
	}
	if len(rq.moves) >= maxSeenMoves {
		clear(rq.moves)
	}
	rq.moves[key] = m
}
