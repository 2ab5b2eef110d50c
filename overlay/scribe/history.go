package scribe

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// history remembers the messages that passed: for minutes the messages themselves, which children that
// come later may lack, and for longer their ids, by which duplicates are recognised.
type history struct {
	recent    map[overlay.ID][]recentMessage // by group, not older than recentTTL, the oldest first
	keptBytes int                            // bytes of the messages in recent
	seen      [2]map[messageKey]env.PeerID   // messages of the current and the previous period, with the peer that first sent them; "": not received from a peer
	ticks     int                            // calls of tick since the last rotation of seen
}

// A recentMessage is a message that was forwarded not long ago.
type recentMessage struct {
	id    uint64
	at    time.Time
	frame []byte
}

// A messageKey identifies a message. It contains the group, because publishers choose ids, and must
// not be able to suppress a message of one group by another's.
type messageKey struct {
	group overlay.ID
	id    uint64
}

func newHistory() *history {
	return &history{recent: map[overlay.ID][]recentMessage{}, seen: [2]map[messageKey]env.PeerID{{}, {}}}
}

// keep keeps a forwarded message for children that come later, and reports whether maxKeptBytes
// allowed it.
func (h *history) keep(group overlay.ID, r recentMessage) bool {
	if len(h.recent[group]) == maxRecent {
		h.forget(group, 1)
	}
	if h.keptBytes+len(r.frame) > maxKeptBytes {
		return false
	}
	h.keptBytes += len(r.frame)
	h.recent[group] = append(h.recent[group], r)
	return true
}

// forgetOld drops messages older than recentTTL.
func (h *history) forgetOld(group overlay.ID, now time.Time) {
	of := h.recent[group]
	i := 0
	for i < len(of) && now.Sub(of[i].at) > recentTTL {
		i++
	}
	h.forget(group, i)
}

// forget drops the n oldest messages that are kept.
func (h *history) forget(group overlay.ID, n int) {
	of := h.recent[group]
	for _, r := range of[:n] {
		h.keptBytes -= len(r.frame)
	}
	if of = slices.Delete(of, 0, n); len(of) == 0 {
		delete(h.recent, group)
		return
	}
	h.recent[group] = of
}

// see reports whether a message was here before, and remembers it and the peer that first sent it, ""
// if it was none.
func (h *history) see(msg messageKey, from env.PeerID) (before bool) {
	for _, m := range h.seen {
		if by, ok := m[msg]; ok {
			if by == "" {
				m[msg] = from
			}
			return true
		}
	}
	if len(h.seen[0]) >= maxSeen/2 {
		h.rotate()
	}
	h.seen[0][msg] = from
	return false
}

// firstSender returns the peer that first sent a message; "" if the message is unknown or came from
// no peer.
func (h *history) firstSender(msg messageKey) env.PeerID {
	for _, m := range h.seen {
		if by := m[msg]; by != "" {
			return by
		}
	}
	return ""
}

// tick is called once in a sweepInterval. Ticks are counted instead of time, so that a leap of the
// clock makes no message old that other nodes still have.
func (h *history) tick() {
	if h.ticks++; h.ticks >= int(seenTTL/sweepInterval) {
		h.rotate()
	}
}

func (h *history) rotate() {
	h.seen[0], h.seen[1] = map[messageKey]env.PeerID{}, h.seen[0]
	h.ticks = 0
}
