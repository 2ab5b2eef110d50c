package corona

import (
	"time"

	"tidings/internal/feed"
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
	to    string    // the new address; "": the channel has not moved
	since time.Time // when the channel's address was first seen to redirect there
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
		*m = move{moved, now}
	}
}

// trusted returns the new address if it is polled in place of the old one, and otherwise "".
func (m *move) trusted(now time.Time) string {
	if m.to == "" || now.Sub(m.since) < moveTrust {
		return ""
	}
	return m.to
}

// address returns the address that a channel's document is fetched from: the new one at which it is
// polled, or its own. After several failures each second poll asks the old address, which may have the
// feed again. at is "" if the feed has not moved.
func address(url, at string, fails int) string {
	if at != "" && (fails < moveDoubt || fails%2 == 1) {
		return at
	}
	url, _ = feed.DocumentURL(url)
	return url
}
