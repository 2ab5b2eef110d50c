package libp2p

import (
	"fmt"
	"strings"
	"testing"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// exchangeRefusal sends a frame from a to b, and returns the reason of the refusal that each side then knows.
func exchangeRefusal(t *testing.T, a, b *testHost) (atA, atB string) {
	t.Helper()
	a.Send(b.Peer(), env.Control, []byte("hello?"))
	wait(t, "the refusal on both sides", func() bool { return len(a.Refusals()) == 1 && len(b.Refusals()) == 1 })
	if r := a.Refusals()[0]; r.ByUs || r.Peer != b.ID() {
		t.Errorf("the dialling host remembers %+v", r)
	}
	if r := b.Refusals()[0]; !r.ByUs || r.Peer != a.ID() {
		t.Errorf("the dialled host remembers %+v", r)
	}
	wait(t, "the frame to be dropped", func() bool {
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
		t.Errorf("stats of the dialling host %+v", s)
	}
	if len(a.frames)+len(b.frames) > 0 {
		t.Error("a frame came through")
	}
	atA, atB = a.Refusals()[0].Reason, b.Refusals()[0].Reason
	for h, reason := range map[*testHost]string{a: atA, b: atB} {
		if n := strings.Count(h.logged.String(), "level=WARN"); n != 1 || !strings.Contains(h.logged.String(), strings.ReplaceAll(reason, `"`, `\"`)) {
			t.Errorf("%d warnings about %q in:\n%v", n, reason, h.logged)
		}
	}
	return atA, atB
}

func TestAPeerOfAnotherNetworkIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	a := startTestHost(t, nil)
	b := startTestHost(t, func(c *Config) { c.Descriptor = descriptor("other") })
	atA, atB := exchangeRefusal(t, a, b)
	const want = `the node that was asked is in network "other", and the node that asks wants "lab"`
	if atA != want || atB != want {
		t.Errorf("reasons %q and %q, want %q", atA, atB, want)
	}
}

func TestAPeerWithOtherParametersIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	n := wire.DefaultNetwork("lab")
	n.PrivateAddresses, n.Owners = true, 7
	a := startTestHost(t, nil)
	b := startTestHost(t, func(c *Config) { c.Descriptor = n.Descriptor() })
	if atA, atB := exchangeRefusal(t, a, b); atA != atB || !strings.Contains(atA, "other settings") {
		t.Errorf("reasons %q and %q", atA, atB)
	}
}

func TestAPeerOfAnotherVersionIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	a, b := newTestHost(t, nil), startTestHost(t, nil)
	newer := *a.side.Load()
	newer.MinVersion, newer.MaxVersion = 7, 9
	a.side.Store(&newer)
	a.start()
	want := fmt.Sprintf("the dialled node speaks %d to %d, and the dialling one 7 to 9", wire.MinVersion, wire.Version)
	if atA, atB := exchangeRefusal(t, a, b); atA != atB || !strings.Contains(atA, want) {
		t.Errorf("reasons %q and %q", atA, atB)
	}
}

func TestHostThatDoesNotRunIsBusy(t *testing.T) {
	t.Parallel()
	a, b := startTestHost(t, nil), newTestHost(t, nil)
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
