package libp2p

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	golibp2p "github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// connectBareHost returns a bare libp2p host that is connected to h.
func connectBareHost(t *testing.T, h *testHost) host.Host {
	t.Helper()
	s, err := golibp2p.New(append(transports(), golibp2p.ListenAddrStrings(onTCP...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	info, ok := infoOf(h.Peer())
	if !ok {
		t.Fatalf("peer %+v", h.Peer())
	}
	if err := s.Connect(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	return s
}

// openStream opens a stream of a class from a bare host, and writes to it.
func openStream(t *testing.T, from host.Host, to *testHost, class env.Class, sends ...[]byte) network.Stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := from.NewStream(ctx, to.host.ID(), classProtocols[class])
	if err != nil {
		t.Fatal(err)
	}
	_ = s.SetDeadline(time.Now().Add(patience))
	for _, b := range sends {
		if _, err := s.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// helloFrame returns a valid Hello for network "lab".
func helloFrame() []byte {
	return wire.AppendDelimited(nil, wire.Side{Name: "lab", Descriptor: descriptor("lab")}.Hello())
}

// openWelcomed opens a stream and reads the Welcome.
func openWelcomed(t *testing.T, from host.Host, to *testHost, class env.Class) network.Stream {
	t.Helper()
	s := openStream(t, from, to, class, helloFrame())
	if _, err := wire.ReadDelimited(bufio.NewReader(s), wire.MaxHello); err != nil {
		t.Fatal(err)
	}
	return s
}

// waitForEnd waits until the other side closes a stream.
func waitForEnd(t *testing.T, s network.Stream) {
	t.Helper()
	_, err := io.Copy(io.Discard, s)
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		t.Error("the stream was not ended")
	}
}

func TestGarbageHandshakesAreCounted(t *testing.T) {
	t.Parallel()
	h := startTestHost(t, nil)
	for name, garbage := range map[string][]byte{
		"no length":     bytes.Repeat([]byte{0xff}, 100),
		"too long":      wire.AppendDelimited(nil, make([]byte, wire.MaxHello+1)),
		"length bomb":   {0xff, 0xff, 0xff, 0xff, 0x7f},
		"no message":    wire.AppendDelimited(nil, []byte("GET / HTTP/1.1")),
		"other version": []byte("\x13/multistream/1.0.0\n"),
	} {
		before := h.Stats()
		s := openStream(t, connectBareHost(t, h), h, env.Control)
		_, _ = s.Write(garbage) // the stream may be closed before all of it is written
		_ = s.CloseWrite()
		waitForEnd(t, s)
		wait(t, name+" to be counted", func() bool { return h.Stats().BadHandshakes == before.BadHandshakes+1 })
	}
	if len(h.frames) > 0 {
		t.Error("garbage reached the node")
	}
}

func TestSlowHandshakeIsEnded(t *testing.T) {
	t.Parallel()
	h := startTestHost(t, nil)
	s := openStream(t, connectBareHost(t, h), h, env.Control, helloFrame()[:3])
	waitForEnd(t, s)
	wait(t, "the slow handshake to be counted", func() bool { return h.Stats().BadHandshakes == 1 })
}

func TestOversizeFrameEndsTheStream(t *testing.T) {
	t.Parallel()
	h := startTestHost(t, nil)
	s := openWelcomed(t, connectBareHost(t, h), h, env.Bulk)
	_, _ = s.Write(wire.AppendDelimited(nil, make([]byte, env.MaxFrame)))
	next(t, "a frame of the largest size", h.frames)
	_, _ = s.Write(wire.AppendDelimited(nil, make([]byte, env.MaxFrame+1)))
	waitForEnd(t, s)
	wait(t, "the oversize frame to be counted", func() bool { return h.Stats().BadFrames == 1 && h.Stats().LinksIn == 0 })
}

// A flood is read as slowly as one peer may send. It is no reason to close the link.
func TestAFloodIsReadAtTheRateLimit(t *testing.T) {
	t.Parallel()
	for class, a := range receiveLimits {
		t.Run(env.Class(class).String(), func(t *testing.T) {
			t.Parallel()
			h := startTestHost(t, nil)
			begun := time.Now()
			s := openWelcomed(t, connectBareHost(t, h), h, env.Class(class))
			flood := 2*a.frameBurst + 1
			go func() { _, _ = s.Write(bytes.Repeat(wire.AppendDelimited(nil, []byte("x")), flood)) }()
			for range flood {
				next(t, "a frame of a flood", h.frames)
			}
			soonest := time.Duration(a.frameBurst) * time.Second / time.Duration(a.frames)
			if took := time.Since(begun); took < soonest {
				t.Errorf("%d frames were accepted within %v", flood, took)
			}
			st := h.Stats()
			if c := []ClassStats{st.Control, st.Bulk}[class]; c.Slowed == 0 || st.Gated != 0 || st.LinksIn != 1 {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

// A host that sends as fast as it can is paced. Frames that its queue did not drop arrive in order, and the
// receiver never has to slow it down.
func TestABusyPeerIsNotBlocked(t *testing.T) {
	t.Parallel()
	a, b := startTestHost(t, nil), startTestHost(t, nil)
	const all = 20000
	for i := range all {
		a.Send(b.Peer(), env.Control, fmt.Appendf(nil, "%05d", i))
	}
	last, got := "", 0
	for last != fmt.Sprintf("%05d", all-1) {
		l := next(t, "the rest of the frames", b.frames)
		if l.frame <= last {
			t.Fatalf("%s came after %s", l.frame, last)
		}
		last = l.frame
		got++
	}
	sent, taken := a.Stats(), b.Stats()
	if lost := sent.Control.Drops.QueueFull; got+int(lost) != all || lost == 0 {
		t.Errorf("%d arrived, and %d were dropped of %d", got, lost, all)
	}
	if taken.Control.Slowed > 0 || taken.Gated > 0 || sent.Gated > 0 || taken.LinksIn != 1 {
		t.Errorf("stats %+v\nand %+v", sent, taken)
	}
}

// A link sends a burst, and then at most what the peer accepts.
func TestLinkIsPaced(t *testing.T) {
	t.Parallel()
	a, b := startTestHost(t, nil), startTestHost(t, nil)
	limit := sendLimit(env.Control)
	begun := time.Now()
	all := limit.frameBurst + limit.frames
	for n := 0; n < all; n++ {
		if n%100 == 0 { // so that the queue drops none
			wait(t, "the link to send", func() bool { return a.Stats().Control.FramesOut+200 > uint64(n) })
		}
		a.Send(b.Peer(), env.Control, []byte("x"))
	}
	for range all {
		next(t, "a frame", b.frames)
	}
	s := a.Stats().Control
	took := time.Since(begun)
	slow := took > time.Second*5/4 // the machine is too slow to have sent them earlier
	if took < time.Second*9/10 || s.Paced == 0 && !slow || s.Drops.QueueFull > 0 {
		t.Errorf("%d frames were sent within %v: %+v", all, took, s)
	}
	if n := b.Stats().Control.Slowed; n > 0 {
		t.Errorf("the peer delayed %d frames", n)
	}
}

func TestNewerStreamReplacesTheOlder(t *testing.T) {
	t.Parallel()
	h := startTestHost(t, nil)
	from := connectBareHost(t, h)
	older := openWelcomed(t, from, h, env.Control)
	newer := openWelcomed(t, from, h, env.Control)
	waitForEnd(t, older)
	_, _ = newer.Write(wire.AppendDelimited(nil, []byte("still here")))
	if got := next(t, "a frame on the newer stream", h.frames); got.frame != "still here" {
		t.Errorf("got %v", got)
	}
	if n := h.Stats().LinksIn; n != 1 {
		t.Errorf("%d streams", n)
	}
}

func TestBlameBlocksAPeer(t *testing.T) {
	t.Parallel()
	a, b := startTestHost(t, nil), startTestHost(t, nil)
	a.Send(b.Peer(), env.Control, []byte("nonsense"))
	next(t, "a frame", b.frames)
	for range maxViolations - 1 {
		b.Blame(a.ID())
	}
	if s := b.Stats(); s.Gated != 0 || s.Connections != 1 {
		t.Errorf("blocked too early: %+v", s)
	}
	b.Blame(a.ID())
	next(t, "the connection to end", a.downs)
	if s := b.Stats(); s.Gated != 1 || s.BadFrames != maxViolations {
		t.Errorf("stats %+v", s)
	}
	if n := strings.Count(b.logged.String(), "peer blocked"); n != 1 {
		t.Errorf("%d log lines:\n%v", n, b.logged)
	}
	// The peer cannot reconnect from either side.
	b.Send(a.Peer(), env.Control, []byte("hello?"))
	wait(t, "the frame to be refused", func() bool { return b.Stats().Control.Drops.Refused == 1 })
	dials := a.Stats().DialFailures
	wait(t, "a dial to be refused", func() bool {
		a.Send(b.Peer(), env.Control, []byte("let me in"))
		return a.Stats().DialFailures > dials
	})
	if s := b.Stats(); s.LinksIn != 0 || len(b.frames) != 0 {
		t.Errorf("the peer reconnected: %+v", s)
	}
}

// The peer accepts a link and then reads nothing.
func TestASlowPeerLosesTheOldestFrames(t *testing.T) {
	t.Parallel()
	h := startTestHost(t, nil)
	s := connectBareHost(t, h)
	taken := make(chan network.Stream, 1)
	s.SetStreamHandler(classProtocols[env.Bulk], func(st network.Stream) {
		side := wire.Side{Name: "lab", Descriptor: descriptor("lab")}
		b, err := wire.ReadDelimited(bufio.NewReaderSize(st, 1), wire.MaxHello)
		if err != nil {
			t.Error(err)
		}
		reply, _, err := side.Answer(b)
		if err != nil {
			t.Error(err)
		}
		_, _ = st.Write(wire.AppendDelimited(nil, reply))
		taken <- st
	})
	frame := make([]byte, 32<<10)
	start := time.Now()
	for range 2000 { // far more than the queue and the network's own buffers hold
		h.Send(env.Peer{ID: env.PeerID(s.ID())}, env.Bulk, frame)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("sending took %v", took)
	}
	next(t, "the link", taken)
	for range 2000 {
		h.Send(env.Peer{ID: env.PeerID(s.ID())}, env.Bulk, frame)
	}
	d := h.Stats().Bulk
	if d.Drops.QueueFull < 2000 || d.Drops.QueueFull+d.FramesOut+maxQueueBytes/uint64(len(frame))+1 < 4000 {
		t.Errorf("stats %+v", d)
	}
}
