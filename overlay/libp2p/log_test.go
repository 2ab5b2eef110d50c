package libp2p

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/multiformats/go-multiaddr"
	"go.uber.org/zap"
)

func TestLibrariesLogThroughSlog(t *testing.T) {
	var out bytes.Buffer
	handler := warningsAsDebug{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})}
	z := zap.New(&zapCore{handler}).Named("dht").With(zap.String("who", "me"))
	z.Info("chatter")
	z.Warn("trouble", zap.Int("times", 3))
	slog.New(handler.WithGroup("g").WithAttrs([]slog.Attr{slog.Int("n", 1)})).Error("worse")
	for _, want := range []string{"level=DEBUG", "msg=trouble", "logger=dht", "times:3", "who:me", "level=ERROR", "msg=worse", "g.n=1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "chatter") {
		t.Errorf("chatter in:\n%s", &out)
	}
}

// The reason why a node was not reached fits on one line, with a few words for each address.
func TestADialErrorIsOneLine(t *testing.T) {
	at := func(address string, cause error) swarm.TransportError {
		return swarm.TransportError{Address: multiaddr.StringCast(address), Cause: cause}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("as it is"), "as it is"},
		{&swarm.DialError{Cause: swarm.ErrNoGoodAddresses}, "none of its addresses can be dialled from here"},
		{&swarm.DialError{Cause: context.DeadlineExceeded}, "not reached (no answer)"},
		{&swarm.DialError{Cause: swarm.ErrAllDialsFailed, DialErrors: []swarm.TransportError{
			at("/ip4/192.0.2.1/tcp/1", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}),
			at("/ip4/192.0.2.1/tcp/2", fmt.Errorf("handshake: %w", sec.ErrPeerIDMismatch{})),
			at("/ip4/192.0.2.1/tcp/3", errors.New("two\nlines")),
		}}, "not reached (/ip4/192.0.2.1/tcp/1: connection refused; /ip4/192.0.2.1/tcp/2: a node with another peer id answers; /ip4/192.0.2.1/tcp/3: two lines)"},
	} {
		if got := plainDialError(fmt.Errorf("dial: %w", c.err)); strings.TrimPrefix(got.Error(), "dial: ") != c.want || !errors.Is(got, c.err) {
			t.Errorf("%v; want %s", got, c.want)
		}
	}
}

// The address to give to others comes first.
func TestPublicAddressesComeFirst(t *testing.T) {
	var addrs []multiaddr.Multiaddr
	for _, a := range []string{"/ip4/127.0.0.1/tcp/1", "/ip4/10.0.0.7/tcp/1", "/ip6/::1/tcp/1", "/ip4/192.168.1.7/tcp/1", "/ip4/8.8.8.8/udp/1/quic-v1", "/dns4/node.example.org/tcp/1", "/ip4/8.8.8.8/tcp/1"} {
		addrs = append(addrs, multiaddr.StringCast(a))
	}
	want := "[/ip4/8.8.8.8/udp/1/quic-v1 /dns4/node.example.org/tcp/1 /ip4/8.8.8.8/tcp/1 /ip4/10.0.0.7/tcp/1 /ip4/192.168.1.7/tcp/1 /ip4/127.0.0.1/tcp/1 /ip6/::1/tcp/1]"
	if got := fmt.Sprint(publicFirst(addrs)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
