package scribe

import (
	"testing"

	"tidings/internal/env"
)

func TestKnownMessagesAreBounded(t *testing.T) {
	h := newHistory()
	for i := range 2*maxSeen + 10 {
		if h.see(messageKey{id: uint64(i)}, "") {
			t.Fatalf("message %d is known before it came", i)
		}
		if n := len(h.seen[0]) + len(h.seen[1]); n > maxSeen {
			t.Fatalf("%d messages are known", n)
		}
	}
	if !h.see(messageKey{id: 2*maxSeen + 9 - maxSeen/2}, "") {
		t.Error("the newer half is forgotten too")
	}
}

// The peer that brought a message first is remembered, also if this node had the message from elsewhere before.
func TestTheFirstSenderIsRemembered(t *testing.T) {
	h, msg := newHistory(), messageKey{id: 7}
	for _, from := range []env.PeerID{"", "a", "b"} {
		h.see(msg, from)
	}
	if by := h.firstSender(msg); by != "a" {
		t.Errorf("the first sender is %q", by)
	}
	for range 2 * int(seenTTL/sweepInterval) {
		h.tick()
	}
	if by := h.firstSender(msg); by != "" || h.see(msg, "c") {
		t.Errorf("after %v the message of %q is still known", 2*seenTTL, by)
	}
}
