package libp2p

import (
	"fmt"
	"strings"
	"testing"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// refused sends from a to b and returns the words that each side then knows.
func refused(t *testing.T, a, b *tester) (atA, atB string) {
	t.Helper()
	a.Send(b.Peer(), env.Control, []byte("hello?"))
	wait(t, "words on both sides", func() bool { return len(a.Refusals()) == 1 && len(b.Refusals()) == 1 })
	if r := a.Refusals()[0]; r.ByUs || r.Peer != b.ID() {
		t.Errorf("dialler remembers %+v", r)
	}
	if r := b.Refusals()[0]; !r.ByUs || r.Peer != a.ID() {
		t.Errorf("dialled remembers %+v", r)
	}
	wait(t, "the frame to be given up", func() bool {
		s := a.Stats()
		return s.Control.Drops.Unreachable+s.Control.Drops.Refused == 1
	})
	// Neither side tries again.
	a.Send(b.Peer(), env.Control, []byte("hello again?"))
	b.Send(a.Peer(), env.Control, []byte("who?"))
	wait(t, "frames to be refused at once", func() bool {
		return a.Stats().Control.Drops.Refused >= 1 && b.Stats().Control.Drops.Refused == 1
	})
	if s := a.Stats(); s.Dials != 1 || s.Refusals != 1 {
		t.Errorf("stats of the dialler %+v", s)
	}
	if len(a.letters)+len(b.letters) > 0 {
		t.Error("a frame came through")
	}
	atA, atB = a.Refusals()[0].Words, b.Refusals()[0].Words
	for h, words := range map[*tester]string{a: atA, b: atB} {
		if n := strings.Count(h.logged.String(), "level=WARN"); n != 1 || !strings.Contains(h.logged.String(), strings.ReplaceAll(words, `"`, `\"`)) {
			t.Errorf("%d warnings about %q in:\n%v", n, words, h.logged)
		}
	}
	return atA, atB
}

func TestOtherNetworkIsRefusedWithWords(t *testing.T) {
	t.Parallel()
	a := running(t, nil)
	b := running(t, func(c *Config) { c.Descriptor = descriptor("other") })
	atA, atB := refused(t, a, b)
	const want = `the node that was asked is in network "other", and the node that asks wants "lab"`
	if atA != want || atB != want {
		t.Errorf("words %q and %q, want %q", atA, atB, want)
	}
}

func TestOtherParametersAreRefusedWithWords(t *testing.T) {
	t.Parallel()
	n := wire.DefaultNetwork("lab")
	n.PrivateAddresses, n.Owners = true, 7
	a := running(t, nil)
	b := running(t, func(c *Config) { c.Descriptor = n.Descriptor() })
	if atA, atB := refused(t, a, b); atA != atB || !strings.Contains(atA, "other settings") {
		t.Errorf("words %q and %q", atA, atB)
	}
}

func TestOtherVersionIsRefusedWithWords(t *testing.T) {
	t.Parallel()
	a, b := made(t, nil), running(t, nil)
	newer := *a.side.Load()
	newer.MinVersion, newer.MaxVersion = 7, 9
	a.side.Store(&newer)
	a.start()
	want := fmt.Sprintf("the dialled node speaks %d to %d, and the dialling one 7 to 9", wire.MinVersion, wire.Version)
	if atA, atB := refused(t, a, b); atA != atB || !strings.Contains(atA, want) {
		t.Errorf("words %q and %q", atA, atB)
	}
}

func TestHostThatDoesNotRunIsBusy(t *testing.T) {
	t.Parallel()
	a, b := running(t, nil), made(t, nil)
	a.Send(b.Peer(), env.Control, []byte("hello?"))
	wait(t, "a refusal", func() bool { return a.Stats().Refusals == 1 })
	if r := a.Refusals(); len(r) != 0 {
		t.Errorf("remembers %+v", r)
	}
	b.start()
	wait(t, "the link", func() bool {
		a.Send(b.Peer(), env.Control, []byte("hello?"))
		return b.Stats().Control.FramesIn > 0
	})
}
